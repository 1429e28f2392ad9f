"""What the runtime asks of a project's own modules: config.py, pipeline.py, weights.py, steps.py."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding

from .examples import Arrays, Example
from .state import ModelState, PyTree, TrainState
from .tensors import Tensor

Batch = dict[str, jax.Array]  # a batch on the devices


# The configuration of a run: frozen dataclasses, one a section: model, data, train; config.py says what each field means.
# `data` has sample_prompts; `train` has steps, batch_size, micro_batches, log_every, eval_every, save_every, keep, seed,
# on_nan, max_skips, spike, step_timeout, log, profile. What else they have is between config.py and pipeline.py.
Config = Any


class Pipeline(Protocol):
    """The module pipeline.py. It may be Scored and Counted too."""

    def collate(self, examples: list[Example], /) -> Arrays: ...
    def loss(self, model: Any, batch: Any, rngs: nnx.Rngs, /) -> Any: ...
    def predict(self, model: Any, batch: Any, rngs: nnx.Rngs, /) -> PyTree: ...
    def decode(self, config: Any, outputs: PyTree, examples: list[Example], /) -> list[str]: ...
    def examples(self, config: Any, /) -> tuple[Iterable[Example], Sequence[Example]]: ...
    def prompts(self, config: Any, texts: list[str], /) -> Sequence[Example]: ...


@runtime_checkable
class Scored(Protocol):
    """A pipeline that scores its predictions by name; more is better."""

    def evaluate(
        self, config: Any, outputs: PyTree, examples: Sequence[Example], /
    ) -> dict[str, float]: ...


@runtime_checkable
class Asking(Protocol):
    """A pipeline that predicts something else of held-out examples than these, to score it: a question each."""

    def questions(self, config: Any, examples: Sequence[Example], /) -> Sequence[Example]: ...


@runtime_checkable
class Sampling(Protocol):
    """A pipeline that says what is asked at each evaluation; of others it is `--sample-prompts`."""

    def sample_prompts(self, config: Any, /) -> list[str]: ...


@runtime_checkable
class Drawn(Protocol):
    """A pipeline that draws its predictions, into a .png."""

    def draw_predictions(
        self, config: Any, outputs: PyTree, examples: Sequence[Example], path: Path, /
    ) -> None: ...


@runtime_checkable
class Reported(Protocol):
    """A pipeline that says how well each class is predicted, as a ClassReport of class_report.py."""

    def report(self, config: Any, outputs: PyTree, examples: Sequence[Example], /) -> Any: ...


@runtime_checkable
class Counted(Protocol):
    """A pipeline whose throughput is counted in UNIT, such as "tokens", and not in examples."""

    UNIT: str

    def count(self, batch: Arrays, /) -> int: ...


@runtime_checkable
class Ordered(Protocol):
    """Examples whose order is their own: that of a mixture."""

    def order(self, seed: int, start: int, stop: int, /) -> np.ndarray:
        """Return the indices of the examples at the places `start` to `stop - 1` of a run: int64."""


@runtime_checkable
class Accounted(Protocol):
    """Examples with a history that checkpoints keep, and that a run goes on with which starts from another."""

    def resume(self, start: int, position: Mapping[str, Any] | None, /) -> None:
        """Start at the step `start`, after what a position says. Raises UserError."""

    def history(self, step: int, /) -> dict[str, Any]:
        """Return the position, as JSON has it, after so many steps."""


class Weights(Protocol):
    """The module weights.py of a family: what Hugging Face calls the parameters."""

    PREFIX: str
    IGNORED: Sequence[str]

    def hf_config(self, config: Any, /) -> dict[str, Any]: ...
    def tensors(self, config: Any, /) -> Mapping[str, Tensor]: ...


@runtime_checkable
class OwnWeights(Protocol):
    """The module weights.py of a class of the user's own: it reads files itself."""

    def load(self, source: str, steps: "Steps", config: Any, /) -> tuple[TrainState, list[str]]: ...


@dataclass(frozen=True)
class Steps:
    """The compiled steps of one configuration on one mesh, which steps.py builds."""

    state: TrainState  # of ShapeDtypeStructs, with shardings
    shapes: Mapping[str, jax.ShapeDtypeStruct]  # of all parameters by path, without padding
    batch: NamedSharding  # of a batch's arrays
    # (model, batch, key) -> what the pipeline's loss gives in training; not compiled
    loss: Callable[[ModelState, PyTree, jax.Array], Any]
    init: Callable[[jax.Array], TrainState]  # of a key
    start: Callable[[ModelState], TrainState]  # of a model, whose memory it takes
    train: jax.stages.Wrapped  # (state, batch) -> (state, scalars by name); takes the old state's
    # (model, batch, valid_B) -> (sums of losses * weights, as "loss", and of terms, by name; sum of weights)
    evaluate: Callable[[ModelState, PyTree, jax.Array], tuple[dict[str, jax.Array], jax.Array]]
    predict: Callable[[ModelState, PyTree, jax.Array], PyTree]  # (model, batch, key)
    options: Mapping[str, Any]  # of the compiler, by name, for the train step
    generation: Any = None  # run.generation, where the pipeline writes texts
    classes: Any = None  # data.classes, where config.py names those that the model tells apart
    rows: Sequence[str] = ()  # axes that split the batch, if no row of it depends on another
