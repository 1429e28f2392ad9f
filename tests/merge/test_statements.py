"""Both sides change one place, and the merge is clear: elements of one bracket, imports, definitions."""

import pytest

from redco_merge import MergeResult, merge
from redco_merge.statements import cut_statements
from redco_merge.symbols import symbols_of
from redco_merge.verify import merge_faults
from redco_merge.verify_blocks import block_faults

CLEAR = {
    "exports": (
        "__all__ = ['a', 'c']\n",
        "__all__ = ['a', 'b', 'c']\n",
        "__all__ = ['a', 'c', 'd']\n",
        "__all__ = ['a', 'b', 'c', 'd']\n",
    ),
    "both-append": ("x = {1}\n", "x = {1, 3}\n", "x = {1, 2}\n", "x = {1, 3, 2}\n"),
    "table": (
        "PARAMS = {\n    'a': 1,\n}\n",
        "PARAMS = {\n    'a': 1,\n    'mine': 2,\n}\n",
        "PARAMS = {\n    'a': 5,\n    'new': 3,\n}\n",
        "PARAMS = {\n    'a': 5,\n    'mine': 2,\n    'new': 3,\n}\n",
    ),
    "keywords": ("f(x, a=1)\n", "f(x, a=1, b=2)\n", "f(x, a=3)\n", "f(x, a=3, b=2)\n"),
    "nested": (
        "f(g(a=1), [1])\n",
        "f(g(a=2), [1])\n",
        "f(g(a=1), [1, 2])\n",
        "f(g(a=2), [1, 2])\n",
    ),
    "names-of-an-import": (
        "from m import b\n",
        "from m import a, b\n",
        "from m import b, c\n",
        "from m import a, b, c\n",
    ),
    "imports": (
        "import os\n",
        "import json\nimport os\n",
        "import os\nimport sys\n",
        "import json\nimport os\nimport sys\n",
    ),
    "functions": (
        "x = 1\n",
        "x = 1\n\n\ndef mine():\n    y = 1\n    return y\n",
        "x = 1\n\n\ndef new():\n    y = 2\n    return y\n",
        "x = 1\n\n\ndef mine():\n    y = 1\n    return y\n\n\ndef new():\n    y = 2\n    return y\n",
    ),
    "neighbours": ("a = 1\nb = 1\n", "a = 2\nb = 1\n", "a = 1\nb = 2\n", "a = 2\nb = 2\n"),
    "layout": (
        "x = f(a, b)\ny = 1\n",
        "x = f(\n    a,\n    b,\n)\ny = 1\n",
        "x = f(a, c)\ny = 1\n",
        "x = f(a, c)\ny = 1\n",
    ),
    "both-drop": (
        "def f():\n    a()\n    b()\n    c()\n    d()\n",
        "def f():\n    a()\n    c()\n    d()\n",
        "def f():\n    a()\n",
        "def f():\n    a()\n",
    ),
    "comment-and-code": (
        "# one\nx = f(1)\n",
        "# one\nx = f(2)\n",
        "# two\nx = f(1)\n",
        "# two\nx = f(2)\n",
    ),
    "decorators-of-which-one-side-has-more": (
        "def f():\n    a()\n",
        "@log(1, a=1)\n@log(1, b=2)\ndef f():\n    a()\n",
        "@log(1, b=2)\ndef f():\n    a()\n",
        "@log(1, a=1)\n@log(1, b=2)\ndef f():\n    a()\n",
    ),
    "blanks-of-a-docstring": (
        'def f():\n    """The filled part, or it is none."""\n',
        'def f():\n    """The filled part."""\n',
        'def f():\n    """The filled\n    part, or it is none."""\n',
        'def f():\n    """The filled part."""\n',
    ),
    "quotes-and-a-deletion": (
        "x = 1\n\n\ndef f(b):\n    return '\\n' + b'y'\n",
        'x = 1\n\n\ndef f(b):\n    return "\\n" + b"y"\n',
        "x = 1\n",
        "x = 1\n",
    ),
    "import-beside-a-call": (
        "import pytest\nfrom z import y\n",
        "import pytest\n\npytest.skip('c')\nfrom z import y\n",
        "import pytest\nfrom a import b\nfrom z import y\n",
        "import pytest\n\npytest.skip('c')\nfrom a import b\nfrom z import y\n",
    ),
    "blocks-that-bind-other-names": (
        "import a\n",
        "import a\n\ntry:\n    import b\nexcept ImportError:\n    b = None\n",
        "import a\n\nif a.new:\n\n    def f():\n        return 1\nelse:\n    f = None\n",
        "import a\n\ntry:\n    import b\nexcept ImportError:\n    b = None\n"
        "\nif a.new:\n\n    def f():\n        return 1\nelse:\n    f = None\n",
    ),
    "layout-of-theirs": (
        "x = f(1)\ny = 1\nz = 1\n",
        "x = f(1)\ny = 2\nz = 1\n",
        "x = f(\n    1,\n)\ny = 1\nz = 2\n",
        "x = f(\n    1,\n)\ny = 2\nz = 2\n",
    ),
}
UNCLEAR = {
    "a-place-each-inside": (
        "x = [f(a=1), 2]\n",
        "x = [f(a=3), 2]\n",
        "x = [f(a=1), 4]\n",
    ),
    "callee-of-both-and-keywords": (
        "y = a.f(x, 1)\n",
        "y = b.f(x, 1, a=1)\n",
        "y = b.f(z, 1)\n",
    ),
    "sorted-import-that-loses-its-remark": (
        "from m import (  # noqa\n    d, b, x\n)\n",
        "from m import (  # noqa\n    a, b, d\n)\n",
        "from m import (\n    d, b\n)\n",
    ),
    "new-beside-what-the-other-drops": (
        "def f(self):\n    self.a()\n    self.b()\n",
        "def f(self):\n    self.a()\n    self.c()\n    self.b()\n",
        "def f(self):\n    self.a()\n",
    ),
    "replaced-alike-and-edited": (
        "raise ValueError('Stdin is none')\n",
        "raise Unsupported('stdin ' 'is none')\n",
        "raise Unsupported('Stdin is none')\n",
    ),
    "one-tuple": ("x = (6, 5, 0, 0)\n", "x = (6, 6, 0, -100)\n", "x = (6, 5, 1, 0)\n"),
    "one-tuple-elsewhere": ("x = (1, 2, 3)\n", "x = (1, 2, 4)\n", "x = (5, 2, 3)\n"),
    "places-of-arguments": ("f(1, 2)\n", "f(3, 2)\n", "f(1, 4)\n"),
    "a-list-that-both-lengthen": ("x = [1]\n", "x = [1, 2]\n", "x = [0, 1]\n"),
    "new-in-a-block-that-the-other-drops": (
        "for a in b:\n    run(a)\nif a:\n    stop()\n",
        "for a in b:\n    run(a)\nif a:\n    stop()\n    close()\n",
        "for a in b:\n    run(a)\n",
    ),
    "decorator-of-what-the-other-drops": (
        "def f():\n    a()\n\n\ndef g():\n    b()\n",
        "@cache\ndef f():\n    a()\n\n\ndef g():\n    b()\n",
        "def g():\n    b()\n",
    ),
    "decorators-of-both": (
        "def f():\n    a()\n",
        "@cache\ndef f():\n    a()\n",
        "@log\ndef f():\n    a()\n",
    ),
    "words-of-a-docstring-that-one-side-dropped": (
        'def f():\n    """One, two, three."""\n',
        'def f():\n    """two, three."""\n',
        'def f():\n    """One and two, three."""\n',
    ),
    "edited-and-dropped": (
        "def f():\n    a()\n    b(1)\n",
        "def f():\n    a()\n    b(2)\n",
        "def f():\n    a()\n",
    ),
    "replaced-and-dropped": (
        "def f():\n    a()\n    b(1)\n",
        "def f():\n    a()\n    c(2)\n",
        "def f():\n    a()\n",
    ),
    "argument-edited-and-dropped": ("f(x, y)\n", "g = h\nf(x, g)\n", "f(x)\n"),
    "value-that-the-other-uses": (
        "def f():\n    a = 1\n",
        "def f():\n    a = 1\n    b = 2\n",
        "def f():\n    a = 1\n    c = b\n",
    ),
    "exclusive-cases": (
        "def f(k):\n    raise k\n",
        "def f(k):\n    if k.x == 'a':\n        return 1\n    raise k\n",
        "def f(k):\n    if k.x == 'b':\n        k()\n        return 2\n    raise k\n",
    ),
    "version": (
        '__version__ = "2.1.1"\nx = 1\n',
        '__version__ = "2.2.0.dev0"\nx = 1\n',
        '__version__ = "2.1.2"\nx = 1\n',
    ),
    "version-of-theirs-among-comments": (
        "setup(\n    version='1.9',\n    # eggs\n    zip=False,\n)\n",
        "setup(\n    version='1.9.1',\n    # eggs\n    zip=False,\n)\n",
        "setup(\n    version='1.10rc1',\n    # eggs\n    zip=False,\n)\n",
    ),
    "definition-of-which-one-side-wrote-more": (
        "x = 1\n",
        "x = 1\n\n\ndef f():\n    return call(a=1)\n",
        "x = 1\n\n\ndef f():\n    log()\n    return call(a=1, b=2)\n",
    ),
    "words-that-both-drop": (
        "x = run(wait(get(a, b), loop=c))\n",
        "x = run(get(a, b))\n",
        "x = run(wait(get(a, b)))\n",
    ),
    "words-of-a-docstring": (
        'def f():\n    """Show the the bad key, in `debug` mode."""\n',
        'def f():\n    """Show the bad key, in ``debug`` mode."""\n',
        'def f():\n    """Show the\n    bad key, in `debug` mode."""\n',
    ),
    "remark-dropped-and-edited": (
        "from m import a  # noqa\n",
        "from m import a, b  # noqa: F401\n",
        "from m import a, c\n",
    ),
    "positional": ("f(x)\n", "f(x, 1)\n", "f(x, 2)\n"),
    "one-keyword": ("f(x)\n", "f(x, a=1)\n", "f(x, a=2)\n"),
    "one-entry": ("x = {'a': 1}\n", "x = {'a': 2}\n", "x = {'a': 3}\n"),
    "dropped-and-edited": ("x = {'a': 1, 'b': 2}\n", "x = {'b': 2}\n", "x = {'a': 3, 'b': 2}\n"),
    "callee": ("f(x)\n", "g(x)\n", "f(x, a=1)\n"),
    "one-function": ("", "def f():\n    return 1\n", "def f():\n    return 2\n"),
    "import-of-one-name": (
        "import os\n",
        "import os\nfrom a import x\n",
        "import os\nfrom b import x\n",
    ),
    "name-that-goes": (
        "def f(r):\n    return r.old()\n",
        "def f(r):\n    assert r.old\n    return r.old()\n",
        "def f(r):\n    return r.new()\n",
    ),
    "one-case": (
        "def f(k):\n    raise k\n",
        "def f(k):\n    if k == 'a':\n        return 1\n    raise k\n",
        "def f(k):\n    if k == 'a':\n        return 2\n    raise k\n",
    ),
    "cases-that-go-on": (
        "def f(k):\n    raise k\n",
        "def f(k):\n    if k == 'a':\n        k = 'b'\n    raise k\n",
        "def f(k):\n    if k == 'b':\n        k = 'a'\n    raise k\n",
    ),
    "cases-of-two-names": (
        "def f(k, j):\n    raise k\n",
        "def f(k, j):\n    if k == 'a':\n        return 1\n    raise k\n",
        "def f(k, j):\n    if j == 'b':\n        return 2\n    raise k\n",
    ),
    "new-statements": (
        "def f():\n    a()\n",
        "def f():\n    a()\n    b()\n",
        "def f():\n    a()\n    c()\n",
    ),
}


