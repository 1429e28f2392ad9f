"""What statements bind, need when they run, and are called by."""

import ast

import pytest

from redco_merge.names import bound_names, eager_names, statement_title

MATCH = "match x:\n    case [first, *rest]: pass\n    case {'k': v, **others}: pass\n"
BOUND = {
    "def f(a): b = 1": {"f"},
    "async def f(): pass": {"f"},
    "class C: x = 1": {"C"},
    "import a.b, c as d": {"a", "d"},
    "from a import b as c": {"c"},
    "for i in y: (j, *k), z[0] = i": {"i", "j", "k"},
    "if (n := f(lambda m: m)): pass": {"n"},
    MATCH: {"first", "rest", "v", "others"},
}


@pytest.mark.parametrize("text", BOUND)
def test_names_that_are_bound(text):
    assert bound_names(ast.parse(text).body) == BOUND[text]


EAGER = {
    "def f(a=b, *, c: d = e) -> g: h": {"b", "d", "e", "g"},
    "def f(a, /, *args: b, **more: c): pass": {"b", "c"},
    "@a\ndef f(): b": {"a"},
    "x = lambda y=a: b": {"a"},
    "class C(a, k=b):\n    c = d\n    e = c": {"a", "b", "d"},
    "x.y = z[w]": {"x", "z", "w"},
}


@pytest.mark.parametrize("text", EAGER)
def test_names_that_must_have_a_value_when_it_runs(text):
    assert eager_names(ast.parse(text).body) == EAGER[text]


TITLES = {
    "def f(): pass": "f",
    "a = b[0] = 1": "a, b[0]",
    "a: int = 1": "a",
    "import a, b as c": "import a, c",
    "a.b += 1": "a.b +=",
    "f(x, y)": "f(x)",
    "f(1)": "f(1)",
    "f(x.y)": "f()",
    "if __name__ == '__main__': f()": "__main__",
    "if x: a = b = 1": "if a, b",
    "while True: f()": "while while True:",
}


@pytest.mark.parametrize("text", TITLES)
def test_what_tells_a_statement_from_its_siblings(text):
    assert statement_title(ast.parse(text).body[0]) == TITLES[text]
