"""Lives of generated projects: edits as users make them, and the programs that are run in between."""

from pathlib import Path

from generated import metrics, run

TRAIN = (
    "python -m {}.train --preset tiny --batch-size 8 --eval-every 100 --virtual-devices {}"
    " --sample-prompts"
)


class Life:
    """A project in its folder.  package: its import name.  devices: virtual ones to train on."""

    def __init__(self, folder: Path, package: str, devices: int) -> None:
        self.folder, self.package = folder, package
        self.train = TRAIN.format(package, devices)

    def run(self, command: str, code: int = 0) -> tuple[str, str]:
        """(stdout, stderr) of a command that ends with `code`, in the project's folder."""
        done, out, err = run(command, self.folder)
        assert done == code, f"{command}\n{out}{err}"
        assert "Traceback" not in err, err
        return out, err

    def losses(self, workdir: str) -> dict[int, float]:
        """step -> loss, as the last run in `workdir` had it."""
        lines = metrics(self.folder / workdir)
        return {line["step"]: line["loss"] for line in lines if "loss" in line}

    def read(self, path: str) -> str:
        return (self.folder / path).read_text()

    def edit(self, path: str, changes: dict[str, str]) -> None:
        """Replace texts of a file, each of which it holds once."""
        text = self.read(path)
        for old, new in changes.items():
            assert text.count(old) == 1, f"{path}: {old}"
            text = text.replace(old, new)
        (self.folder / path).write_text(text)

    def tree(self, under: str = "") -> dict[str, bytes]:
        """path -> content; of what a commit would have, or of all that is in the folder `under`."""
        found = {}
        for path in sorted((self.folder / under).rglob("*")):
            name = path.relative_to(self.folder).as_posix()
            ignored = name.startswith("runs/") or name in (".redco/lock", ".redco/undo.tar.xz")
            if path.is_file() and "__pycache__" not in name and (under or not ignored):
                found[name] = path.read_bytes()
        return found


def changed(before: dict[str, bytes], after: dict[str, bytes]) -> set[str]:
    """The paths that are not the same in two trees, but redco's own."""
    paths = {path for path in before | after if before.get(path) != after.get(path)}
    return {path for path in paths if not path.startswith(".redco/")}


def specs(sharding: str, table: str = "PARAMS") -> dict[str, object]:
    """A table of the text of a sharding.py."""
    scope: dict[str, dict[str, object]] = {}
    exec(sharding, scope)
    return scope[table]