@pytest.mark.parametrize("name", CLEAR)
def test_clear(name):
    base, ours, theirs, both = (x.encode() for x in CLEAR[name])
    assert merge(base, ours, theirs) == MergeResult(both)
    assert merge(base, ours.replace(b"\n", b"\r\n"), theirs).content == both.replace(b"\n", b"\r\n")


@pytest.mark.parametrize("name", UNCLEAR)
def test_unclear(name):
    base, ours, theirs = (x.encode() for x in UNCLEAR[name])
    merged = merge(base, ours, theirs)
    assert merged.content == ours
    assert merged.conflicts


def test_a_name_from_another_module_is_no_lost_import():
    base = b"from a import x\n\n\ndef f():\n    return x\n\n\ndef g():\n    return 1\n"
    ours = base.replace(b"return 1", b"return 2")
    theirs = base.replace(b"return 1", b"return 3").replace(b"from a", b"from b")
    merged = merge(base, ours, theirs)
    assert merged.content == ours.replace(b"from a", b"from b")
    assert [conflict.symbol for conflict in merged.conflicts] == ["g"]


def test_a_name_that_one_side_imports_and_the_other_defines_is_a_conflict():
    base = b"def f():\n    pass\n\n\nx = 1\n"
    ours = base + b"\n\ndef mask():\n    pass\n"
    merged = merge(base, ours, b"from m import mask\n\n\n" + base)
    assert merged.content == ours
    assert [conflict.symbol for conflict in merged.conflicts] == ["mask"]


