"""Writes the four files of a family from a neighbour's.

    make family NAME=olmo2 LIKE=llama HF=allenai/OLMo-2-1124-7B

HF: an id of the hub, a folder with config.json, or transformers' config class. What a person decides is marked TODO,
which a test refuses. Without LIKE it says which are nearest.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from families.reference import reference
from family import marks, near
from family.facts import Draft, draft
from redco_new.errors import RedcoError
from redco_new.models import families
from redco_new.render import assets

MARK = "TODO"
KEYS, DEFAULTS, SIZES = "KEYS", "DEFAULTS", "SIZES"
OWN = ("name", "title", "model_type", "architecture", "template", "model_class")
FACTS, TESTS = Path(families.__path__[0]), Path(__file__).parents[2] / "families"
TEMPLATES = assets.templates() / "models"


def print_files(new: Draft) -> dict[Path, str]:
    """Return path -> text of the files of a family. Its templates are the neighbour's where nothing may differ."""
    files = {FACTS / f"{new.module}.py": print_facts(new)}
    if new.own:
        for path in sorted((TEMPLATES / new.like.template).iterdir()):
            text = path.read_text()
            lines = marks.of_template(new, path.name, text)
            head = "\n".join(["{#", f"{MARK}: {lines[0]}", *lines[1:], "#}\n"]) if lines else ""
            files[TEMPLATES / new.module / path.name] = head + text
    return files | {TESTS / f"test_{new.module}.py": print_test(new)}


def print_facts(new: Draft) -> str:
    """Return the module of a family: its keys, defaults and size are its own, what reads them is the neighbour's."""
    module = next(x for x in _modules() if new.like in vars(x).values())
    source = inspect.getsource(module)
    tree = ast.parse(source)
    call = next(
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and any(getattr(module, name) is new.like for name in _targets(node))
    )
    assert isinstance(call, ast.Call)
    of_like = {str(x.arg): x.value for x in call.keywords}
    names = {ast.unparse(of_like[x.lower()]): x for x in (KEYS, DEFAULTS)}
    fields = {k: v for k, v in of_like.items() if k not in (*OWN, "keys", "defaults", "sizes")}
    gguf = fields.pop("gguf", None) if new.theirs.kind.model_type != new.like.model_type else None
    kept = _reached(tree, fields.values(), besides=names)
    text = "\n\n\n".join(_print(source, node, names) for node in kept)
    printed = {name: f"{name}={_rename(ast.unparse(x), names)}," for name, x in fields.items()}
    own = {
        "name": new.name,
        "title": new.model_class,
        "model_type": new.theirs.kind.model_type,
        "architecture": new.theirs.architecture,
        "template": new.module if new.own else new.like.template,
        "model_class": new.model_class,
    }
    call_text = [f"{name}={value!r}," for name, value in own.items()]
    for name in ("provides", "recipes"):
        call_text.append(printed.pop(name))
    call_text += [f"sizes={SIZES},", f"defaults={DEFAULTS},", f"keys={KEYS},", *printed.values()]
    head = f'"""{new.model_class}."""\n\n{_imports(tree)}'
    parts = [
        head,
        _print_keys(new),
        _print_defaults(new),
        *(f"# {MARK}: {mark}" for mark in marks.of_keys(new, text)),
        *([f"# {MARK}: {marks.of_gguf(new, ast.unparse(gguf))}"] if gguf else []),
        text,
        _print_sizes(new),
    ]
    return "\n\n".join([*parts, f"FAMILY = Family({' '.join(call_text)})\n"])


def _modules() -> list[ModuleType]:
    """Return the modules of the families that are there."""
    return [import_module(f"{families.__name__}.{p.stem}") for p in sorted(FACTS.glob("[a-z]*.py"))]


