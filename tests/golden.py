"""The goldens: what redco-new makes of requests, says to bad input, and does with a zoo of models.

golden/<case>/request.toml, golden/errors/<case>/args.txt, and the models of tests/sharding.

python tests/golden.py           rewrites them: read the diff before you commit it
python tests/golden.py --check   compares both ways, prints the differences, exits with 1 if any
"""

import argparse
import difflib
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import golden_layouts
import jax
from bad_input import complaint
from generated import texts
from once import make_once
from programs import SOON, WHOLE

from redco_new.project.create import write_tree
from redco_new.project.archive import unpack
from redco_new.project.records import BASE, new_records
from redco_new.render.owners import in_runtime
from redco_new.request import Request

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "golden"
ERRORS, ZOO = GOLDEN / "errors", GOLDEN / "zoo"
REWRITE = "If this is what you want: make golden"

RUNTIME = (
    ROOT / "runtime/redco_runtime"
)  # in a golden a link, so that the repository holds its code once
GIT_READS = {".gitignore", ".gitattributes"}  # and follows no link to one
LINK = "link to "  # what a text that stands for a link begins with
SKIPPED = {"__pycache__", ".pytest_cache"}
CHECKPOINT = "checkpoint/"  # in a case that is about one
LOSSES = "loss.txt"
STEPS = 20
TOLERANCE = 1e-3  # relative: processors add in different orders
DEVICES = 4

Texts = dict[str, str]


def cases() -> list[Path]:
    """The folders of goldens that are projects."""
    return sorted(path.parent for path in GOLDEN.glob("*/request.toml"))


def error_cases() -> list[Path]:
    """The folders of goldens that are bad input."""
    return sorted(path.parent for path in ERRORS.glob("*/args.txt"))


def request_of(case: Path) -> Request:
    text = (case / "request.toml").read_text()
    return Request.from_toml(text, "request.toml", folder=case / "project")


def generate(case: Path) -> tuple[Texts, Texts]:
    """(the project, the texts that a case commits): path in the project or in the case -> text."""
    request = request_of(case)
    files, model, plan = texts(request)
    records = new_records(model.request, files, model_record=model.record)
    base = records.pop(
        BASE
    )  # not committed: it is what is committed, in bytes that tell nobody anything
    held = {path: content.decode() for path, content in unpack(base).items()}
    if wrong := differences(held, files, "base.tar.xz"):
        raise AssertionError("what redco remembers is not what it wrote:\n" + "\n".join(wrong))
    files |= {path: content.decode() for path, content in records.items()}
    kept = {p: t for p, t in files.items() if not in_runtime(p)}
    committed = {f"project/{path}": text for path, text in kept.items()}
    committed[f"project/{request.package}/runtime"] = link(case, request)
    committed["sharding.txt"] = golden_layouts.lines(plan)
    return files, committed


def link(case: Path, request: Request) -> str:
    """What lies in place of the runtime of a golden."""
    return f"{LINK}{os.path.relpath(RUNTIME, case / 'project' / request.package)}\n"


def once(case: Path, new: Texts, first: dict[tuple[str, str], Path]) -> Texts:
    """The texts of a case, links in place of the files that the project of one before has: each text is read once.

    first: (path, text) -> the case that has it; those of this one are added.
    """
    held = {}
    for path, text in new.items():
        other = first.setdefault((path, text), case)
        if other != case and path.startswith("project/") and Path(path).name not in GIT_READS:
            text = f"{LINK}{os.path.relpath(other / path, (case / path).parent)}\n"
        held[path] = text
    return held


def write(case: Path, new: Texts) -> None:
    """Write the texts and links of a case, whose project is made anew."""
    shutil.rmtree(case / "project", ignore_errors=True)
    for path, text in new.items():
        file = case / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith(LINK):
            file.symlink_to(text.removeprefix(LINK).removesuffix("\n"))
        else:
            file.write_text(text)
            file.chmod(0o755 if text.startswith("#!") else 0o644)


def committed(case: Path) -> Texts:
    """What lies in a case's folder: path -> text, but for what is given and the losses."""
    found = {}
    for folder, folders, names in os.walk(case):
        links = [name for name in folders if os.path.islink(Path(folder, name))]
        folders[:] = [name for name in folders if name not in SKIPPED and name not in links]
        for path in (Path(folder, name) for name in [*names, *links]):
            text = f"{LINK}{os.readlink(path)}\n" if path.is_symlink() else path.read_text()
            found[path.relative_to(case).as_posix()] = text
    given = {"request.toml", LOSSES, *(path.name for path in classes(case))}
    return {p: t for p, t in found.items() if p not in given and not p.startswith(CHECKPOINT)}


