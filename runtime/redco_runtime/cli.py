"""The command lines of a project's programs."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax

from redco_runtime.errors import UserError
from redco_runtime.mesh import parse_axes
from redco_runtime.run import Run, load_run


def command(main: Callable[[], None]) -> Callable[[], None]:
    """Runs a program: a UserError is one message and exit code 2, Ctrl-C a line and 130."""

    @functools.wraps(main)
    def wrapped() -> None:
        try:
            main()
        except UserError as error:
            leave(f"error: {error}", 2)
        except KeyboardInterrupt:
            leave("stopped: the same command goes on from the last checkpoint", 130)

    return wrapped


def leave(message: str, code: int) -> typing.NoReturn:
    """Print a last line and exit, at once where other processes would wait for this one."""
    print(message, file=sys.stderr, flush=True)
    if jax.distributed.is_initialized():
        sys.stdout.flush()
        os._exit(code)
    raise SystemExit(code)


def parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser with the options that all programs share."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    made.add_argument(
        "--workdir", type=Path, required=True, help="folder of checkpoints and metrics"
    )
    made.add_argument("--mesh", metavar="AXIS=N,...", help="other mesh sizes than sharding.py's")
    made.add_argument(
        "--virtual-devices",
        type=positive,
        metavar="N",
        help="run on N virtual CPU devices in this process instead of the real ones",
    )
    return made


def training_run(doc: str | None, presets: Mapping[str, Any], axes: Mapping[str, int]) -> Run:
    """The run that the command line asks for: a preset, and any of its fields by name.

    presets: name -> configuration, of one type; its fields are sections, frozen dataclasses too.
    """
    made = parser(doc)
    names = list(presets)
    made.add_argument("--preset", choices=names, default=names[0], help=f"default: {names[0]}")
    for section, field, kind in settings(type(presets[names[0]])):
        sequence = typing.get_origin(kind) is tuple
        made.add_argument(
            "--" + field.replace("_", "-"),
            dest=f"{section}.{field}",
            type=str if sequence else kind,
            nargs="*" if sequence else None,
            metavar=field.upper(),
            help=f"{section}.{field} of config.py",
        )
    args = made.parse_args()
    config = presets[args.preset]
    for section, field, kind in settings(type(config)):
        value = getattr(args, f"{section}.{field}")
        if value is not None:
            value = tuple(value) if isinstance(value, list) else value
            config = override(config, section, field, value)
    mesh = parse_axes(args.mesh, axes) if args.mesh else dict(axes)
    return Run(args.workdir, config, mesh, args.virtual_devices)


def settings(config_type: type) -> Iterator[tuple[str, str, Any]]:
    """(section, field, type) of each setting. Two sections may not share the name of a field."""
    seen: dict[str, str] = {}
    for section, kind in typing.get_type_hints(config_type).items():
        types = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            if field.name in seen:
                raise TypeError(f"config: {field.name} is in {seen[field.name]} and in {section}")
            seen[field.name] = section
            yield section, field.name, types[field.name]


def override(config: Any, section: str, field: str, value: Any) -> Any:
    """A copy of `config` with one setting changed. Raises UserError where it is refused."""
    try:
        changed = dataclasses.replace(getattr(config, section), **{field: value})
    except ValueError as error:
        raise UserError(f"--{field.replace('_', '-')}: {error}") from None
    return dataclasses.replace(config, **{section: changed})


def recorded_run(args: argparse.Namespace, config_type: type) -> Run:
    """The run of args.workdir, on another mesh or other devices if the command line names them."""
    run = load_run(args.workdir, config_type)
    changes: dict[str, Any] = {}
    if args.mesh:
        changes["mesh"] = parse_axes(args.mesh, run.mesh)
    if args.mesh or args.virtual_devices:
        changes["virtual_devices"] = args.virtual_devices
    return dataclasses.replace(run, **changes)


def positive(text: str) -> int:
    """A whole number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)
