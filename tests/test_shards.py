"""A number of shards that a model cannot use is refused, with those that it can."""

import re

from bad_input import complaint

from redco_new.generate.read import plan_request
from redco_new.render.template import open_template
from redco_new.request import Request


def test_shards_that_a_model_cannot_use_are_refused_with_those_that_it_can():
    error = complaint("redco-new my-project --model gpt2 --shards 100000")
    assert error.startswith(
        "redco-new: --shards 100000, or model=100000 of --mesh: the model cannot use "
    )
    (counts,) = re.findall(r"give one of ([0-9, ]+), and", error)
    first, *_, last = counts.split(", ")
    with open_template() as template:
        for count in (first, last):
            plan_request(Request.from_flags("a", "gpt2", shards=count), template)
    beyond = complaint(f"redco-new my-project --model gpt2 --shards {2 * int(last)}")
    assert "cannot use" in beyond
