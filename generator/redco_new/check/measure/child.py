"""Measures a project: children.py runs it in a process of its own, on virtual devices of the CPU.

Its argument is JSON: project, package, part (step or run), folder (for its files), and out, a file descriptor.
It writes a line of JSON there for each {"at": what it does}, {"fact", "value"}, {"fault", "where", "what"},
{"says", "text"}, and {"done": true} at the end.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn, TextIO

from jax._src import xla_bridge  # which has no public name
from redco_new.generate.first_runs import FirstRuns
from redco_new.project.fault import in_one_line, is_users, locate_fault

# Of what is generated, in the order that names a fault where it is; a user may have deleted some.
MODULES = (
    *("sharding", "model", "config", "pipeline", "boot"),
    *("steps", "weights", "train", "predict", "evaluate", "export", "prepare"),
)
STEPS = 4  # of a run, which is resumed in the middle
ROWS = 8  # of a batch, at least
RUNS = "runs"


class Stop(Exception):
    """Nothing more can be measured: what is wrong was told."""


@dataclass
class Project:
    """The project under measure.

    mesh: axis -> devices, as its tests have them.  config: of its preset tiny, for STEPS steps.
    """

    folder: str
    package: str
    files: Path
    out: TextIO
    modules: dict[str, Any] = field(default_factory=dict)
    mesh: dict[str, int] = field(default_factory=dict)
    config: Any = None

    def runtime(self, name: str) -> Any:
        """Return a module of the project's own runtime."""
        return importlib.import_module(f"{self.package}.runtime.{name}")

    def has(self, name: str) -> bool:
        """Tell whether the project carries a module of the runtime."""
        path = Path(self.folder, self.package, "runtime", *name.split("."))
        return path.with_suffix(".py").is_file()

    @property
    def one(self) -> dict[str, int]:
        """The mesh of one device."""
        return dict.fromkeys(self.mesh, 1)

    @property
    def plays(self) -> bool:
        """Whether its model makes the examples that it learns from."""
        pipeline = self.modules["pipeline"]
        return hasattr(pipeline, "rollout") and hasattr(pipeline, "minibatches")

    def tell(self, **content: Any) -> None:
        """Write one line."""
        print(json.dumps(content), file=self.out, flush=True)

    def fault(self, check: str, where: str, what: str) -> None:
        """Tell what is wrong."""
        self.tell(fault=check, where=where, what=what)

    @contextlib.contextmanager
    def measuring(self, check: str, doing: str) -> Iterator[None]:
        """Tell what is done, and what the block raises as a fault of a check."""
        self.tell(at=doing)
        try:
            yield
            self.tell(measured=check)
        except Stop:
            raise
        except BaseException as error:  # sys.exit in the user's code is one
            text, where = in_one_line(error, self.folder), locate_fault(error, self.folder)
            self.fault(check, where or self.package, text)


def main() -> NoReturn:
    """Measure what the argument names, and tell of each."""
    job = json.loads(sys.argv.pop())
    with os.fdopen(job["out"], "w", buffering=1) as out:
        project = Project(job["project"], job["package"], Path(job["folder"]), out)
        part = importlib.import_module(f"redco_new.check.measure.{job['part']}")
        with contextlib.suppress(Stop):
            open_project(project)
            part.measure(project)
        project.tell(done=True)
    os._exit(0)  # whatever threads the user's code has


def open_project(project: Project) -> None:
    """Import all modules of a project, on its virtual devices. Raises Stop."""
    with project.measuring(RUNS, "importing the project"):
        sharding = importlib.import_module(f"{project.package}.sharding")
        project.mesh = {**FirstRuns.of(sharding.AXES).mesh}
        devices = math.prod(project.mesh.values())
        project.runtime("layout.mesh").use_virtual_devices(devices)
        folder = Path(project.folder, project.package)
        present = [name for name in MODULES if (folder / f"{name}.py").exists()]
        for name in present:
            project.modules[name] = importlib.import_module(f"{project.package}.{name}")
            if xla_bridge.backends_are_initialized():
                what = "an array is made as it is imported, before JAX is told its devices"
                project.fault(RUNS, f"{project.package}/{name}.py", what)
                raise Stop
        tiny = project.modules["config"].PRESETS.get("tiny")
        if tiny is None:
            project.fault(RUNS, f"{project.package}/config.py", "PRESETS has no tiny")
            raise Stop
        changes = {
            **{"steps": STEPS, "batch_size": max(ROWS, 2 * devices), "micro_batches": 1},
            **{"log_every": 1, "save_every": STEPS // 2, "eval_every": 100, "eval_rows": ROWS},
            **{"epochs": 0.0, "log": (), "best": (), "profile": "", "keep": STEPS, "patience": 0},
        }
        there = {name: x for name, x in changes.items() if hasattr(tiny.train, name)}
        train = replace(tiny.train, **there)
        project.config = replace(tiny, train=train, data=replace(tiny.data, sample_prompts=()))
    if project.config is None:
        raise Stop
    files = {getattr(module, "__file__", None) or __file__ for module in [*sys.modules.values()]}
    own = sorted(
        {os.path.relpath(file, project.folder) for file in files if is_users(file, project.folder)}
    )
    project.tell(fact="files", value=[path for path in own if path.endswith(".py")])


if __name__ == "__main__":
    main()
