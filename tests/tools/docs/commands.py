"""The page of our two programs."""

from __future__ import annotations

import inspect
from typing import Any

import typer

from docs.markdown import table
from redco_new.cli import redco_app
from redco_new.cli.new import new_app


def cli() -> str:
    """Return the page of the two programs, of what typer knows of them."""
    commands = {"redco-new": typer.main.get_command(new_app)}
    commands |= {f"redco {k}": v for k, v in typer.main.get_command(redco_app).commands.items()}
    return "# Commands\n\n" + "\n".join(command_section(*item) for item in commands.items())


def command_section(name: str, command: Any) -> str:
    """Return the section of a command: what it does, its arguments and options."""
    text = inspect.cleandoc(command.help).replace("\b\nExamples:\n", "Examples:\n")
    about, _, examples = text.partition("Examples:\n")
    shown, _, after = examples.partition("\n\n")
    block = "".join(f"{line.strip()}\n" for line in shown.splitlines())
    rows = [row for parameter in command.params if (row := option_row(parameter))]
    parts = [f"## {name}", about.strip(), f"```bash\n{block}```" if block else "", after.strip()]
    parts += [table(("", ""), rows).strip()] if rows else []
    return "\n\n".join(part for part in parts if part) + "\n"


def option_row(parameter: Any) -> tuple[str, str] | None:
    """Return what is said of an argument or an option; None for those that typer brings."""
    if parameter.name in ("install_completion", "show_completion", "help"):
        return None
    takes = "" if getattr(parameter, "is_flag", False) else parameter.metavar or ""
    names = (
        parameter.opts + parameter.secondary_opts if parameter.param_type_name == "option" else []
    )
    written = ", ".join(f"{name} {takes}".strip() for name in names) or takes
    return f"`{written}`", parameter.help or ""
