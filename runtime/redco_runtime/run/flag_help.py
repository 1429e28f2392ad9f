"""What config.py says of a setting: `--help` of the training program has it."""

import ast
import inspect
import io
import textwrap
import tokenize
from collections.abc import Mapping
from typing import Any


def explain(presets: Mapping[str, Any], section: str, field: str) -> str:
    """Return the comment behind a setting, and its value in each preset, in the form of argparse's help."""
    sections = {name: getattr(preset, section) for name, preset in presets.items()}
    values = {name: _as_flag(getattr(values, field)) for name, values in sections.items()}
    first = next(iter(presets))
    comment = comments(type(sections[first])).get(field) or f"{section}.{field}"
    alike = len({*values.values()}) == 1
    value = values[first] if alike else "; ".join(f"{k}: {v or 'none'}" for k, v in values.items())
    return (f"{comment} [{value}]" if value else comment).replace("%", "%%")


def comments(section: type[Any]) -> dict[str, str]:
    """Return the comment behind each field of a dataclass that has one; none where there is no source."""
    try:
        source = textwrap.dedent(inspect.getsource(section))
    except OSError:
        return {}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    words = {t.start[0]: t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT}
    texts = dict[str, str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AnnAssign):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            texts[ast.unparse(node.target)] = next((words[n] for n in lines if n in words), "")
    return texts


def _as_flag(value: object) -> str:
    """Return a value as it is written behind its flag."""
    if isinstance(value, tuple):
        return " ".join(map(_as_flag, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