def test_a_statement_that_both_add_in_two_functions_is_there_twice():
    base = "class T:\n    def a(self):\n        f()\n\n    def c(self):\n        h()\n"
    ours = base.replace("f()\n", "f()\n        close()\n").replace(
        "h()\n", "h()\n        close()\n"
    )
    theirs = base.replace("f()\n", "f()\n\n    def b(self):\n        g()\n        close()\n")
    merged = merge(base.encode(), ours.encode(), theirs.encode())
    assert merged.conflicts or merged.content.count(b"close()") == 3
    assert merged.content.count(b"close()") >= 2


def test_what_both_add_in_two_places_is_there_once_or_told():
    body = "def f(x):\n    a = 1\n    b = 2\n    c = 3\n    return x\n"
    first, last = (body.replace(x, f"{x}    step(x)\n") for x in ("a = 1\n", "c = 3\n"))
    merged = merge(body.encode(), first.encode(), last.encode())
    assert merged.content == first.encode()
    assert [(x.symbol, x.theirs) for x in merged.conflicts] == [("f", last)]
    first, last = "seed(0)\na = 1\n\nb = 2\n", "a = 1\n\nb = 2\nseed(0)\n"
    assert merge(b"a = 1\n\nb = 2\n", first.encode(), last.encode()) == MergeResult(first.encode())


