"""The command lines of a project's programs."""

import argparse
import dataclasses
import difflib
import functools
import os
import re
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import jax

from ..base.contracts import Config
from ..base.messages import UserError, if_asked_for
from ..base.interrupts import INTERRUPTED
from ..base.files import any_path, check_paths, is_bucket, local_path, path_of, work_folder
from ..cluster import lifeline
from ..layout.mesh import parse_axes
from ..monitor.events import EVENTS
from ..run.check_settings import check_number, check_values
from ..run.flag_help import explain
from ..run.record import FILE, FORMER, LORA, Run, choices_of, decode, load_run, read, with_former
from .stop import Stopped

ALSO = {"learning_rate_decay": ("--schedule",)}  # further names of flags
SETTINGS_FILE = "run.settings_file"  # the module of the feature `settings`


def command(main: Callable[[], None]) -> Callable[[], None]:
    """Make a program of `main`: a UserError is one message and its exit code, Ctrl-C a line and 130."""

    @functools.wraps(main)
    def wrapped() -> None:
        try:
            main()
            return EVENTS.leave()
        except UserError as error:
            message, code, together = f"{error.kind}: {error}", error.code, error.together
            silent = error.silent
            EVENTS.end("signal" if isinstance(error, Stopped) else "fault", message)
        except KeyboardInterrupt:
            message = "stopped: the same command goes on from the last checkpoint, if there is one"
            code, together, silent = INTERRUPTED, False, False
            EVENTS.end("signal", message)
        except Exception as error:
            if not jax.distributed.is_initialized():  # else the lifeline knows the cause
                EVENTS.end("fault", f"{type(error).__name__}: {error}")
            raise
        if jax.distributed.is_initialized() and not together:  # the others would wait for this one
            lifeline.end(message, code)
        if not (silent or (together and jax.process_index())):
            print(message, file=sys.stderr)
        raise SystemExit(code)

    return wrapped


class Parser(argparse.ArgumentParser):
    """A parser whose faults are one message, without all flags. actions: by the name of each."""

    def __init__(self, **options: Any) -> None:
        self.actions = dict[str, argparse.Action]()
        super().__init__(allow_abbrev=False, **options)

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        action = super().add_argument(*names, **options)
        words = (name.lstrip("-").replace("-", "_") for name in action.option_strings)
        self.actions |= dict.fromkeys(words, action)
        return action

    def error(self, message: str) -> NoReturn:
        unknown = message.startswith("unrecognized") and "--data" in message
        where = "; what is trained on is what examples() in pipeline.py gives" if unknown else ""
        if message.startswith("unrecognized") and "--preview" in message:
            package = Path(sys.argv[0]).resolve().parent.name
            where = f"; python -m {package}.prepare --preview N shows rows, of a project of texts"
        for name in ("profile", "push", "settings"):
            if message.startswith("unrecognized") and f"--{name}" in message:
                where = f"; `redco update --features {name}` brings --{name}"
        unread = re.search(r"^unrecognized.*?--([\w-]+)", message)
        if unread and not where:
            near = difflib.get_close_matches(unread[1].replace("-", "_"), self.actions, 1)
            where = "".join(f"; did you mean --{name.replace('_', '-')}?" for name in near)
        self.exit(2, f"error: {message}: --help lists the flags{where}\n")


def program_parser(doc: str | None, pipeline: object = None) -> Parser:
    """Return a parser with the options that all programs share.

    pipeline: that of a program that reads a checkpoint, which has --best.
    """
    parser = Parser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--workdir", type=work_folder, required=True, help="folder of checkpoints and metrics")
    add("--mesh", metavar="AXIS=N,...", help="other mesh sizes than sharding.py's")
    virtual = "run on N virtual CPU devices in this process instead of the real ones"
    add("--virtual-devices", type=positive, metavar="N", help=virtual)
    parser.set_defaults(best=None)
    if pipeline is not None:
        add("--best", metavar="SCORE", help="its best checkpoint by that, not the last one")
    return parser


def training_run(
    doc: str | None,
    presets: Mapping[str, Config],
    axes: Mapping[str, int],
    checkpoint: str | None = None,
    preview: bool = False,
) -> Run:
    """Return the run that the command line asks for: a preset, and any of its fields by name.

    presets: name -> configuration, of one type; its fields are sections, frozen dataclasses too.
    checkpoint: what a new run starts from whose preset has the sizes of the first one, which are its
    own, where --init names nothing else.
    preview: whether there is --preview, of rows that are shown, and a run needs no --workdir.
    """
    parser, names = program_parser(doc), list(presets)
    parser.add_argument("--preset", choices=names, default=names[0], help=f"default: {names[0]}")
    weights = "what a new run starts from: the folder of a run, weights, by their path or id of the hub, or none"
    if checkpoint:
        weights += f"; default: {checkpoint}, for the sizes that it has"
    parser.add_argument("--init", metavar="CHECKPOINT", help=weights.replace("%", "%%"))
    if if_asked_for(SETTINGS_FILE):
        add_file = "a file of TOML with any of these, by their names; flags win"
        parser.add_argument("--settings", type=local_path, metavar="FILE", help=add_file)
    parser.set_defaults(preview=0, workdir=Path())
    if preview:
        parser.actions["workdir"].required = False  # nothing is written there
        shown = "print the first N rows as they are learned from"
        parser.add_argument("--preview", type=positive, metavar="N", help=shown)
    wants_help = not {"-h", "--help"}.isdisjoint(sys.argv)  # which takes a look at the source
    for section, field, flag, kind in settings(type(presets[names[0]])):
        sequence, choices = typing.get_origin(kind) is tuple, choices_of(kind)
        item = typing.get_args(kind)[0] if sequence else type(choices[0]) if choices else kind
        parser.add_argument(
            "--" + flag.replace("_", "-"),
            *ALSO.get(flag, ()),
            type=truth if item is bool else item,
            nargs="*" if sequence else None,
            metavar=f"{{{','.join(choices)}}}" if choices else flag.upper(),
            help=explain(presets, section, field) if wants_help else None,
        )
    args, text = parse(parser, type(presets[names[0]]))
    check_paths("--init", args.init, any_path)
    whole = args.preset != "tiny" and presets[args.preset].model == presets[names[0]].model
    start = args.init, checkpoint if whole else None
    init, flags = begun_with(args.workdir, *start, type(presets[names[0]]))
    flags |= {flag: value for flag, value in vars(args).items() if value is not None}
    config = override(presets[args.preset], flags)
    check_values(config)
    mesh = parse_axes(args.mesh, axes) if args.mesh else dict(axes)
    new = whole and args.init is None and not (args.workdir / FILE).exists()
    if new and init is None and hasattr(config, LORA):
        raise UserError(
            "--init: an adapter is of a model that was trained: name its weights, by their path or "
            "id of the hub, or give --init none for one of random numbers"
        )
    return Run(args.workdir, config, mesh, args.virtual_devices, init, text, args.preview)


