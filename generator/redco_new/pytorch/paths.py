"""Paths of parts, as `model.layers.0`; one that is called again is there as `rotary_emb@1`."""

from __future__ import annotations

from collections.abc import Iterator


def own_path(path: str) -> str:
    """Return the path of a part in its class: what is called again has the same."""
    return ".".join(part.partition("@")[0] for part in path.split("."))


def upwards(path: str) -> Iterator[str]:
    """Yield a path, and those of the parts that it is in, but for the whole."""
    while path:
        yield path
        path = path.rpartition(".")[0]
