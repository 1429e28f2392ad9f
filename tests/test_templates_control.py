"""Templates print, and hardly branch; a macro fails where it is called without one of its arguments."""

import re
from fnmatch import fnmatchcase
from pathlib import Path

import jinja2
import pytest
from jinja2 import nodes

from redco_new.render import assets

TEMPLATES = assets.templates()
FOLDERS = ("models", "own", "project", "recipes")
FILES = sorted(p for folder in FOLDERS for p in (TEMPLATES / folder).rglob("*.jinja"))
ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "generator").rglob("*.jinja"))  # of redco itself

# A line that only decides something. The head and the end of a macro, and an import, are no
# decisions: they are to a template what `def` and `import` are to Python.
CONTROL = re.compile(r"\s*\{%-?\s*(?!macro|endmacro|from|import)\w.*%\}\s*")
SHARE = 0.15
FEW = 4  # lines of control, which a file of at most SHORT lines may have
SHORT = 25


@pytest.mark.parametrize(
    "path", [*FILES, *PAGES], ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_few_lines_of_a_template_are_control(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    control = [line for line in lines if CONTROL.fullmatch(line)]
    what = f"{len(control)} of {len(lines)} lines decide something: decide it in Python, or part the file"
    assert len(control) <= (FEW if len(lines) <= SHORT else SHARE * len(lines)), what


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(TEMPLATES).as_posix())
def test_what_is_included_reads_nothing(path: Path) -> None:
    """Text that takes arguments is a macro, which says so; what is included is printed as it is."""
    for name in re.findall(
        r'\{% include "([^"]*)"(?: ~ [\w.]+ ~ "([^"]*)")? %\}', path.read_text()
    ):
        pattern = "*".join(name) if name[1] else name[0]
        files = list(TEMPLATES.glob(pattern))
        assert files, f"{pattern} is no file"
        for file in files:
            assert not re.search(
                r"\{[{%]", file.read_text()
            ), f"{file.name} is included, and reads facts"


def test_no_text_of_a_model_depends_on_a_flag_inside_a_line() -> None:
    for path in FILES:
        if path.is_relative_to(TEMPLATES / "project"):
            continue  # words of a README
        for line in path.read_text(encoding="utf-8").splitlines():
            assert not re.search(r"\{\{.* if .*\}\}", line), f"{path.name}: {line}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(TEMPLATES).as_posix())
def test_a_line_that_some_projects_have_is_a_line_of_the_template(path: Path) -> None:
    """What is printed where a fact holds is part of a line, or one whole line: `{{- "\\n    line" if fact }}`."""
    tree = jinja2.Environment().parse(path.read_text(encoding="utf-8"))
    texts = (node for one in tree.find_all(nodes.CondExpr) for node in one.find_all(nodes.Const))
    lines = [node for node in texts if isinstance(node.value, str) and "\n" in node.value[1:]]
    assert lines == []


def macro_faults(folder: Path) -> list[str]:
    """The calls of macros, of all templates in a folder, that lack an argument or have one too many."""
    environment = jinja2.Environment()
    trees = {
        path.relative_to(folder).as_posix(): environment.parse(path.read_text(encoding="utf-8"))
        for path in folder.rglob("*.jinja")
    }
    macros = {name: {m.name: m for m in tree.find_all(nodes.Macro)} for name, tree in trees.items()}
    variants = [variant for name, tree in trees.items() for variant in table(tree, macros[name])]
    return [
        f"{name}:{call.lineno}: {called}"
        for name, tree in trees.items()
        for call in tree.find_all(nodes.Call)
        for called, macro in called_macros(tree, call, macros, macros[name], variants)
        if not fits(call, macro)
    ]


def table(tree, macros):
    """(name of a table, kind, what calls have a macro of it by, macro), of the tables of variants in a file.

    The third is "" where a kind is one macro.
    """
    for node in tree.find_all(nodes.Assign):
        for pair in node.node.items if isinstance(node.node, nodes.Dict) else []:
            one = pair.value
            items = (
                [("", one)]
                if isinstance(one, nodes.Name)
                else [(x.key.value, x.value) for x in one.items]
            )
            for attribute, value in items:
                if isinstance(value, nodes.Name):
                    yield node.target.name, pair.key.value, attribute, macros[value.name]


def called_macros(tree, call, macros, own, variants):
    """(name, macro) of each macro that a call may be of: of the file itself, of one it imports, or of a table."""
    target = call.node
    sources = []  # (import, name of the macro there)
    if isinstance(target, nodes.Name):
        if target.name in own:
            yield target.name, own[target.name]
        for source in tree.find_all(nodes.FromImport):
            pairs = [pair if isinstance(pair, tuple) else (pair, pair) for pair in source.names]
            sources += [(source, name) for name, alias in pairs if alias == target.name]
    elif isinstance(target, nodes.Getattr) and isinstance(target.node, nodes.Name):
        for source in tree.find_all(nodes.Import):
            sources += [(source, target.attr)] * (source.target == target.node.name)
        for name, kind, attribute, macro in [] if sources else variants:
            if attribute == target.attr:
                yield f"{name}[{kind}] {attribute}", macro
    elif isinstance(target, nodes.Getitem) and isinstance(target.node, nodes.Name):
        for name, kind, attribute, macro in variants:
            if (name, attribute) == (target.node.name, ""):
                yield f"{name}[{kind}]", macro
    for source, name in sources:
        files = [file for file in imported(source, macros) if name in macros[file]]
        assert files, f"no file that is imported has a macro {name}"
        for file in files:
            yield f"{file} {name}", macros[file][name]


def imported(source, macros):
    """The files that an import may be of: its name may depend on a quirk."""
    name = source.template
    parts = name.nodes if isinstance(name, nodes.Concat) else [name]
    pattern = "".join(part.value if isinstance(part, nodes.Const) else "*" for part in parts)
    files = [file for file in macros if fnmatchcase(file, pattern)]
    assert files, f"{pattern} is no file"
    return files


def fits(call, macro):
    names = [argument.name for argument in macro.args]
    keywords = [keyword.key for keyword in call.kwargs]
    passed = [*names[: len(call.args)], *keywords]
    needed = names[: len(names) - len(macro.defaults)]
    known = len(call.args) <= len(names) and set(keywords) <= set(names)
    return known and len(passed) == len(set(passed)) and set(needed) <= set(passed)


def test_macros_are_called_with_their_arguments() -> None:
    assert macro_faults(TEMPLATES) == []


@pytest.mark.parametrize("arguments", ['""', "", '"", "x", "y"', '"", third=1', '"", text=""'])
def test_a_call_without_its_arguments_is_a_fault(tmp_path: Path, arguments: str) -> None:
    (tmp_path / "one.jinja").write_text("{% macro one(text, other) %}{{ text }}{% endmacro %}\n")
    page = tmp_path / "page.jinja"
    page.write_text('{% from "one.jinja" import one %}\n{{ one("", other="x") }}\n')
    assert macro_faults(tmp_path) == []
    for imports, call in (
        ('from "one.jinja" import one', "one"),
        ('import "one.jinja" as m', "m.one"),
    ):
        page.write_text(f"{{% {imports} %}}\n{{{{ {call}({arguments}) }}}}\n")
        assert len(macro_faults(tmp_path)) == 1


def test_a_table_of_variants_has_the_same_of_each_kind():
    tables = {}
    for path in FILES:
        tree = jinja2.Environment().parse(path.read_text())
        for node in tree.find_all(nodes.Assign):
            if isinstance(node.node, nodes.Dict) and isinstance(
                node.node.items[0].value, nodes.Dict
            ):
                tables[path.stem, node.target.name] = [
                    [item.key.value for item in kind.value.items] for kind in node.node.items
                ]
    assert len(tables) > 3
    for name, kinds in tables.items():
        assert all(kind == kinds[0] for kind in kinds), name
