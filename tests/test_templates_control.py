"""Templates print, and hardly branch; a macro fails where it is called without one of its arguments."""

import re
from pathlib import Path

import pytest

from redco_new.errors import RedcoError
from redco_new.render import assets
from redco_new.render.python import print_python

TEMPLATES = assets.templates()
FOLDERS = ("models", "recipes")
FILES = sorted(p for folder in FOLDERS for p in (TEMPLATES / folder).rglob("*.jinja"))

# A line that only decides something. The head and the end of a macro, and an import, are no
# decisions: they are to a template what `def` and `import` are to Python.
CONTROL = re.compile(r"\s*\{%-?\s*(?!macro|endmacro|from|import)\w.*%\}\s*")
SHARE = 0.15
FEW = 4  # lines, which a file may have however short it is


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(TEMPLATES).as_posix())
def test_few_lines_of_a_template_are_control(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    control = [line for line in lines if CONTROL.fullmatch(line)]
    what = f"{len(control)} of {len(lines)} lines decide something: decide it in Python, or part the file"
    assert len(control) <= max(FEW, SHARE * len(lines)), what


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


def test_no_text_depends_on_a_flag_inside_a_line() -> None:
    for path in FILES:
        for line in path.read_text(encoding="utf-8").splitlines():
            assert not re.search(r"\{\{.* if .*\}\}", line), f"{path.name}: {line}"


def test_a_macro_fails_at_the_call_without_an_argument(tmp_path: Path) -> None:
    (tmp_path / "macros.jinja").write_text(
        "{% macro one(text, other) %}\n{% if text %}\n{{ other }}\n{% endif %}\n{% endmacro %}\n"
    )
    page = tmp_path / "page.py.jinja"
    call = '{%% from "macros.jinja" import one %%}\n{{ one(%s) }}\n'
    page.write_text(call % '"", "x"')
    assert not print_python(tmp_path, page.name, {}).strip()
    for bad in ('""', "", '"", "x", "y"', '"", third=1'):
        page.write_text(call % bad)
        with pytest.raises(
            RedcoError, match="parameter 'other'|parameter 'text'|macro 'one' takes"
        ):
            print_python(tmp_path, page.name, {})
