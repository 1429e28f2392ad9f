"""Independent checks of the merges of files that are not Python: they read the files themselves.

What one side deleted is not back, nothing of either side is lost, and what may be there once is there once.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from redco_merge.result import MergeResult

_SET = re.compile(
    r"(#(?:SBATCH|PBS|BSUB|\$)\s+-[\w-]+(?:\s+\w+(?==))?)"
    r"|(?:export\s+|readonly\s+)?(\w+)=|(?:function\s+)?([\w-]+)\s*\(\)"
)
_VARIABLE = re.compile(r"\$\{?[#!]?([A-Za-z_]\w*)")
_ABSENT = object()


def text_faults(base: bytes, ours: bytes, theirs: bytes, merged: MergeResult) -> list[str]:
    """Return what is wrong with a line-wise merge; nothing if it is right.

    A line of the user's is lost, one that either deleted is back, nobody wrote a line, or a change
    of the template is neither in it nor in a conflict.
    """
    b, o, t, m = (_count_lines(x) for x in (base, ours, theirs, merged.content))
    faults = [f"lost: {line!r}" for line in (o - (b - t)) - m]
    for line, times in m.items():
        both = o[line] + t[line] - b[line]
        most = both if b[line] in (o[line], t[line]) else max(o[line], t[line], both)
        if times > (max(most, o[line]) if merged.conflicts else most):
            faults.append(f"deleted, and back, or nobody wrote it: {line!r}")
    if not merged.conflicts:
        faults += [f"dropped: {line!r}" for line in (t - (b - o)) - m]
    return faults


def _count_lines(data: bytes) -> Counter[bytes]:
    return Counter(line.strip() for line in data.splitlines() if line.strip())


def kind_faults(kind: str, base: bytes, ours: bytes, theirs: bytes, result: bytes) -> Iterator[str]:
    """Yield what a merge without conflict has twice, or uses and lacks; nothing for a kind that has no names.

    kind: the suffix of the file's name.
    """
    read = _READERS.get(kind)
    if read is None:
        return
    try:
        texts = [x.decode("utf-8-sig") for x in (base, ours, theirs, result)]
        sides = [read(text) for text in texts[:3]]
    except ValueError:
        return  # lines are all that there is
    try:
        defined, used = read(texts[3])
    except ValueError:
        yield "merged, it could not be read"
        return
    for name, times in defined.items():
        if times > max(1, sides[1][0][name], sides[2][0][name]):
            yield f"{times} times: {name}"
    known = {name for names, _ in sides for name in names}
    lacking = [(uses & known) - names.keys() for names, uses in [*sides[1:], (defined, used)]]
    for name in lacking[2] - lacking[0] - lacking[1]:
        yield f"it uses what is not there: {name}"


Names = tuple[Counter[str], set[str]]  # how often each is defined, and those that are used


def _shell_names(text: str) -> Names:
    """Return the options, variables and functions that a script sets, and the variables and words that it uses."""
    lines = [x.strip() for x in re.sub(r"\\\r?\n", " ", text).splitlines()]
    names = Counter(next(filter(None, x.groups())) for x in map(_SET.match, lines) if x)
    code = [x for x in lines if x and not x.startswith("#")]
    calls = {word for x in code for word in re.findall(r"[\w-]+", _SET.sub("", x, count=1))}
    functions = {x[3] for x in map(_SET.match, lines) if x and x[3]}
    return names, {y for x in code for y in _VARIABLE.findall(x)} | (calls - functions)


def _yaml_names(text: str) -> Names:
    """Return the paths of keys; the items of a list are known by their `name`, as Kubernetes merges them."""
    import yaml  # slow to import, and few files need it

    names: Counter[str] = Counter()

    def enter(node: yaml.Node, path: str) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                names[f"{path}.{key.value}"] += 1
                enter(value, f"{path}.{key.value}")
        elif isinstance(node, yaml.SequenceNode):
            for i, item in enumerate(node.value):
                pairs = item.value if isinstance(item, yaml.MappingNode) else []
                own = [str(value.value) for key, value in pairs if key.value == "name"]
                names.update([f"{path}[{own[0]}]"] if own else [])
                enter(item, f"{path}[{i}]")

    try:
        for i, document in enumerate(yaml.compose_all(text)):
            enter(document, str(i))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    return names, set()


def _toml_names(text: str) -> Names:
    tomllib.loads(text)  # which raises where a key is there twice
    return Counter(), set()


_READERS: dict[str, Callable[[str], Names]] = {
    ".toml": _toml_names,
    **dict.fromkeys((".yaml", ".yml"), _yaml_names),
    **dict.fromkeys((".sh", ".sbatch", ".pbs"), _shell_names),
}


class _BothChanged(Exception):
    """Both sides changed one key, each in its way."""


def toml_faults(base: str, ours: str, theirs: str, result: str) -> Iterator[str]:
    """Yield what is wrong with a merge of TOML by keys: its values are worked out of those of the three sides alone."""
    try:
        sides = [_typed(tomllib.loads(side)) for side in (base, ours, theirs)]
        if _typed(tomllib.loads(result)) != _merged(*sides):
            yield "merged, it would not say what you and the template changed"
    except (ValueError, _BothChanged):
        yield "you both changed one key"
    if _comments(ours) - _comments(base) - _comments(result):
        yield "merged, it would lack a comment of yours"


def _typed(value: Any) -> Any:
    """Return a value of which True is not 1, and 1 is not 1.0."""
    if isinstance(value, dict):
        return {key: _typed(x) for key, x in value.items()}
    if isinstance(value, list):
        return [_typed(x) for x in value]
    return value if isinstance(value, str) else (type(value).__name__, repr(value))


def _merged(base: Any, ours: Any, theirs: Any) -> Any:
    """Return the value of a key, or of a file. Raises _BothChanged."""
    if theirs == base or theirs == ours:
        return ours
    if ours == base:
        return theirs
    if isinstance(ours, dict) and isinstance(theirs, dict):
        old = base if isinstance(base, dict) else {}
        values = {}
        for key in ours | theirs:
            sides = (side.get(key, _ABSENT) for side in (old, ours, theirs))
            values[key] = _merged(*sides)
        return {key: value for key, value in values.items() if value is not _ABSENT}
    for side in (base, ours, theirs):  # a list of different texts, such as requirements
        if not isinstance(side, list) or not all(isinstance(x, str) for x in side):
            raise _BothChanged
        if len(set(side)) < len(side):
            raise _BothChanged
    kept = [x for x in ours if x in theirs or x not in base]
    return kept + [x for x in theirs if x not in base and x not in ours]


def _comments(text: str) -> Counter[str]:
    """Return what follows a # in each line: comments, and at most too much, where a text has one."""
    return Counter(line.partition("#")[2].strip() for line in text.splitlines() if "#" in line)
