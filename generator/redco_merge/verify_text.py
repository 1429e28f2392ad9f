"""Independent checks of the merges of files that are not Python: they read the files themselves.

What one side deleted is not back, nothing of either side is lost, and what may be there once is there once.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from redco_merge.result import MergeResult

_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*$")
_LINK = re.compile(r"\]\(#([^)\s]+)\)")
_DIRECTIVE = re.compile(r"#(?:SBATCH|PBS|BSUB|\$)\s+(-[\w-]+(?:\s+\w+(?==))?)")
_ASSIGNMENT = re.compile(r"(?:export\s+|readonly\s+)?(\w+)=")
_FUNCTION = re.compile(r"(?:function\s+)?([\w-]+)\s*\(\)")
_VARIABLE = re.compile(r"\$\{?[#!]?([A-Za-z_]\w*)")


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


def markdown_faults(base: str, ours: str, theirs: str, result: str) -> Iterator[str]:
    """Yield what is wrong with a merge of Markdown that has no conflict.

    A section is there twice, holds what was another's, lacks its end of code, or a link lacks its
    section.
    """
    b, o, t, r = (_sections(x) for x in (base, ours, theirs, result))
    for path, sections in r.items():
        if len(sections) > max(1, len(o.get(path, ())), len(t.get(path, ()))):
            yield f"twice: {' > '.join(path)}"
    titles = {path[-1:] for path in r}
    for path in (o.keys() | t.keys()) - r.keys():
        if path[-1:] not in titles and ((path in o and path in t) or path not in b):
            yield f"lost: {' > '.join(path)}"
    for path in b.keys() & o.keys() & t.keys() & r.keys():
        yield from _miscounted(*(Counter(x for own in y[path] for x in own) for y in (b, o, t, r)))
    if _is_open(result) and not _is_open(ours):
        yield "the end of a block of code is lost"
    o_lacks, t_lacks, r_lacks = (_links_to_nothing(x) for x in (ours, theirs, result))
    for name in r_lacks - o_lacks - t_lacks:
        yield f"a link to a section that is not there: {name}"


def _miscounted(
    b: Counter[str], o: Counter[str], t: Counter[str], r: Counter[str]
) -> Iterator[str]:
    for line in b | o | t | r:
        both = o[line] + t[line] - b[line]
        bounds = [both] if b[line] in (o[line], t[line]) else [o[line], t[line], both]
        if not min(bounds) <= r[line] <= max(bounds):
            yield f"lost, or too often: {line}"


def _sections(text: str) -> dict[tuple[str, ...], list[list[str]]]:
    """Return the lines of each section, by the titles that it is under; blank lines are none."""
    sections: dict[tuple[str, ...], list[list[str]]] = defaultdict(list)
    above: list[tuple[int, str]] = []
    fence = ""
    sections[()].append([])
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        elif not fence and (heading := _HEADING.match(line)):
            level = len(heading[1])
            above = [*(x for x in above if x[0] < level), (level, heading[2])]
            sections[tuple(title for _, title in above)].append([])
        if line.strip():
            sections[tuple(title for _, title in above)][-1].append(line.strip())
    return sections


def _is_open(text: str) -> bool:
    return sum(bool(_FENCE.match(line)) for line in text.splitlines()) % 2 == 1


def _links_to_nothing(text: str) -> set[str]:
    titles = (path[-1] for path in _sections(text) if path)
    anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    return set(_LINK.findall(text)) - anchors


def shell_faults(base: str, ours: str, theirs: str, result: str) -> Iterator[str]:
    """Yield what is wrong with a merge of a script that has no conflict.

    A command is lost or back, a directive or a variable is set twice, or one is used that nothing
    sets any more.
    """
    sides = [_commands(x) for x in (base, ours, theirs, result)]
    for read in (_directive, _assigned, _function):
        b, o, t, r = (Counter(name for line in x if (name := read(line))) for x in sides)
        for name in r:
            if r[name] > max(1, o[name], t[name]):
                yield f"set {r[name]} times: {name}"
    o_lacks, t_lacks, r_lacks = (_lacking(x, sides) for x in sides[1:])
    for name in r_lacks - o_lacks - t_lacks:
        yield f"not set: {name}"


def _commands(text: str) -> list[str]:
    """Return the lines of a script, those that go on in the next as one."""
    return [x.strip() for x in re.sub(r"\\\n", " ", text).splitlines() if x.strip()]


def _directive(line: str) -> str:
    directive = _DIRECTIVE.match(line)
    return directive[1] if directive else ""


def _assigned(line: str) -> str:
    assignment = _ASSIGNMENT.match(line)
    return assignment[1] if assignment else ""


def _function(line: str) -> str:
    function = _FUNCTION.match(line)
    return function[1] if function else ""


def _lacking(lines: list[str], sides: list[list[str]]) -> set[str]:
    """Return what a script uses and does not set, of what any side sets."""
    variables = {name for side in sides for x in side if (name := _assigned(x))}
    functions = {name for side in sides for x in side if (name := _function(x))}
    code = [x for x in lines if not x.startswith("#")]
    words = {word for x in code for word in re.findall(r"[\w-]+", x)}
    uses = {name for x in code for name in _VARIABLE.findall(x)} & variables
    own = {_assigned(x) for x in lines} | {_function(x) for x in lines}
    return (uses | (words & functions)) - own