def test_what_both_add_is_there_once_with_the_comments_of_one():
    base, ours = b"def f(x):\n    return x\n", b"def f(x):\n    step(x)\n    return x\n"
    told = ours.replace(b"    step", b"    # why\n    step")
    assert merge(base, ours, told) == merge(base, told, ours) == MergeResult(told)


def test_an_import_that_the_user_moved_and_the_template_removes_is_told():
    ours = "x = 1\nimport re\n"
    merged = merge(b"import re\nimport sys\n\nx = 1\n", ours.encode(), b"import sys\n\nx = 1\n")
    assert merged.content == ours.encode()
    assert [x.reason for x in merged.conflicts] == ["the template removes it, and you moved it"]


METHOD = "class A:\n    def f(self):\n        return 1\n"
BLOCKS = {
    "method-in-another-class": (
        METHOD,
        METHOD + "\n\nclass B:\n    x = 1\n",
        METHOD + "\n    def g(self):\n        return 2\n",
        METHOD + "\n\nclass B:\n    x = 1\n\n    def g(self):\n        return 2\n",
    ),
    "statement-in-the-block-above": (
        "for a in b:\n    run(a)\nif a:\n    stop()\n",
        "for a in b:\n    run(a)\nif a:\n    stop()\n    close()\n",
        "for a in b:\n    run(a)\n",
        "for a in b:\n    run(a)\n    close()\n",
    ),
    "decorator-of-another": (
        "def f():\n    a()\n\n\ndef g():\n    b()\n",
        "@cache\ndef f():\n    a()\n\n\ndef g():\n    b()\n",
        "def g():\n    b()\n",
        "@cache\ndef g():\n    b()\n",
    ),
    "decorator-twice": (
        "def f():\n    a()\n",
        "@cache\n@log\ndef f():\n    a()\n",
        "@log\ndef f():\n    a()\n",
        "@cache\n@log\n@log\ndef f():\n    a()\n",
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_the_check_refuses_what_is_in_another_block(name):
    assert list(block_faults(*(x.encode() for x in BLOCKS[name])))


def test_the_check_refuses_a_comment_that_is_there_twice():
    base, ours, theirs = b"# c\nx = 1\ny = 1\n", b"# c\nz = 1\nx = 1\ny = 1\n", b"# c\ny = 1\n"
    assert merge_faults(base, ours, theirs, b"# c\nz = 1\ny = 1\n") == []
    assert merge_faults(base, ours, theirs, b"# c\nz = 1\n# c\ny = 1\n")


def test_the_check_lets_blocks_be_edited_and_put_around():
    sides = METHOD, METHOD.replace("return 1", "log()\n        return 1")
    wrapped = METHOD.replace("        return 1", "        with a:\n            return 1")
    both = wrapped.replace("return 1", "log()\n            return 1")
    assert not list(block_faults(*(x.encode() for x in (*sides, wrapped, both))))
    renamed = [x.replace("f(self)", "f(self, y)") for x in (METHOD, sides[1])]
    assert not list(block_faults(*(x.encode() for x in (*sides, *renamed))))


def test_deeper_comments_below_a_function_are_its_own():
    own = ["def f():\n", "    return 1\n", "    # one\n", "    # two\n"]
    below = ["\n", "# of g\n", "def g():\n", "    return 2\n"]
    f, g = symbols_of([*own, *below])[1:3]
    assert (f.lines, g.lines) == (own, below)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("x = (a + b)\n", "x = a + b\n", True),
        ("return (a)\n", "return a\n", True),
        ("x = f(a)\n", "x = g(a)\n", False),
        ("x = (a)(b)\n", "x = a(b)\n", False),
        ("x = (a, b)\n", "x = a, b\n", False),
    ],
)
def test_brackets_around_all_of_a_value_are_layout(one, other, same):
    first, second = (cut_statements([line])[0] for line in (one, other))
    assert (first.key == second.key) is same
