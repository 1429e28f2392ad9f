"""The code of a model's class is compared as processes meet, by boot.py, and no call of train.py does so."""

from redco_merge.migrate.codemods import Migration

CLUSTER = "project.runtime.cluster"
SAME = "check_same_code"
TODO = "no call: boot.py compares the code of the model's class with what else processes must have alike"

MIGRATION = Migration(
    9,
    "the code of a model's class is compared as processes meet",
    (),
    {f"{CLUSTER}.agreement.{SAME}": TODO, f"{CLUSTER}.same_code.{SAME}": TODO},
)
