"""The language of the house: docstrings begin with a verb, names say what a thing is, one word one meaning."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {"generator": ROOT / "generator/redco_new", "runtime": ROOT / "runtime/redco_runtime"}
EMITTED = ROOT / "golden"  # what the templates print

# Participles and the like: they say that something was done, not what a thing is.
BANNED = frozenset(
    "found each told known taken standing held given kept asked made settled".split()
)
VERBS = frozenset("""
    Act Add Apply Bring Change Check Choose Come Compare Compile Connect Contract Copy Count Cut Deal Derive
    Describe Draw Drop End Enter Evaluate Fill Find Forbid Give Grow Hand Import Insert Join Keep
    Leave List Listen Lock Look Loop Make Match Measure Meet Merge Move Multiply Name Number Parse Pass Permute Print Put
    Raise Read Record Reduce Refuse Register Remove Return Run Save Say Settle Show Sort Stack
    Start Take Tell Tie Trace Train Transform Try Turn Undo Unite Update Wait Walk Watch Write Yield
    """.split())
MOST_MODULES = 3  # that have a public function of one name
PAGE = 60  # lines


@pytest.fixture(scope="module")
def sources() -> dict[Path, ast.Module]:
    """The Python of the generator, of the runtime, and of the emitted projects."""
    own = [path for root in PACKAGES.values() for path in root.rglob("*.py")]
    emitted = (p for p in EMITTED.glob("*/project/**/*.py") if "runtime" not in p.parts)
    paths = sorted(path for path in [*own, *emitted] if not path.is_symlink())
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def bindings(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield (name, line) of all that a file gives a name: variables, arguments, fields, functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield (node.id if isinstance(node, ast.Name) else node.attr), node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno


def places(path: Path, lines: list[tuple[int, str]]) -> list[str]:
    return [f"{path.relative_to(ROOT)}:{line}: {what}" for line, what in lines]


def test_docstrings_of_functions_begin_with_a_verb(sources):
    faults = []
    for path, tree in sources.items():
        for node in functions(tree):
            text = ast.get_docstring(node)
            if (
                text
                and not is_property(node)
                and (first := text.split()[0].rstrip(",.:")) not in VERBS
            ):
                faults += places(path, [(node.lineno, f"{node.name}: {first!r}")])
    assert not faults, "\n".join([*faults, "Begin with a verb (a new one: add it to VERBS)."])


def test_names_say_what_a_thing_is(sources):
    faults = []
    for path, tree in sources.items():
        lines = [(line, name) for name, line in bindings(tree) if name.strip("_") in BANNED]
        faults += places(path, lines + ([(1, "module")] if path.stem in BANNED else []))
    assert not faults, "\n".join(faults)


def test_a_function_is_of_one_idea(sources):
    """At most as many lines as a page has, besides its parameters and what is said of them; a loop of training is a project's own."""
    faults = []
    for path, tree in sources.items():
        for node in functions(tree) if not path.is_relative_to(EMITTED) else ():
            body = node.body[ast.get_docstring(node, clean=False) is not None :] or node.body
            if (lines := node.end_lineno - body[0].lineno + 1) > PAGE:
                faults += places(path, [(node.lineno, f"{node.name}: {lines} lines")])
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("package", PACKAGES)
def test_public_functions_have_names_of_their_own(package, sources):
    modules = defaultdict(list)
    for path, tree in sources.items():
        for node in tree.body if path.is_relative_to(PACKAGES[package]) else ():
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                modules[node.name].append(path.relative_to(ROOT).as_posix())
    assert {name: at for name, at in modules.items() if len(at) > MOST_MODULES} == {}
