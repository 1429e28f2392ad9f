"""What each setting of a request may be, as a flag or as a key of redco.toml: a check each."""

from collections.abc import Callable
from typing import Any

from redco_new.errors import RedcoError
from redco_new.request.dropout import check_dropout
from redco_new.request.features import check_features
from redco_new.request.launch import check_launch
from redco_new.request.license import check_copyright, check_license
from redco_new.request.lora import check_lora

DTYPES = ("bfloat16", "float32")
TORCH = "torch"  # by which a model.py is printed
COMPUTE = "compute"  # products in the dtype of all else
PRODUCTS = (COMPUTE, "float8", "int8")
DEVICE, HOST = "device", "host"  # whose memory it is
MEMORIES = (DEVICE, HOST)
HEADS, RING = "heads", "ring"  # what devices of `context` have of attention
ATTENTIONS = (HEADS, RING)
CROSSINGS = (COMPUTE, *DTYPES)
# What few projects have, and redco.toml leaves out of the others.
RARE: dict[str, Any] = {
    "products": COMPUTE,
    "optimizer_memory": DEVICE,
    "gradients_across": COMPUTE,
    "context_attention": HEADS,
    "sequence_length": 0,
}
STAGES = (0, 1)  # of ZeRO (Rajbhandari et al. 2020); the third is the axis fsdp


def check_word(where: str, value: Any) -> str:
    """Return a text of one line. Raises RedcoError."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise RedcoError(where, f"{value!r} is not a name", "give one, in one line of text")
    return value


def _one_of(values: tuple[str, ...], kind: str) -> Callable[[str, Any], str]:
    """Return the check of what is one of some words. kind: what these are."""

    def check(where: str, value: Any) -> str:
        if value not in values:
            what = f"unknown {kind} {value!r}"
            raise RedcoError(where, what, f"choose one of {', '.join(values)}")
        return str(value)

    return check


def _check_crossing(where: str, value: Any) -> str:
    if value not in CROSSINGS:
        what = f"{value!r} is nothing that gradients cross in"
        raise RedcoError(where, what, f"choose one of {', '.join(CROSSINGS)}")
    return str(value)


def _check_zero(where: str, value: Any) -> int:
    if type(value) is not int or value not in STAGES:
        todo = "give 0 or 1; stage 3, which splits the parameters too, is --mesh fsdp=N"
        raise RedcoError(where, f"{value!r} is not a stage of ZeRO that redco has", todo)
    return value


def _check_length(where: str, value: Any) -> int:
    if type(value) is not int or value < 0 or value == 1:
        todo = "give 2 or more; or 0, for as many as the model says"
        raise RedcoError(where, f"{value!r} is not a number of tokens of an example", todo)
    return value


def _check_via(where: str, value: Any) -> str:
    if value not in ("", TORCH):
        raise RedcoError(where, f"{value!r} is no way to a model", f"give {TORCH}, or leave it out")
    return str(value)


def check_truth(where: str, value: Any) -> bool:
    """Return true or false. Raises RedcoError."""
    if not isinstance(value, bool):
        raise RedcoError(where, f"{value!r} is neither true nor false", "give one of them")
    return value


CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "size": check_word,
    "recipe": check_word,
    "loss": check_word,
    "dtype": _one_of(DTYPES, "dtype"),
    "products": _one_of(PRODUCTS, "products"),
    "zero": _check_zero,
    "optimizer_memory": _one_of(MEMORIES, "memory"),
    "gradients_across": _check_crossing,
    "context_attention": _one_of(ATTENTIONS, "attention"),
    "sequence_parallel": check_truth,
    "sequence_length": _check_length,
    "features": check_features,
    "lora": check_lora,
    "dropout": check_dropout,
    "launch": check_launch,
    "via": _check_via,
    "checkpoint": check_word,
    "license": check_license,
    "copyright": check_copyright,
}
