"""Projects that train an adapter: their own tests, which hold devices against one, and resume."""

import re
import sys

import pytest
from generated import run

from redco_new.project.create import create_project
from redco_new.request import Request


@pytest.mark.long
@pytest.mark.parametrize(
    "model, lora, further",
    [
        ("llama", "rank=4", {}),
        ("llama", "rank=4,sweep=2", {}),
        ("llama", "rank=4,base=nf4", {}),
        ("t5", "rank=4,base=int8", {}),
        ("mixtral", "rank=4,base=nf4,targets=q,gate,up,down", {"mesh": "expert=2,model=2"}),
        ("bert", "rank=4,base=int8", {"recipe": "classify-text"}),
    ],
)
def test_the_tests_of_a_project_pass(model, lora, further, tmp_path):
    further = {"mesh": "fsdp=2,model=2"} | further
    request = Request.from_flags("my-project", model, lora=lora, **further)
    folder = create_project(request, tmp_path)
    code, out, err = run(f"{sys.executable} -m pytest -q -k 'not boot'", folder)
    assert code == 0 and re.search(r"^[3-9] passed", out, re.MULTILINE), out + err
