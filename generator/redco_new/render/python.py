"""Python as text: data and calls, in black's layout, and black itself."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import black

from redco_new.errors import RedcoError
from redco_new.render.values import LINE, is_plain

BLACK = black.Mode(line_length=LINE, target_versions={black.TargetVersion.PY311})
MEND = "mend the folder that --template names; without it, the fault is redco's: report this line"


@lru_cache(maxsize=256)  # an update prints a project twice, and most of it is the same
def format_python(path: str, text: str) -> str:
    """Return Python in black's layout. Raises RedcoError for `path` if it is not Python.

    Text that has this layout takes half the time: black reads what it changes twice.
    """
    try:
        return black.format_str(text, mode=BLACK)
    except black.InvalidInput as error:
        what = " ".join(f"rendered, it is not Python: {error}".split())
        raise RedcoError(path, what, MEND) from error


def print_data(value: Any, before: str = "") -> str:
    """Return plain data as Python.

    before: what its line begins with, which decides how a long dict is laid out.
    """
    match value:
        case str():
            text = repr(value)
            return text if '"' in text else f'"{text[1:-1]}"'
        case Mapping():
            words = [f"{print_data(key)}: {print_data(item)}" for key, item in value.items()]
            line = f"{{{', '.join(words)}}}"
            return line if len(before + line) <= LINE else f"{{{_stacked(words, before)}}}"
        case list():
            return f"[{', '.join(map(print_data, value))}]"
        case tuple():
            return f"({', '.join(map(print_data, value))}{',' * (len(value) == 1)})"
    if not is_plain(value):
        raise ValueError(f"{value!r} is no plain data: a number is finite, a text a str")
    return repr(value)


def print_call(name: str, arguments: Mapping[str, Any], before: str = "") -> str:
    """Return a call with keyword arguments, as Python.

    before: what its line begins with, which decides how a long one is laid out; a comma ends it.
    """
    words = [f"{key}={print_data(value)}" for key, value in arguments.items()]
    line = f"{name}({', '.join(words)})"
    return line if len(before + line) < LINE else f"{name}({_stacked(words, before, alone=False)})"


def print_sections(sections: Mapping[str, tuple[str, Mapping[str, Any]]]) -> dict[str, str]:
    """Return keyword -> its value in a call that has a line for each, as Python, of keyword -> (class, arguments)."""
    return {name: print_call(*call, before=f"    {name}=") for name, call in sections.items()}


def _stacked(words: Sequence[str], before: str, alone: bool = True) -> str:
    """Return what stands in brackets that are opened in a line which begins with `before`.

    alone: whether each word has a line of its own even where one holds them all.
    """
    margin = "\n" + " " * (len(before) - len(before.lstrip()))
    line = f"{margin}    {', '.join(words)}"
    if alone or len(line) > LINE + 1:
        line = "".join(f"{margin}    {word}," for word in words)
    return line + margin
