"""The frozen model of a run that trains many adapters, each of which starts anew."""

from ...base.contracts import Config, Steps
from ...base.messages import UserError
from ...base.state import TrainState
from . import start
from .peft import base_of


class Frozen(start.Frozen):
    """What a checkpoint calls the frozen parameters; of an adapter, which all would start as, nothing is read."""

    def load(self, source: str, steps: Steps, config: Config) -> tuple[TrainState, list[str]]:
        """Return what `Frozen.load` of start.py does. Raises UserError for the folder of an adapter."""
        if (base := base_of(source)) != source:
            what = f"{source} is an adapter, and each of a sweep starts anew"
            raise UserError(f"--init: {what}: give the model that it is of, {base}")
        return super().load(source, steps, config)
