"""What a Python file says and defines, in counts: the verifier's reading, which shares no code with the merge."""

import ast
import builtins
import codecs
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from redco_merge.limit import names_of_file, nodes_of, remember

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
_WORDS = re.compile(r"\w+|[^\w\s,;()\"'\\]")  # without what a formatter may add, remove or replace
_PREDEFINED = {*dir(builtins), "__file__", "__path__", "__annotations__"}


@dataclass
class Ledger:
    """What a file says and defines.

    symbols: by its dotted path, what each statement of a symbol says, without those inside it and imports; of what has no
        name the path is that of its class.
    outside: statements outside of functions, with the path of their class.
    defines: the names of functions, classes, variables and members outside of functions.
    paths: how often each dotted path is defined, conditions and overloads aside.
    sources: what each definition says, by its dotted path.
    imports: (module, name, alias), anywhere.
    imported: the names that imports outside of functions and classes bind.
    imported_from: what those of no block bind each name to.
    uses: the names of the file that it uses or exports.
    bound: those that it binds; "*" where it imports all of a module.
    reads: the attributes that it reads.
    own: the attributes that it gives to its classes and objects.
    comments: without their marks and blanks.
    """

    symbols: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    outside: Counter[str] = field(default_factory=Counter)
    defines: Counter[str] = field(default_factory=Counter)
    paths: Counter[str] = field(default_factory=Counter)
    sources: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    imports: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    imported: set[str] = field(default_factory=set)
    imported_from: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    uses: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    own: set[str] = field(default_factory=set)
    comments: Counter[str] = field(default_factory=Counter)

    @cached_property
    def says(self) -> Counter[str]:
        """How often each statement is there, without those inside it, imports aside."""
        says: Counter[str] = Counter()
        for counts in self.symbols.values():
            says.update(counts)
        return says

    @cached_property
    def unbound(self) -> set[str]:
        """The names that the file uses or exports and nothing in it binds."""
        return set() if "*" in self.bound else self.uses - self.bound - _PREDEFINED

    @cached_property
    def dangling(self) -> set[str]:
        """The attributes that the file reads and gives to nothing."""
        return self.reads - self.own


# The three sides of a merge are read for each try of it.
@remember
def read_ledger(data: bytes) -> Ledger:
    """Return the ledger of a file. Raises if it is not Python."""
    return _read_text(decode_code(data))


def read_renamed(data: bytes, names: dict[str, str]) -> Ledger:
    """Return the ledger of a file as if all had the old names. names: old -> new. Raises if it is not Python."""
    return _read_text(with_old_names(decode_code(data), names)) if names else read_ledger(data)


def with_old_names(text: str, names: dict[str, str]) -> str:
    """Return `text` with the old names. names: old -> new."""
    old_names = {new: old for old, new in names.items()}
    any_new = "|".join(map(re.escape, old_names))
    return re.sub(rf"\b(?:{any_new})\b", lambda x: old_names[x[0]], text) if names else text


def count_words(text: str) -> Counter[str]:
    """Return the words and signs of a text; those that belong to layout are left out."""
    return Counter(_WORDS.findall(text))


def decode_code(data: bytes) -> str:
    """Return the text of a file, with "\\n" line endings. Raises if it cannot be decoded."""
    text = data.removeprefix(codecs.BOM_UTF8).decode(encoding_of(data))
    return text.replace("\r\n", "\n")


def encoding_of(data: bytes) -> str:
    """Return the encoding that a file declares. Raises SyntaxError if Python does not know it."""
    bare = data.removeprefix(codecs.BOM_UTF8)
    return tokenize.detect_encoding(io.BytesIO(bare).readline)[0]


def _read_text(text: str) -> Ledger:
    nodes = nodes_of(text)
    ledger = Ledger()
    lines = text.encode().split(b"\n")
    _enter(ledger, nodes[0].body, lines)
    for node in nodes:
        match node:
            case ast.Attribute(attr=name, ctx=ast.Load()):
                ledger.reads.add(name)
            case ast.Attribute(attr=name):
                ledger.own.add(name)
            case ast.Import() | ast.ImportFrom():
                ledger.imports.update(_bindings_in(node))
            case ast.Assign(
                targets=[ast.Name(id="__all__")],
                value=ast.List(elts=elements) | ast.Tuple(elts=elements),
            ):
                strings = (x.value for x in elements if isinstance(x, ast.Constant))
                ledger.uses |= {x for x in strings if isinstance(x, str)}
    ledger.own |= {path.rpartition(".")[2] for path in ledger.sources if "." in path}
    used, bound = names_of_file(text)
    ledger.uses |= used
    ledger.bound |= bound | {"*" for _, name, _ in ledger.imports if name == "*"}
    if "#" in text:
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        ledger.comments.update(
            " ".join(x.string.strip("# \t").split()) for x in tokens if x.type == tokenize.COMMENT
        )
    return ledger


def _bindings_in(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str, str]]:
    """Yield (module, name, alias) of an import."""
    module = "." * node.level + (node.module or "") if isinstance(node, ast.ImportFrom) else ""
    for x in node.names:
        yield module, x.name, x.asname or x.name


def _enter(
    ledger: Ledger,
    body: list[ast.stmt],
    lines: list[bytes],
    scope: str = "",
    holder: str | None = None,
    inside_function: bool = False,
) -> None:
    """Enter the statements of a block.

    scope: the path of its class, with a dot. holder: the path of the function or of the scope whose statement holds it.
    """
    for node in body:
        blocks = _blocks(node)
        says = _own_text(node, blocks, lines)
        names = [] if inside_function or isinstance(node, _IMPORTS) else list(_names(node))
        path = f"{scope}{names[0]}" if len(names) == 1 else scope
        if scope and node is body[0] and ast.get_docstring(ast.Module(body, [])) is not None:
            path = f"{scope}__doc__"
        own = path if holder is None else holder
        if not isinstance(node, _IMPORTS):
            ledger.symbols[own][says] += 1
            if not inside_function:
                ledger.outside[scope + says] += 1
        elif not inside_function and not scope:
            for module, name, alias in _bindings_in(node):
                top = alias.partition(".")[0]
                ledger.imported.add(top)
                if holder is None:
                    ledger.imported_from[top].add(f"{module} {name if name != alias else top}")
        for name in names:
            ledger.defines[name] += 1
            ledger.sources[scope + name].append(_text_of(node, lines))
        inner, inside = scope, inside_function
        holds: str | None = own
        if isinstance(node, _DEFINITIONS):
            inner = f"{path}." if names else ""
            inside = inside_function or not isinstance(node, ast.ClassDef)
            holds = holder if isinstance(node, ast.ClassDef) else own
        for block in blocks:
            _enter(ledger, block, lines, inner, holds, inside)
    if not inside_function:
        simple = [node for node in body if isinstance(node, _DEFINITIONS)]
        # An overload and a property's setter are right to be defined again.
        ledger.paths.update(scope + node.name for node in simple if not node.decorator_list)


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
    return " ".join(_WORDS.findall(b"\n".join(code).decode()))
