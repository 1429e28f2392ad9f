"""How much there is to read in the runtime, as CONTRIBUTING says."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUNTIME = ROOT / "runtime" / "redco_runtime"


def test_runtime_is_as_long_as_contributing_says():
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("| runtime/redco_runtime |")[2]
    limits = {
        name: int(n.replace(",", "")) for name, n in re.findall(r"\| (\S+) \| ([\d,]+) \|", text)
    }
    lines = {
        folder.relative_to(RUNTIME).as_posix(): sum(
            len(file.read_text().splitlines()) for file in folder.glob("*.py")
        )
        for folder in (RUNTIME, *(path for path in RUNTIME.iterdir() if any(path.glob("*.py"))))
    }
    assert lines.keys() == limits.keys()
    over = {name: count for name, count in lines.items() if count > limits[name]}
    assert not over, f"lines: {over}; CONTRIBUTING.md says at most {limits}"
