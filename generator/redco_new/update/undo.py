"""`redco undo`: the last update taken back, all of it or nothing."""

from pathlib import Path

from redco_new.errors import RedcoError, Refusal
from redco_new.project.manifest import OWN
from redco_new.transaction import Change, apply
from redco_new.update.changes import file_change
from redco_new.update.former import digest, read_former
from redco_new.project.state import read_file
from redco_new.update.run import open_project


def undo(root: Path) -> list[str]:
    """Take the last update of the project `root` back. Returns the paths of the files that it had changed.

    Raises RedcoError where nothing is kept, and Refusal where such a file was edited since.
    """
    with open_project(root):
        last = read_former(root)
        if last is None:
            what = (
                "no update is kept that could be taken back: one is, the last, until it is undone"
            )
            raise RedcoError(str(root), what, "bring files back from git, or from copies")
        former = last.files
        edited = [one.path for one in former if digest(read_file(root, one.path)) != one.after]
        own = [path for path in edited if not path.startswith(OWN)]
        if own:
            what = f"edited since that update: {', '.join(own)}; nothing was changed"
            raise Refusal(str(root), what, "take those edits back, or move what you wrote aside")
        if edited:
            what = "redco has changed its records since that update, and nothing was changed"
            raise Refusal(str(root), what, "bring the files back from git, or from copies")
        before = last.before(root)
        after = {one.path: one.after for one in former}
        changes = [Change(path, x, after[path], _is_script(x)) for path, x in before.items()]
        apply(root, [*changes, file_change(last.record, read_file(root, last.record), None)])
    return [path for path in before if not path.startswith(OWN)]


def _is_script(content: bytes | None) -> bool:
    return bool(content and content.startswith(b"#!"))
