"""What a person decides of a new family, each in a line that says what is known: of the neighbour, and of PyTorch's model."""

from __future__ import annotations

import inspect
import io
import re
import reprlib
import sys
import tokenize
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import transformers
from docs.macros import signatures
from gguf.constants import MODEL_ARCH_NAMES

from family.facts import Draft
from redco_new.render import assets

ALIKE = 0.5  # how near two names of keys are, of those of difflib, that may be one
QUOTED = 3  # lines of PyTorch's model that a mark shows of a key
IMPORT = re.compile(r'{% from "(models/shared/\S+)" import (.+?) %}')


def of_fields(new: Draft) -> Iterator[str]:
    """Yield a mark for each field of the neighbour's config class of which no key is known."""
    for field in new.without:
        close = _close(new, field)
        may = f"; {close} may be it" if close else "; leave it out, or work it out in `read`"
        yield f"{field}: transformers' class has no {new.like.keys[field]}{may}"


def _close(new: Draft, field: str) -> str:
    """Return the key that may be a field's, "" for none."""
    return next(iter(get_close_matches(new.like.keys[field], new.more, 1, ALIKE)), "")


def of_keys(new: Draft, text: str) -> Iterator[str]:
    """Yield a mark for each key that the neighbour reads otherwise. text: what reads them."""
    if new.refusal:
        yield f"read as {new.like.name} is, this class is refused: {new.refusal}"
    gone = new.like.defaults.keys() - new.theirs.defaults.keys()
    for key in sorted(gone):
        if re.search(rf"\b{key}\b", text):
            yield f"{key}, which is read below, is no key of this class"
    close = {_close(new, field) for field in new.without}
    for key in [key for key in new.more if key not in close]:
        value = new.theirs.defaults[key]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        field = "a field (KEYS, and `own` of decoder_config)" if number else "a field of quirks"
        choice = f"{field}, or check_equal(config, {key}={reprlib.repr(value)})"
        yield f"{key} is read nowhere: {choice}{_quoted(new, key)}"


def _quoted(new: Draft, key: str) -> str:
    """Return the lines of PyTorch's model in which a key stands; first those that compute with it."""
    module = sys.modules[getattr(transformers, new.theirs.architecture).__module__]
    code = [line for line in _code(inspect.getsource(module)) if re.search(rf"\b{key}\b", line)]
    code = list(dict.fromkeys(x for x in code if not x.startswith(f"self.{key} = "))) or code[:1]
    shown = "; ".join(f"`{line}`" for line in code[:QUOTED])
    name = module.__name__.rpartition(".")[2]
    return f". {name}.py: {shown}" if shown else f". {name}.py does not use it"


def _modeling(new: Draft) -> str:
    """Return the file of PyTorch's model: that which says only what differs from another, where there is one."""
    path = Path(inspect.getfile(getattr(transformers, new.theirs.architecture)))
    short = path.with_name(path.name.replace("modeling_", "modular_"))
    return "/".join((short if short.exists() else path).parts[-4:])


def _code(source: str) -> list[str]:
    """Return the lines of a module without comments, and without those that are in texts alone."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.STRING and token.start[0] != token.end[0]:
            lines[token.start[0] - 1 : token.end[0]] = [""] * (token.end[0] - token.start[0] + 1)
        elif token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    return [line.strip() for line in lines]


def of_gguf(new: Draft, neighbour: str) -> str:
    """Return what llama.cpp calls a kind of model, for people."""
    plain = re.sub("[_-]", "", new.theirs.kind.model_type)
    names = [x for x in MODEL_ARCH_NAMES.values() if x.replace("-", "") == plain]
    has = f"gguf={names[0]!r} of llama.cpp" if names else "no gguf: llama.cpp has none of that name"
    todo = "leave it out, unless model.py is the neighbour's"
    return f"{has}; {neighbour} is its neighbour's: {todo}"


def of_template(new: Draft, file: str, text: str) -> list[str]:
    """Return what a template of the neighbour's is to be changed for, and what its macros are, in lines."""
    different = new.difference.lines
    if not different and not file.startswith("model."):
        return []
    head = f"the tensors beside those of {new.like.name}; what else differs is in {_modeling(new)}."
    same = "none differs; where no key changes the model, `template` can be the neighbour's."
    macros = [line for file, names in IMPORT.findall(text) for line in _macros(file, names)]
    called = ["What is called here; what differs from a macro, write here in its place:"]
    return [head, *(different or [same]), *(called + macros if macros else [])]


def _macros(file: str, names: str) -> Iterator[str]:
    """Yield what is known of the macros of a file that a template imports."""
    all_of_them = signatures((assets.templates() / file).read_text())
    wanted: list[Any] = [name.strip() for name in names.split(",")]
    yield from (f"{file}: {all_of_them[name]}" for name in wanted if name in all_of_them)
