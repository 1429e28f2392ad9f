"""Where the templates, the runtime and the documentation lie: inside the wheel, or in the checkout around this package."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
CHECKOUT = PACKAGE.parent.parent


def templates() -> Path:
    """Return the copier template, with the folders models/ and recipes/ beside its project/."""
    return _first(PACKAGE / "_templates", CHECKOUT / "templates")


def runtime() -> Path:
    """Return the folder that holds the package redco_runtime."""
    return _first(PACKAGE / "_runtime", CHECKOUT / "runtime")


def docs() -> Path:
    """Return the folder of the pages of the documentation."""
    return _first(PACKAGE / "_docs", CHECKOUT / "docs")


def rewriting() -> Path:
    """Return the folder of the part of the engine that projects of own classes have too."""
    return PACKAGE.parent / "redco_plan" / "apart"  # not imported: it brings JAX


def _first(installed: Path, checkout: Path) -> Path:
    return installed if installed.is_dir() else checkout
