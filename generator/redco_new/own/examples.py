"""The examples that pipeline.py of a project makes up: the statements that make the arrays of one."""

from __future__ import annotations

from collections.abc import Mapping

from redco_new.request.own_class import Input
from redco_new.own.build import AbstractModel
from redco_new.own.call import join_path, leaves, subscripts
from redco_new.own.contents import Content, dtype_source
from redco_new.own.find import Reference
from redco_new.own.imports import import_statements, reference_source

# Statements that put the array of an input into `example`, by the kind of its content.
SAME = "example[{name!r}] = {array}"
# Arrays that the target does not depend on.
UNRELATED = {"numbers": "example[{name!r}] = rng.normal(size={shape}).astype({dtype})"}
# Arrays that have a pattern of their class. Noise is as large as the pattern of numbers, and half of
# the ids are random: with less a class would be learned at once, more would need more examples.
OF_CLASS = {
    "numbers": """\
noise = rng.normal(size={shape})
example[{name!r}] = (level + pattern.normal(size={shape}) + noise).astype({dtype})""",
    "ids": """\
ids = pattern.integers({below}, size={shape})
other = rng.integers({below}, size={shape})
ids = np.where(rng.random({shape}) < 0.5, ids, other)
example[{name!r}] = ids.astype({dtype})""",
}
# Arrays about a level, a standard normal number, which is the target. The logistic function brings
# the level into the range of ids. The noise is a trade: with none, copying one number would be the
# best answer; with much, an input of few numbers would not tell the level.
OF_LEVEL = {
    "numbers": """\
noise = rng.normal(size={shape})
example[{name!r}] = (level + 0.3 * noise).astype({dtype})""",
    "ids": """\
middle = {below} / (1 + np.exp(-level))
ids = np.floor(middle + rng.uniform(-2, 2, size={shape}))
example[{name!r}] = np.clip(ids, 0, {last}).astype({dtype})""",
}


def array_statements(
    statements: Mapping[str, str],
    inputs: Mapping[str, Input],
    contents: Mapping[str, Content],
    without: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """Return the statements that put each input but for `without` into `example`, in their order."""
    return tuple(
        _statement(statements, name, x, contents[name])
        for name, x in inputs.items()
        if name not in without
    )


def _statement(statements: Mapping[str, str], name: str, x: Input, content: Content) -> str:
    """Return the statement that puts one input into `example`."""
    if content.kind == "same":
        return SAME.format(name=name, array=content.array or f"shown[{name!r}][0]")
    last = content.below - 1
    dtype = dtype_source(x)
    return statements[content.kind].format(
        name=name, shape=x.shape, dtype=dtype, below=content.below, last=last
    )


def setup_statements(
    contents: Mapping[str, Content], model: AbstractModel, package: str, function: Reference | None
) -> tuple[str, ...]:
    """Return the statements that bring the user's own arrays to `shown`; none where all are printed."""
    if function is None or all(x.array or x.kind != "same" for x in contents.values()):
        return ()
    nested = (
        f"shown[{join_path(path)!r}] = shown{subscripts(path)}"
        for path, x in leaves(model.call.arguments)
        if isinstance(x, Input) and len(path) > 1
    )
    return (
        *import_statements(function, model, package),
        "",
        f"_, shown = {reference_source(function, model)}()",
        *nested,
    )
