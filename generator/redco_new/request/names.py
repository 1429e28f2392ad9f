"""Which names a project may have: its folder, its distribution and its package follow from one name."""

import keyword
import re
import sys

from redco_new.errors import RedcoError

NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?")

# What a generated project imports, installs, or has beside its package.
TAKEN = frozenset(
    {"black", "export", "flax", "jax", "jaxlib", "launch", "numpy", "optax", "orbax", "pytest"}
    | {"orbax_checkpoint", "redco", "redco_new", "redco_runtime", "runs", "safetensors", "tests"}
    | {"tqdm", "transformers"}
)


def package_name(name: str) -> str:
    """Return the import name of a project: `my-project` is imported as `my_project`."""
    return name.replace("-", "_")


def dns_label(name: str) -> str:
    """Return a project's name as Kubernetes wants one: a label of RFC 1123 (63 characters), with room for what is appended."""
    return name.lower().replace("_", "-")[:40].rstrip("-")


def check_name(where: str, name: str) -> str:
    """Return `name` if a project may have it.

    Raises RedcoError if it is no distribution name (ASCII letters, digits, `-` and `_`, from a
    letter to a letter or digit), no Python identifier, or hides a module that the project needs.
    """
    package = package_name(name)
    hint = "choose another, for example my-project"
    if not NAME.fullmatch(name):
        what = f"{name!r} is not a project name: letters, digits, - and _, a letter first"
        raise RedcoError(where, what, hint)
    if keyword.iskeyword(package):
        raise RedcoError(where, f"{name!r} is a Python keyword and cannot be imported", hint)
    if package.lower() in TAKEN or package in sys.stdlib_module_names:
        what = f"a package {package!r} would hide the module of that name"
        raise RedcoError(where, what, hint)
    return name
