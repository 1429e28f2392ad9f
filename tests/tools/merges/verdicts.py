"""What a merged file is, beside the one that people committed.

match: the same syntax tree. order: so it is but for the order of imports, and of definitions of other
names, which cannot matter. conflict: a side or a part is left to the user. differ: anything else,
of which the second rule says what differs:
- statements: the same ones, in another order; imports: what is no import is the same, and the
  same names are imported from the same places;
- layout: the blanks in docstrings alone;
- people: what they committed is no merge of the two sides alone: it is one side as it was, a line
  is there more often or less often than both sides together account for, it uses a name that only
  the merge lacks, it defines one twice that each side defines once, it drops what one side alone changed and we have all of that, or git's clean
  merge is what we have;
- wrong: none of these; each is read by a person.
"""

import ast
import copy
import re
import warnings
from collections import Counter
from functools import lru_cache

from redco_merge import MergeResult
from redco_merge.verify_ledger import read_ledger

IMPORTS = (ast.Import, ast.ImportFrom)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
BODIES = ("body", "orelse", "finalbody", "handlers", "cases")


@lru_cache(maxsize=8)
def tree_of(content: bytes) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(content)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def same(a: bytes, b: bytes) -> bool:
    """Whether two files have the same syntax tree."""
    trees = tree_of(a), tree_of(b)
    return a == b or (None not in trees and ast.dump(trees[0]) == ast.dump(trees[1]))


def verdict(merged: MergeResult, people: bytes) -> str:
    if merged.conflicts:
        return "conflict"
    if same(merged.content, people):
        return "match"
    trees = tree_of(merged.content), tree_of(people)
    alike = None not in trees and in_order(trees[0]) == in_order(trees[1])
    return "order" if alike else "differ"


def in_order(tree: ast.Module) -> str:
    """A tree as text, the imports and the definitions of each module and class by their names.

    Those of one name stay as they follow one another, and all else where it is.
    """

    def place(node: ast.stmt) -> tuple[int, str]:
        if isinstance(node, IMPORTS):
            return 0, ast.dump(node)
        return 1, node.name

    tree = copy.deepcopy(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef):
            free = [x for x in node.body if isinstance(x, IMPORTS + DEFINITIONS)]
            node.body = sorted(free, key=place) + [x for x in node.body if x not in free]
    return ast.dump(tree)


def why(sides: tuple[bytes, bytes, bytes], merged: bytes, people: bytes, git: bytes | None) -> str:
    """The second rule, of a merge that differs. git: its merge, None where it has a conflict."""
    if Counter(statements(merged)) == Counter(statements(people)):
        return "statements"
    if laid_out(ast.dump(tree_of(merged))) == laid_out(ast.dump(tree_of(people))):
        return "layout"
    if imports(merged) == imports(people) and rest(merged) == rest(people):
        return "imports"
    one_side = same(people, sides[1]) or same(people, sides[2])
    lacking = undefined(people) - undefined(sides[1]) - undefined(sides[2])
    twice = any(
        n > max(1, *(defined(x)[name] for x in sides[1:])) for name, n in defined(people).items()
    )
    drops = balanced(*sides, merged, people)
    if (
        one_side
        or lacking
        or twice
        or drops
        or beyond(*sides, people)
        or (git is not None and same(git, merged))
    ):
        return "people"
    return "wrong"


def defined(content: bytes) -> Counter[str]:
    """How often each function, class and method is defined."""
    nodes = tree_of(content).body
    classes = [x for x in nodes if isinstance(x, ast.ClassDef)]
    members = [(f"{x.name}.", y) for x in classes for y in x.body]
    every = [*(("", x) for x in nodes), *members]
    kinds = ast.FunctionDef | ast.ClassDef
    return Counter(path + x.name for path, x in every if isinstance(x, kinds))


def balanced(*files: bytes) -> bool:
    """Whether the fourth of five files differs from the last by what the last has too often or too rarely.

    As often as the changes of two sides make it: each statement, or each word of statements that both edited.
    """
    counts = [Counter(statements(x)) for x in files]
    words = [Counter(w for x in said.elements() for w in re.findall(r"\w+", x)) for said in counts]
    return any(
        within(b, o, t, m, but_for=p) and not within(b, o, t, p)
        for b, o, t, m, p in (counts, words)
    )


def within(
    b: Counter[str],
    o: Counter[str],
    t: Counter[str],
    m: Counter[str],
    but_for: Counter[str] | None = None,
) -> bool:
    """Whether a count is that of both changes. but_for: what is as often in this one does not count."""
    for said in b | o | t | m:
        both = o[said] + t[said] - b[said]
        bounds = [both] if b[said] in (o[said], t[said]) else [o[said], t[said], both]
        same = but_for is not None and m[said] == but_for[said]
        if not same and not min(bounds) <= m[said] <= max(bounds):
            return False
    return True


def laid_out(dump: str) -> str:
    """A dumped tree, in whose texts one blank is between two words, and none around them."""
    blank = re.sub(r"(?:\\n|\s)+", " ", dump)
    return blank.replace("' ", "'").replace(" '", "'")


def undefined(content: bytes) -> set[str]:
    return read_ledger(content).unbound


def statements(content: bytes) -> list[str]:
    """What each statement says without those inside it; each name of an import is one."""
    said = [str(x) for x in imports(content).elements()]
    for node in ast.walk(tree_of(content)):
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            if not isinstance(node, IMPORTS):
                said.append(laid_out(header(node)))
    return said


def header(node: ast.AST) -> str:
    fields = [(name, x) for name, x in ast.iter_fields(node) if name not in BODIES]
    return " ".join([type(node).__name__, *(f"{name}={dumped(x)}" for name, x in fields)])


def dumped(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(dumped(x) for x in value)
    return ast.dump(value) if isinstance(value, ast.AST) else repr(value)


def imports(content: bytes) -> Counter[tuple[str, str, str]]:
    bound: Counter[tuple[str, str, str]] = Counter()
    for node in ast.walk(tree_of(content)):
        if isinstance(node, IMPORTS):
            module = getattr(node, "module", None) or ""
            module = "." * getattr(node, "level", 0) + module
            bound.update((module, x.name, x.asname or "") for x in node.names)
    return bound


def rest(content: bytes) -> str:
    """The tree without its imports."""

    class Without(ast.NodeTransformer):
        def visit_Import(self, node: ast.Import) -> None: ...

        def visit_ImportFrom(self, node: ast.ImportFrom) -> None: ...

    return ast.dump(Without().visit(ast.parse(content)))


def beyond(base: bytes, ours: bytes, theirs: bytes, people: bytes) -> bool:
    """Whether people wrote a line that no side has, or dropped one that both sides account for."""
    b, o, t, p = (
        Counter(line.strip() for line in side.splitlines() if line.strip())
        for side in (base, ours, theirs, people)
    )
    for line in b | o | t | p:
        bounds = o[line], t[line], o[line] + t[line] - b[line]
        if not min(bounds) <= p[line] <= max(bounds):
            return True
    return False
