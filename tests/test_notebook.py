"""The notebook of the first run: its cells do what they say, one after the other."""

import contextlib
import io
import json

import pytest
from generated import ROOT, run

PAGE = ROOT / "docs/tutorials/first-run.ipynb"


def cells():
    """The source of each cell of code."""
    notebook = json.loads(PAGE.read_text())
    assert notebook["nbformat"] == 4 and all(not cell.get("outputs") for cell in notebook["cells"])
    return ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]


def execute(source, folder, names):
    """Return (folder, what is printed) of a cell, as a kernel of IPython runs it; pip has nothing to install here."""
    printed = ""
    for line in source.splitlines():
        if line.startswith("%cd "):
            folder /= line.removeprefix("%cd ")
        elif line.startswith("!"):
            short = line.removeprefix("!").replace("--steps 200", "--steps 3")
            code, out, err = run(short, folder)
            assert code == 0, out + err
            printed += out
        else:
            assert line.startswith("%pip install --quiet ") or source[0] not in "!%", line
    if source[0] not in "!%":
        with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as out:
            exec(source, names)
        printed += out.getvalue()
    return folder, printed


@pytest.mark.slow
def test_its_cells_do_what_they_say(tmp_path):
    folder, names, printed = tmp_path, {}, []
    for source in cells():
        folder, out = execute(source, folder, names)
        printed.append(out)
    install, create, specs, train, loss, predict, update = printed
    assert install == "" and create.startswith("Created my-project.")
    assert specs.startswith("PARAMS = {\n    # V D |") and 'P("model", "fsdp")' in specs
    assert "held-out loss" in train and "checkpoint: " in train
    assert loss.startswith("loss ") and " -> " in loss
    assert predict.startswith("The ") and update == "my-project: 0 files would change.\n"