def _targets(node: ast.stmt) -> list[str]:
    """Return the names that a statement defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [x.id for one in targets for x in ast.walk(one) if isinstance(x, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def _reached(
    tree: ast.Module, roots: Iterable[ast.AST], besides: Mapping[str, str]
) -> list[ast.stmt]:
    """Return the definitions of a module that `roots` name, and those that these name."""
    there = {name: node for node in tree.body for name in _targets(node)}
    reached, left = dict[int, ast.stmt](), [*roots]
    while left:
        for node in ast.walk(left.pop()):
            name = node.id if isinstance(node, ast.Name) else ""
            if name in there and name not in besides and there[name].lineno not in reached:
                reached[there[name].lineno] = there[name]
                left.append(there[name])
    return [node for _, node in sorted(reached.items())]


def _imports(tree: ast.Module) -> str:
    """Return the imports of a module but KEYS and DEFAULTS; what nothing needs of them is taken out afterwards."""
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    for node in imports:
        node.names = [x for x in node.names if x.name not in (KEYS, DEFAULTS)]
    return "\n".join(ast.unparse(node) for node in imports if node.names)


def _print(source: str, node: ast.stmt, names: Mapping[str, str]) -> str:
    """Return a definition as it is, with other names of KEYS and DEFAULTS."""
    first = min([node.lineno, *(x.lineno for x in getattr(node, "decorator_list", []))])
    return _rename("\n".join(source.splitlines()[first - 1 : node.end_lineno]), names)


def _rename(text: str, names: Mapping[str, str]) -> str:
    for old, name in names.items():
        text = re.sub(rf"\b{re.escape(old)}\b", name, text)
    return text


def _print_keys(new: Draft) -> str:
    lines = [f"    {field!r}: {key!r}," for field, key in new.keys.items()]
    lines += [f"    # {MARK}: {mark}" for mark in marks.of_fields(new)]
    return "\n".join([f"{KEYS} = {{", *lines, "}"])


def _print_defaults(new: Draft) -> str:
    lines = [f"    {key!r}: {_print_value(x)}," for key, x in new.theirs.defaults.items()]
    head = f"{DEFAULTS}: dict[str, Any] = {{  # of transformers' {new.theirs.kind.__name__}"
    return "\n".join([head, *lines, "}"])


def _print_value(value: Any) -> str:
    """Return a value as Python; a list that repeats itself as its first part, times as often."""
    if isinstance(value, list):
        for period in range(1, len(value) // 2 + 1):
            times, rest = divmod(len(value), period)
            part = value[:period]
            if value == part * times + part[:rest]:
                return (
                    f"({part!r} * {times + bool(rest)})[:{len(value)}]"
                    if rest
                    else f"{part!r} * {times}"
                )
    return repr(value)


def _print_sizes(new: Draft) -> str:
    size, name = new.theirs.size, Path(new.hf).name
    key = name.rpartition("-")[2].lower() if new.theirs.source else "base"
    title = f"the title above, as people write {new.model_class}"
    decide = f"# {MARK}: {title}; the paper and its table; further sizes, each with its parameters in the test"
    tokenizer = new.theirs.checkpoint
    if new.theirs.source and not Path(new.hf).is_dir():
        tokenizer = new.hf
    return f"{decide}\n{SIZES} = {{{key!r}: Size({size!r}, {tokenizer or f'{MARK}/{name}'!r})}}"


def print_test(new: Draft) -> str:
    """Return the test of a family: a small model beside PyTorch's, and the parameters of its size."""
    like = reference(new.like.name)
    checks = [like.check, *([like.finish] if like.finish else [])]
    imports = [f"from {x.__module__} import {x.__name__}" for x in checks]
    count = new.theirs.count(new.theirs.size)
    name = Path(new.hf).name.rpartition("-")[2].lower() if new.theirs.source else "base"
    options = f", seed={like.seed}" if like.seed else ""
    options += f", finish={like.finish.__name__}" if like.finish else ""
    lines = [
        f'"""{new.model_class} against transformers\' PyTorch class."""\n',
        *imports,
        "from families.reference import Reference\n",
        f"SMALL = {new.small!r}\n",
        f"REFERENCES = {{{new.name!r}: Reference(SMALL, {like.check.__name__}, {{{name!r}: {count:_}}}{options})}}\n",
    ]
    return "\n".join(lines)


def main(arguments: Mapping[str, Any]) -> list[Path]:
    """Write the files that are not there, in the layout of the others, and return them. Raises RedcoError."""
    files = print_files(draft(**arguments))
    if there := [path for path in files if path.exists()]:
        raise RedcoError(str(there[0]), "it is there already", "remove it, or choose another NAME")
    for path, text in files.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    python = [str(path) for path in files if path.suffix == ".py"]
    for command in (["ruff", "check", "--fix", "--quiet"], ["black", "--quiet"]):
        subprocess.run([sys.executable, "-m", *command, *python], check=True)
    return [*files]


if __name__ == "__main__":
    name, like, hf = sys.argv[1:]
    if not name or not hf:
        sys.exit("make family NAME=olmo2 [LIKE=llama] HF=allenai/OLMo-2-1124-7B")
    try:
        if not like:
            sys.exit(
                "\n".join(["make family: LIKE is not named; the nearest:", *near.nearest(name, hf)])
            )
        written = main({"name": name, "like": like, "hf": hf})
    except RedcoError as error:
        sys.exit(f"make family: {error}")
    for path in written:
        count = path.read_text().count(MARK)
        print(f"{path.relative_to(assets.CHECKOUT)}: {count} marked {MARK}")
