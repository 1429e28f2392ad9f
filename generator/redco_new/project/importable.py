"""What projects may import: no new one may be called so, since its package would be imported in its place."""

import re
from functools import cache
from importlib import metadata

from packaging.requirements import Requirement

from redco_new.errors import RedcoError
from redco_new.render.assets import runtime, templates

# What is looked for by a name in a text: by pytest, transformers, and the trackers of the runtime.
SOUGHT = frozenset({"evaluate", "peft", "test", "trackio", "wandb"})
IMPORT = re.compile(r"^ *(?:from|import) (\w+)", re.MULTILINE)


def check_hides_nothing(where: str, package: str) -> None:
    """Raise RedcoError where the package of a new project has the name of what projects may import."""
    if package.lower() in importable_names():
        what = f"a package {package!r} would hide the module of that name"
        raise RedcoError(where, what, "choose another, for example my-project")


@cache
def importable_names() -> frozenset[str]:
    """Return, in lower case, what redco-new requires and what that may require: packages, and modules of those installed.

    And what the runtime and the templates import.
    """
    required = _required("redco-new")
    required = required.union(*map(_required, required))
    owners = metadata.packages_distributions().items()
    modules = {module for module, names in owners if required & {*map(_plain, names)}}
    files = [*runtime().rglob("*.py"), *templates().rglob("*.jinja")]
    imported = {name for file in files for name in IMPORT.findall(file.read_text())}
    return frozenset(name.lower() for name in required | modules | imported | SOUGHT)


def _required(name: str) -> set[str]:
    """Return what a distribution requires, by its extras too; nothing of one that is not installed."""
    try:
        lines = metadata.requires(name) or ()
    except metadata.PackageNotFoundError:
        return set()
    return {_plain(Requirement(line).name) for line in lines}


def _plain(name: str) -> str:
    return re.sub(r"[-.]", "_", name).lower()
