"""What a run says of its adapter."""

from pathlib import Path
from typing import Any

from ...base.messages import UserError
from ...run.record import FILE, LORA, read


def record_of(directory: Path) -> dict[str, Any]:
    """Return the run.json of the work folder that checkpoints of an adapter lie in. Raises UserError without."""
    for folder in (directory.parent, directory.parent.parent):
        if (folder / FILE).exists():
            return read(folder / FILE)
    raise UserError(
        f"--init: {directory} holds an adapter, and there is no {FILE} beside it, which has its alpha: "
        "give the work folder of that run"
    )


def adapter_of(directory: Path) -> dict[str, Any]:
    """Return the settings of the adapter of a run. Raises UserError."""
    sections = record_of(directory)["config"]
    return dict(sections.get(LORA, sections["model"]))