def classes(case: Path) -> list[Path]:
    """The files with the class of a case that is about one: the project imports it from beside it."""
    return sorted(case.glob("*.py"))


def differences(old: Texts, new: Texts, name: str) -> list[str]:
    """A unified diff of every path that is missing, changed or too much in `old`."""
    found = []
    for path in sorted(old.keys() | new.keys()):
        before, after = old.get(path), new.get(path)
        if before != after:
            sides = (text.splitlines(keepends=True) if text else [] for text in (before, after))
            labels = (
                f"{name}/{path}" if text is not None else "/dev/null" for text in (before, after)
            )
            found.append(
                "".join(difflib.unified_diff(*sides, *labels)) or f"empty: {name}/{path}\n"
            )
    return found


def losses(files: Texts, case: Path) -> list[float]:
    """The losses of the first steps of the tiny preset, of a run of a case of these files."""
    request = request_of(case)
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        for path in classes(case):
            shutil.copy(path, folder)
        root = Path(folder, "project")
        write_tree(root, files)
        options = f"--preset tiny --steps {STEPS} --virtual-devices {request.devices} --workdir run"
        command = [sys.executable, "-m", f"{request.package}.train", *options.split()]
        # Not sys.stderr, which cases of bad input take from other threads meanwhile.
        subprocess.run(
            command, cwd=root, env=plain_environment(), check=True, stdout=sys.__stderr__
        )
        lines = map(json.loads, (root / "run" / "metrics.jsonl").read_text().splitlines())
        found = {line["step"]: line["loss"] for line in lines if "loss" in line}
    assert sorted(found) == list(range(1, STEPS + 1)), f"not {STEPS} steps: {sorted(found)}"
    return [found[step] for step in sorted(found)]


def plain_environment() -> dict[str, str]:
    """This process's environment, for JAX on the CPU and nothing else."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
    return {**kept, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"{SOON} {WHOLE}"}


def losses_differ(path: Path, new: list[float]) -> str:
    """ "" if the committed losses are these, within TOLERANCE; else both."""
    old = (
        [float(line.split()[1]) for line in path.read_text().splitlines()] if path.exists() else []
    )
    near = (math.isclose(a, b, rel_tol=TOLERANCE) for a, b in zip(old, new, strict=False))
    if len(old) == len(new) and all(near):
        return ""
    name = path.relative_to(GOLDEN.parent)
    return "".join(difflib.unified_diff(loss_lines(old), loss_lines(new), str(name), str(name)))


def loss_lines(values: list[float]) -> list[str]:
    """A step and its loss a line."""
    return [f"{step} {value:.6f}\n" for step, value in enumerate(values, 1)]


def check() -> Iterator[str]:
    """Every difference between what is committed and what is made now."""
    with ThreadPoolExecutor(1) as beside:  # runs train while the rest is made
        runs = {}
        first: dict[tuple[str, str], Path] = {}
        for case in cases():
            files, new = generate(case)
            runs[case] = beside.submit(losses, files, case)
            yield from differences(committed(case), once(case, new, first), f"golden/{case.name}")
        for case in error_cases():
            new = {"stderr.txt": complaint((case / "args.txt").read_text())}
            old = {k: v for k, v in committed(case).items() if k != "args.txt"}
            yield from differences(old, new, f"golden/errors/{case.name}")
        yield from differences(committed(ZOO), golden_layouts.zoo(), "golden/zoo")
        for case, run in runs.items():
            try:
                yield losses_differ(case / LOSSES, run.result())
            except subprocess.CalledProcessError as error:
                yield f"golden/{case.name}: its training run failed with exit code {error.returncode}\n"


def rewrite() -> None:
    """Make every golden anew. Losses that are the same within TOLERANCE stay as they are."""
    with ThreadPoolExecutor(1) as beside:
        runs = {}
        first: dict[tuple[str, str], Path] = {}
        for case in cases():
            files, new = generate(case)
            runs[case] = beside.submit(losses, files, case)
            write(case, once(case, new, first))
        for case in error_cases():
            (case / "stderr.txt").write_text(complaint((case / "args.txt").read_text()))
        layouts = golden_layouts.zoo()
        shutil.rmtree(ZOO, ignore_errors=True)
        write_tree(ZOO, layouts)
        for case, run in runs.items():
            values = run.result()
            if losses_differ(case / LOSSES, values):
                (case / LOSSES).write_text("".join(loss_lines(values)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    if not parser.parse_args().check:
        rewrite()
        return 0
    count = 0
    for difference in filter(None, check()):
        count += 1
        print(difference)
    if count:
        print(f"{count} goldens differ. {REWRITE}")
    return 1 if count else 0


if __name__ == "__main__":
    make_once()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", DEVICES)
    sys.exit(main())
