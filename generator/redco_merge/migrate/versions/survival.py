"""Runs survive: boot compares facts of a run by name, and has what is compiled cached; names that moved."""

from redco_merge.migrate.codemods import Call, Migration, Rename

EXAMPLES = "redco_runtime.text.examples.text_examples"
TEXTS = f"{EXAMPLES}(config.data, tokenizer, config.model.vocab_size)"
FACTS = "facts=run.facts, cache=run.cache"

MIGRATION = Migration(
    2,
    "boot compares facts by name; texts are read by redco_runtime/text",
    (
        Call("project.boot.boot(config_hash=run.fingerprint)", f"project.boot.boot({FACTS})"),
        Call(
            "project.boot.boot(virtual_devices=devices, config_hash=run.fingerprint)",
            f"project.boot.boot(virtual_devices=devices, {FACTS})",
        ),
        Rename("redco_runtime.cli.reading_parser", "redco_runtime.cli.program_parser"),
        Rename("redco_runtime.optimizers.follow", "redco_runtime.optimizers.average_parameters"),
        Call("redco_runtime.text.text_examples(config.data, tokenizer)", TEXTS),
        Call(f"{EXAMPLES}(config.data, tokenizer)", TEXTS),
    ),
    {
        "redco_runtime.text.text_examples": f"{EXAMPLES}, which takes the size of the vocabulary too",
    },
)
