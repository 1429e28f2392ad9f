"""Three-way merge of the files that are not Python: Markdown by section, TOML and YAML by key, shell by line.

Lines first, as in any text: what has no conflict and stands the check of its kind is the merge. Else by the parts of the kind.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath

from redco_merge.by_keys import key_faults, merge_in_order
from redco_merge.lines import merge_text
from redco_merge.markdown import merge_sections
from redco_merge.result import WHOLE, MergeResult, keep_whole
from redco_merge.shell import merge_patterns, merge_script
from redco_merge.toml import merge_tables, toml_values, unite_lists
from redco_merge.verify_text import markdown_faults, shell_faults, text_faults

Texts = tuple[str, str, str]  # base, ours, theirs
MergeLines = Callable[[list[str], list[str], list[str]], list[str] | None]


@dataclass(frozen=True)
class _Kind:
    """A kind of files.

    merge: makes one text of three, or None where both sides changed one place.
    faults: what is wrong with a merge without conflicts.
    """

    merge: Callable[[str, str, str], str | None]
    faults: Callable[[Texts, str], Iterator[str]]


def _by_lines(merge: MergeLines) -> Callable[[str, str, str], str | None]:
    def merge_lines(*texts: str) -> str | None:
        lines = merge(*(text.removesuffix("\n").split("\n") for text in texts))
        return None if lines is None else "".join(line + "\n" for line in lines)

    return merge_lines


def _counted(faults: Callable[[str, str, str, str], Iterator[str]]) -> Callable[..., Iterator[str]]:
    """Return a check that counts lines, too."""

    def line_faults(texts: Texts, result: str) -> Iterator[str]:
        base, ours, theirs = (text.encode() for text in texts)
        yield from text_faults(base, ours, theirs, MergeResult(result.encode()))
        yield from faults(*texts, result)

    return line_faults


def _merge_yaml(base: str, ours: str, theirs: str) -> str | None:
    from redco_merge.yaml_blocks import merge_entries  # slow to import, and few files need it

    return _by_lines(merge_entries)(base, ours, theirs)


def _yaml_faults(texts: Texts, result: str) -> Iterator[str]:
    from redco_merge.yaml_blocks import yaml_values

    yield from key_faults(yaml_values, merge_in_order, texts, result)


_MARKDOWN = _Kind(_by_lines(merge_sections), _counted(markdown_faults))
_TOML = _Kind(merge_tables, partial(key_faults, toml_values, unite_lists))
_YAML = _Kind(_merge_yaml, _yaml_faults)
_SHELL = _Kind(_by_lines(merge_script), _counted(shell_faults))
_PATTERNS = _Kind(_by_lines(merge_patterns), _counted(lambda *texts: iter(())))
_KINDS = {
    ".md": _MARKDOWN,
    ".toml": _TOML,
    ".yaml": _YAML,
    ".yml": _YAML,
    ".sh": _SHELL,
    ".sbatch": _SHELL,
    ".pbs": _SHELL,
    ".gitignore": _PATTERNS,
    ".gitattributes": _PATTERNS,
    ".dockerignore": _PATTERNS,
}


def merge_document(
    path: str, base: bytes, ours: bytes, theirs: bytes, prefer_theirs: Collection[str] = ()
) -> MergeResult:
    """Merge into `ours` the changes from `base` to `theirs` of a file that is not Python.

    path: its name says its kind; what is of none is merged line by line, as `merge_text` does.
    prefer_theirs: the conflicts of which the template's side wins, "line 12" or WHOLE.
    Where both changed one place, ours stays and the lines of theirs are a conflict. Never raises.
    """
    name = PurePosixPath(path)
    kind = _KINDS.get(name.suffix or name.name)
    merged = merge_text(base, ours, theirs) if kind is None else _merge(kind, base, ours, theirs)
    preferred = {conflict.symbol for conflict in merged.conflicts} & set(prefer_theirs)
    if WHOLE in preferred:
        return MergeResult(theirs)
    return merge_text(base, ours, theirs, preferred) if preferred else merged


def _merge(kind: _Kind, base: bytes, ours: bytes, theirs: bytes) -> MergeResult:
    merged = merge_text(base, ours, theirs)
    if theirs in (base, ours) or ours == base:
        return merged
    try:
        texts = _text(base), _text(ours), _text(theirs)
        faults = [] if merged.conflicts else [*kind.faults(texts, _text(merged.content))]
        if not merged.conflicts and not faults:
            return merged
        content = kind.merge(*texts)
        if content is not None and not any(kind.faults(texts, content)):
            return MergeResult(_like(ours, content))
    except UnicodeDecodeError:
        return merged  # lines are all that there is
    except (ValueError, RecursionError) as error:
        faults = [str(error)]
    if merged.conflicts:
        return merged
    return keep_whole(ours, theirs, faults[0])


def _text(data: bytes) -> str:
    return data.decode("utf-8-sig").replace("\r\n", "\n")


def _like(ours: bytes, text: str) -> bytes:
    """Return a text with the mark, the line ending and the end of our file."""
    bom = b"\xef\xbb\xbf" if ours.startswith(b"\xef\xbb\xbf") else b""
    whole = text if ours.endswith(b"\n") else text.removesuffix("\n")
    newline = b"\r\n" if ours.count(b"\r\n") * 2 > ours.count(b"\n") else b"\n"
    return bom + whole.encode().replace(b"\n", newline)
