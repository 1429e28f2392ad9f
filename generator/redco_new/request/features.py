"""What a project has where it is asked for, and does not carry otherwise: --features buckets,elastic."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from redco_new.request.lookup import list_of


@dataclass(frozen=True)
class Feature:
    """A part of the runtime that few projects need.

    what: it does, for people. module: of the runtime, which brings it.
    printed: whether files of a project import that; otherwise the runtime does, where it is there.
    """

    what: str
    module: str
    printed: bool = True

    def path(self, package: str) -> str:
        """Return where a project of that package has it."""
        return f"{package}/runtime/{self.module.replace('.', '/')}.py"


FEATURES = {
    "buckets": Feature("gs://, s3:// and az:// in the place of folders", "base.buckets", False),
    "elastic": Feature(
        "`launch --elastic`: go on with fewer hosts", "cluster.elastic", printed=False
    ),
    "gguf": Feature("`export --format gguf`, which llama.cpp opens", "checkpoints.gguf.write"),
    "muon": Feature("`--algorithm muon` among the optimizers", "step.muon"),
    "rollouts": Feature("`grpo --rollouts URL`: a server draws the answers", "actors.served"),
    "push": Feature("`export --push ORG/NAME`, to the hub", "checkpoints.publish"),
}


def check_features(where: str, value: Any) -> tuple[str, ...]:
    """Return features by name, each once, in our order; of `buckets,muon`, or of a list. Raises RedcoError."""
    words = [name for name in value.split(",") if name] if isinstance(value, str) else value
    names = list_of("feature", where, words, FEATURES, '["buckets", "muon"]')
    return tuple(name for name in FEATURES if name in names)


def features_with(package: str, has: Callable[[str], bool]) -> set[str]:
    """Return those whose module a project of that package has. has: tells of a path in the project."""
    return {name for name, feature in FEATURES.items() if has(feature.path(package))}
