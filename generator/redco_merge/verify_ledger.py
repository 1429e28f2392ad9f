"""What a file says and defines, in counts: the verifier's reading, which shares no code with the merge."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property

from redco_merge.memory import remember
from redco_merge.trees import chunks_of, names_of_file, nodes_of, postpones_annotations
from redco_merge.verify_pieces import (
    bindings_in,
    decode_code,
    exported_names,
    predefined_names,
)

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
_LAYOUT = re.compile(r"\w+|[^\w\s,;()\"'\\]")


@dataclass
class Ledger:
    """What a file says and defines.

    says: each statement without those inside it, imports aside, and how often it is there.
    outside: those outside of functions, with the path of their class.
    defines: the names of functions, classes, variables and members outside of functions.
    paths: how often each dotted path is defined, conditions and overloads aside.
    sources: what each definition says, by its dotted path.
    imports: (module, name, alias), anywhere.
    imported: the names that imports outside of functions and classes bind.
    uses: the names of the file that it uses or exports.
    bound: those that it binds; "*" where it imports all of a module.
    reads: the attributes that it reads.
    own: the attributes that it gives to its classes and objects.
    """

    says: Counter[str] = field(default_factory=Counter)
    outside: Counter[str] = field(default_factory=Counter)
    defines: Counter[str] = field(default_factory=Counter)
    paths: Counter[str] = field(default_factory=Counter)
    sources: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    imports: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    imported: set[str] = field(default_factory=set)
    uses: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    own: set[str] = field(default_factory=set)

    def add(self, other: "Ledger") -> None:
        """Enter all of another ledger."""
        for part in fields(self):
            mine, more = getattr(self, part.name), getattr(other, part.name)
            if isinstance(mine, defaultdict):
                for name, texts in more.items():
                    mine[name] += texts
            else:
                mine.update(more)

    @cached_property
    def unbound(self) -> set[str]:
        """The names that the file uses or exports and nothing in it binds."""
        return set() if "*" in self.bound else self.uses - self.bound - predefined_names()

    @cached_property
    def dangling(self) -> set[str]:
        """The attributes that the file reads and gives to nothing."""
        return self.reads - self.own


# The three sides of a merge are read for each try of it.
@remember
def read_ledger(data: bytes) -> Ledger:
    """Return the ledger of a file. Raises if it is not Python."""
    text = decode_code(data)
    ledger = Ledger()
    postponed = postpones_annotations(text)
    for chunk in chunks_of(text):
        ledger.add(_read_chunk(chunk, postponed))
    return ledger


@remember
def _read_chunk(chunk: str, postponed: bool) -> Ledger:
    """Return the ledger of some statements at the top of a file."""
    nodes = nodes_of(chunk)
    ledger = Ledger()
    lines = chunk.encode().split(b"\n")
    _enter(ledger, nodes[0].body, "", lines, inside_function=False)
    for node in nodes:
        match node:
            case ast.Attribute(attr=name, ctx=ast.Load()):
                ledger.reads.add(name)
            case ast.Attribute(attr=name):
                ledger.own.add(name)
            case ast.Import() | ast.ImportFrom():
                ledger.imports.update(bindings_in(node))
    ledger.own |= {path.rpartition(".")[2] for path in ledger.sources if "." in path}
    _enter_names(ledger, chunk, postponed)
    return ledger


def _enter(
    ledger: Ledger, body: list[ast.stmt], scope: str, lines: list[bytes], inside_function: bool
) -> None:
    """Enter the statements of a block. scope: the path of its class, with a dot."""
    for node in body:
        blocks = _blocks(node)
        if not isinstance(node, _IMPORTS):
            ledger.says[_own_text(node, blocks, lines)] += 1
        path, inner, function = "", scope, inside_function
        if isinstance(node, _IMPORTS):
            if not inside_function and not scope:
                ledger.imported |= {alias.partition(".")[0] for _, _, alias in bindings_in(node)}
        elif not inside_function:
            ledger.outside[scope + _own_text(node, blocks, lines)] += 1
            for name in _names(node):
                ledger.defines[name] += 1
                path = scope + name
                ledger.sources[path].append(_text_of(node, lines))
        if isinstance(node, _DEFINITIONS):
            function = inside_function or not isinstance(node, ast.ClassDef)
            inner = f"{path}."
        for block in blocks:
            _enter(ledger, block, inner, lines, function)
    if not inside_function:
        simple = [node for node in body if isinstance(node, _DEFINITIONS)]
        ledger.paths.update(scope + node.name for node in simple if not _may_repeat(node))


def _may_repeat(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Return whether a name is right to be defined again: an overload, a property's setter."""
    return bool(node.decorator_list)


def _names(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (x.id for x in targets if isinstance(x, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _blocks(node: ast.AST) -> list[list[ast.stmt]]:
    """Return the blocks inside a statement."""
    blocks = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
    parts = [*getattr(node, "handlers", []), *getattr(node, "cases", [])]
    return [x for x in blocks if x and isinstance(x, list)] + [part.body for part in parts]


def _text_of(node: ast.stmt, lines: list[bytes]) -> str:
    return _words(lines, _start(node), (node.end_lineno or node.lineno, node.end_col_offset or 0))


def _own_text(node: ast.stmt, blocks: list[list[ast.stmt]], lines: list[bytes]) -> str:
    """Return what a statement says before its first block; the decorators too."""
    if blocks:
        return _words(lines, _start(node), _start(min((x[0] for x in blocks), key=_start)))
    return _text_of(node, lines)


def _start(node: ast.stmt) -> tuple[int, int]:
    """Return the line and the column that a statement begins at, its decorators included."""
    decorators = getattr(node, "decorator_list", [])
    places = [(x.lineno, max(0, x.col_offset - 1)) for x in decorators]
    return min([(node.lineno, node.col_offset), *places])


def _words(lines: list[bytes], start: tuple[int, int], stop: tuple[int, int]) -> str:
    """Return the words and signs from `start` to `stop`, without layout and comments."""
    rows = lines[start[0] - 1 : stop[0]]
    rows[-1] = rows[-1][: stop[1]]
    rows[0] = rows[0][start[1] :]
    code = [row for row in rows if not row.lstrip().startswith(b"#")]
    return " ".join(_LAYOUT.findall(b"\n".join(code).decode()))


def _enter_names(ledger: Ledger, chunk: str, postponed: bool) -> None:
    """Enter the names of the file that a chunk uses, exports or binds."""
    used, bound = names_of_file(chunk, postponed)
    ledger.uses |= used | exported_names(chunk)
    ledger.bound |= bound | {"*" for _, name, _ in ledger.imports if name == "*"}
