"""The text of model.py: its head, its config, and its classes, laid out by black."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

import black

from redco_new.pytorch.printed import Field
from redco_new.pytorch.printed_class import Printed
from redco_new.pytorch.kind_methods import KindMethods
from redco_new.pytorch.kinds import PAIRS
from redco_new.pytorch.shared_makers import share_makers
from redco_new.pytorch.text_methods import print_methods

SPECIAL_IDS = '''

    @property
    def special_ids(self) -> dict[str, int]:
        """The tokens that beam_search needs to know, as its arguments."""
        return {{{ids}}}'''
MATH = re.compile(r"(?<![\w.])math\.")
MODE = black.Mode(line_length=100, target_versions={black.TargetVersion.PY311})


def lay_out(text: str) -> str:
    """Return a text as black lays it out."""
    return black.format_str(text, mode=MODE)


def model_text(
    head: str, config_class: str, fields: Sequence[Field], classes: Sequence[Printed]
) -> str:
    """Return model.py of the classes, the innermost first, before it is laid out; it shows the outermost first."""
    inits, functions = share_makers(classes)
    pairs = [*zip(classes, inits, strict=True)]
    bodies = "\n\n".join(_class_text(one, init, config_class) for one, init in reversed(pairs))
    bodies += f"\n\n{functions}" if functions else ""
    imports = {line for one in classes for line in one.imports}
    imports |= {line for one in classes if one.methods for line in one.methods.imports}
    config = "\n".join(f"    {f.name}: {f.annotation} = {f.value!r}" for f in fields)
    if any(isinstance(one.methods, KindMethods) and one.methods.kind is PAIRS for one in classes):
        ids = [f.name for f in fields if f.name in PAIRS.fields.values()]
        config += SPECIAL_IDS.format(ids=", ".join(f'"{x}": self.{x}' for x in ids))
    first = [line for name in ("jax.numpy as jnp", "jax") for line in [f"import {name}"]]
    names = {"jnp": first[0], "jax": first[1]}
    used = [line for name, line in names.items() if f"{name}." in bodies or name == "jax"]
    import_math = "import math\n" if MATH.search(bodies) else ""
    return f'''"""{head}"""

import dataclasses
{import_math}
{chr(10).join(sorted(used))}
from flax import nnx

{_imports(imports)}


@dataclasses.dataclass(frozen=True)
class {config_class}:
    """Sizes of the model; the defaults are those that it was asked for with."""

{config or "    pass"}


{bodies}
'''


def _imports(lines: set[str]) -> str:
    """Return import lines, one for each module."""
    names: dict[str, set[str]] = {}
    for line in lines:
        module, _, name = line.removeprefix("from ").partition(" import ")
        names.setdefault(module, set()).add(name)
    return "\n".join(
        f"from {module} import {', '.join(sorted(names[module]))}" for module in sorted(names)
    )


def _class_text(one: Printed, init: Sequence[str], config_class: str) -> str:
    """Return a class of model.py. init: statements of its constructor"""
    types = {"config": f"config: {config_class}"}
    arguments = [types.get(name, name) for name in one.arguments]
    if one.docstring.startswith("The whole") or one.is_whole:
        arguments = [types["config"]]
    rngs = ["*", "rngs: nnx.Rngs"] if one.random or one.is_whole else []
    lines = [f"class {one.name}(nnx.Module):", f'    """{one.docstring}"""', ""]
    if init or one.is_whole:
        lines.append(f"    def __init__({', '.join(['self', *arguments, *rngs])}):")
        lines += [f"        {line}" for line in init or ["pass"]] + [""]
    if one.methods:
        logits, run = _indented(one.methods.logits), _indented(one.call)
        head = "\n".join(lines).rstrip() + "\n"
        if isinstance(one.methods, KindMethods):
            return head + one.methods.print(logits, run, _indented(one.methods.source))
        return head + print_methods(one.methods, logits, run)
    types_ = ": jax.Array" if one.is_whole else ""
    lines.append(f"    def __call__({', '.join(['self', *(x + types_ for x in one.inputs)])}):")
    lines.append(_indented(one.call))
    return "\n".join(lines) + "\n"


def _indented(statements: Sequence[ast.stmt]) -> str:
    """Return the statements of a method."""
    text = ast.unparse(ast.fix_missing_locations(ast.Module([*statements], [])))
    return "\n".join(f"        {line}" for line in text.splitlines())
