"""What a project has where it is asked for, and does not carry otherwise: --features buckets,elastic."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from redco_new.request.lookup import list_of


@dataclass(frozen=True)
class Feature:
    """A part of the runtime that few projects need.

    what: it does, for people. modules: of the runtime, which bring it: a project has those whose packages it has.
    printed: whether files of a project import them; otherwise the runtime does, where they are there.
    since: the version of the interface from which on it is asked for: a project made before keeps it. 0: the first that had it.
    former: the modules that had it before; () for the same.
    """

    what: str
    modules: tuple[str, ...]
    printed: bool = True
    since: int = 0
    former: tuple[str, ...] = ()


def paths(package: str, modules: Iterable[str]) -> list[str]:
    """Return where a project of that package has modules of the runtime."""
    return [f"{package}/runtime/{module.replace('.', '/')}.py" for module in modules]


# What all projects had before it was asked for, imported by the runtime alone.
_brought = partial(Feature, printed=False, since=7)
_later = partial(Feature, printed=False, since=8)
FEATURES = {
    "adapters": _brought(
        "`--init` of a run that trained an adapter, in a project of whole matrices",
        ("checkpoints.lora_into_matrices",),
    ),
    "best": _brought(
        "`--best SCORE` and `--patience N`: the best checkpoint is kept, and ends a run",
        ("checkpoints.best",),
    ),
    "buckets": Feature(
        "gs://, s3:// and az:// in the place of folders",
        ("base.buckets", "data.prepare.shared_shards"),
        printed=False,
    ),
    "elastic": Feature(
        "`launch --elastic`: go on with fewer hosts", ("cluster.elastic",), printed=False
    ),
    "gguf": Feature("`export --format gguf`, which llama.cpp opens", ("checkpoints.gguf.write",)),
    "iterators": _brought(
        "examples() of pipeline.py that have no length, such as iterators",
        ("data.iterators",),
        former=("data.example_streams",),
    ),
    "mixtures": _later(
        "weights of `--data`: each file has its share of a run",
        ("data.text.weighted",),
        former=("data.text.mixture",),
    ),
    "muon": Feature("`--algorithm muon` among the optimizers", ("step.muon",)),
    "preview": _brought(
        "`prepare --preview N`: rows as they are learned from",
        ("data.preview",),
    ),
    "profile": Feature(
        "`--profile 10:13`: a trace of these steps", ("monitor.profiling",), since=7
    ),
    "rollouts": Feature("`grpo --rollouts URL`: a server draws the answers", ("actors.served",)),
    "push": Feature("`export --push ORG/NAME`, to the hub", ("checkpoints.publish",)),
    "settings": _later(
        "`--settings FILE`: flags in a file of TOML, as each run then writes one",
        ("run.settings_file",),
    ),
    "streaming": _brought(
        "`--streaming`: `--data` is tokenized as it is read",
        ("data.text.streaming",),
    ),
    "tables": _later(
        "`--data` of Parquet, Arrow and hf:NAME, beside JSON and text; `--image-data`",
        ("data.prepare.tables", "data.pictures.tables"),
    ),
    "trackers": _later(
        "`--log tensorboard`, wandb, trackio: what they show of a run",
        ("monitor.trackers",),
        former=("monitor.loggers",),
    ),
}


def check_features(where: str, value: Any) -> tuple[str, ...]:
    """Return features by name, each once, in our order; of `buckets,muon`, or of a list. Raises RedcoError."""
    words = [name for name in value.split(",") if name] if isinstance(value, str) else value
    names = list_of("feature", where, words, FEATURES, '["buckets", "muon"]')
    return tuple(name for name in FEATURES if name in names)


def features_with(package: str, has: Callable[[str], bool]) -> set[str]:
    """Return those whose module a project of that package has. has: tells of a path in the project."""
    return {name for name, x in FEATURES.items() if any(map(has, paths(package, x.modules)))}


def features_kept(package: str, interface: int, has: Callable[[str], bool]) -> set[str]:
    """Return those that a project made for an interface had before they were asked for. has: tells of a path of today."""
    since = {name: x.former or x.modules for name, x in FEATURES.items() if interface < x.since}
    return {name for name, modules in since.items() if any(map(has, paths(package, modules)))}