def parse(parser: Parser, config_type: type[Any]) -> tuple[argparse.Namespace, str]:
    """Return what the command line says, and a file of --settings in a project that has them; and all of it as such a file."""
    fields = [(*x[:3], ALSO.get(x[2], ())) for x in settings(config_type)]
    own = if_asked_for(SETTINGS_FILE)
    args, text = own.parse_with_file(parser, fields) if own else (parser.parse_args(), "")
    if getattr(args, "steps", None) is not None and hasattr(args, "epochs"):
        if args.epochs:
            raise UserError("--epochs: --steps says how long a run is, too: give one of the two")
        args.epochs = 0.0  # also where config.py has some
    return args, text


def begun_with(
    workdir: Path, flag: str | None, otherwise: str | None, config_type: type[Any]
) -> tuple[str | None, dict[str, Any]]:
    """Return (what the run in `workdir` starts from, its settings that no flag need say, by flag).

    flag: --init, where "none" is for random numbers; without it the run's own, and of a new one `otherwise`.
    They are its FORMER settings, and its tokenizer; of a new one, that of the run that it starts from.
    """
    own = workdir / FILE
    record = read(own) if own.exists() else None
    init: str | None = record["init"] if record else otherwise
    if flag is not None:
        init = None if flag == "none" else flag
    flags = {}
    if record:
        before = with_former(config_type, record["config"])
        former = (x for x in settings(config_type) if x[:2] in FORMER)
        flags = {name: before[section][field] for section, field, name, _ in former}
    there = [folder / FILE for folder in (path_of(init), path_of(init).parent)] if init else []
    # A name may be of any length.
    isfile = (
        path for path in there if (path.is_file() if is_bucket(path) else os.path.isfile(path))
    )
    if path := next(isfile, None):
        tokenizer = (record or read(path))["config"].get("data", {}).get("tokenizer")
        flags |= {"tokenizer": tokenizer} if isinstance(tokenizer, str) else {}
    return init, flags


def settings(config_type: type[Any]) -> Iterator[tuple[str, str, str, Any]]:
    """Yield (section, field, name of its flag, type) of each setting.

    Where an earlier section has a field of that name, the section is part of the flag's.
    """
    flags = set[str]()
    for section, kind in typing.get_type_hints(config_type).items():
        types = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            flag = f"{section}_{field.name}" if field.name in flags else field.name
            flags.add(flag)
            yield section, field.name, flag, types[field.name]


def override(config: Any, values: Mapping[str, Any]) -> Any:
    """Return `config` with the settings, by flag, that are not None. Raises UserError."""
    record, flags = dataclasses.asdict(config), dict[str, str]()
    words = {word.partition("=")[0] for word in sys.argv}
    for section, field, flag, _ in settings(type(config)):
        if values.get(flag) is not None:
            record[section][field] = values[flag]
            plain = "--" + flag.replace("_", "-")
            name = next((name for name in ALSO.get(flag, ()) if name in words), plain)
            flags[name] = field
            check_number(field, values[flag], name)  # before a config computes with it
    try:
        return decode(type(config), record)
    except ValueError as error:
        own = [x for x, field in flags.items() if re.search(rf"\b{field}\b", str(error))]
        if flags and not own:  # those are at fault only where it goes without them
            override(config, {})
        raise UserError(f"{', '.join(own or flags) or 'config.py'}: {error}") from None


def recorded_run(args: argparse.Namespace, config_type: type[Any], axes: Mapping[str, int]) -> Run:
    """Return the run of args.workdir, on another mesh or other devices, and with another seed, as the command line says.

    axes: those of sharding.py, which may have got other names since.
    """
    run = load_run(args.workdir, config_type)
    mesh = run.mesh if run.mesh.keys() == axes.keys() else dict(axes)
    devices = run.virtual_devices
    if args.mesh or args.virtual_devices:
        mesh = parse_axes(args.mesh, mesh) if args.mesh else mesh
        devices = args.virtual_devices
    run = dataclasses.replace(run, mesh=mesh, virtual_devices=devices)
    if getattr(args, "seed", None) is None:  # which not all programs have
        return run
    train = dataclasses.replace(run.config.train, seed=args.seed)
    return dataclasses.replace(run, config=dataclasses.replace(run.config, train=train))


def positive(text: str) -> int:
    """Parse a whole number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def truth(text: str) -> bool:
    """Parse `true` or `false`; argparse reports the ValueError for others."""
    return ("false", "true").index(text) == 1
