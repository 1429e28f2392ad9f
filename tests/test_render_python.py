"""Data and calls as Python: what black leaves as it is."""

import black
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redco_new.errors import RedcoError
from redco_new.render.imports import drop_unused_imports
from redco_new.render.python import BLACK, format_python, print_call, print_data, print_sections

TEXTS = st.text("ab'\"\\\n{é", max_size=6)
PLAIN = st.none() | st.booleans() | st.integers() | TEXTS
DATA = st.recursive(
    PLAIN | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=6,
)


@given(DATA)
def test_data_is_what_it_was(data):
    assert eval(print_data(data)) == data


WORDS = st.dictionaries(
    st.sampled_from("abcdefgh"), st.integers() | st.just("x" * 30) | st.just((1,))
)


@given(WORDS)
def test_a_dict_has_the_layout_of_black(words):
    text = f"NAMES = {print_data(words, before='NAMES = ')}\n"
    assert black.format_str(text, mode=BLACK) == text


@given(WORDS, WORDS)
def test_calls_have_the_layout_of_black(first, second):
    sections = print_sections({"one": ("First", first), "second": ("Second", second)})
    text = "".join(["f(\n", *(f"    {name}={value},\n" for name, value in sections.items()), ")\n"])
    assert black.format_str(text, mode=BLACK) == text


def test_a_call_in_a_line():
    assert print_call("Net", {"dtype": "float32", "sizes": (1,), "kind": None}) == (
        'Net(dtype="float32", sizes=(1,), kind=None)'
    )


def test_what_is_no_python_is_refused():
    with pytest.raises(
        RedcoError, match="a.py: rendered, it is not Python: .*; mend the folder that --template"
    ):
        format_python("a.py", "x = (\n")


UNUSED = '''"""Docstring."""

from __future__ import annotations

import first
import second.part as part
import third  # noqa: F401 - it does something

from a import (
    Kind,
    Other,
    used,
)

import alone

Other: list["Kind"] = used(part)
'''


def test_what_a_file_imports_and_does_not_use_is_not_printed():
    """Quoted annotations use names; a name that is only assigned is not used."""
    text = drop_unused_imports(UNUSED)
    assert [line for line in text.splitlines() if "import" in line] == [
        "from __future__ import annotations",
        "import second.part as part",
        "import third  # noqa: F401 - it does something",
        "from a import Kind, used",
    ]
    assert "\n\n\n" not in text and drop_unused_imports(text) == text
    assert drop_unused_imports("import x (") == "import x ("
