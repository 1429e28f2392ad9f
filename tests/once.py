"""What a process of the tests does once, and a user's does not do twice: templates compiled, commands made of functions.

Copier has an environment of its own for each folder that it prints. What is compiled depends on the
text, on its name, and on what an environment reads it by.
"""

import os
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import jinja2
import typer
from copier._main import Worker
from jinja2.lexer import get_lexer

_compile = jinja2.Environment.compile
_codes: dict[tuple[Any, ...], CodeType] = {}


def compile_once(
    environment: jinja2.Environment,
    source: Any,
    name: str | None = None,
    filename: str | None = None,
    raw: bool = False,
    defer_init: bool = False,
) -> Any:
    """Return the code of a template, as `Environment.compile` does."""
    arguments = (source, name, filename, raw, defer_init)
    if not isinstance(source, str) or raw:
        return _compile(environment, *arguments)
    # Of environments that read alike there is one lexer.
    reads = (type(environment), get_lexer(environment), *environment.extensions)
    key = (*reads, environment.autoescape, environment.optimized, *arguments)
    if key not in _codes:
        _codes[key] = _compile(environment, *arguments)
    return _codes[key]


def compile_all(folder: Path) -> None:
    """Compile each template of a folder as copier does."""
    with Worker(str(folder), Path(os.devnull)) as worker:
        environment = worker.jinja_env
    for path in folder.rglob("*.jinja"):
        environment.get_template(path.relative_to(folder).as_posix())


def make_once() -> None:
    """Compile each template, and make the commands of each program, once from here on."""
    jinja2.Environment.compile = compile_once
    typer.main.get_command = cache(typer.main.get_command)
