"""Python files of any shape, put together from snippets. {n} makes the names of each one unique."""

from merge.edits import Pick

TOP = (
    "",
    '"""A file."""\n',
    "#!/usr/bin/env python\n# Licence\n\n",
    "from __future__ import annotations\n",
)
IMPORTS = (
    "import mod{n}\n",
    "import pack{n}.sub as alias{n}\n",
    "from pack{n} import one{n}, two{n}\n",
    "from .here{n} import (\n    three{n},\n    four{n} as five{n},\n)\n",
    "import left{n}, right{n}\n",
    "try:\n    import maybe{n}\nexcept ImportError:\n    maybe{n} = None\n",
)
SNIPPETS = (
    "N{n} = {n}\n",
    "a{n}, b{n} = 1, {n}  # two\n",
    "x{n} = 1; y{n} = 2\n",
    "TABLE{n} = {{\n    'a': {n},\n    'b': 2,  # two\n}}\n",
    "TEXT{n} = '''\nat column 0\n  # no comment\n'''\n",
    "def f{n}(x, y=1):\n    z = x + y\n    w = z * {n}\n    return w\n",
    'def g{n}(x):\n    """Doc of {n}.\n\n    More.\n    """\n    if x:\n        y = {n}\n    else:\n        y = 0\n    return y\n    # end\n',
    "async def h{n}(x):\n    async with x:\n        await x.go({n})\n    return [i async for i in x]\n",
    "# about {n}\n@decorate\n@also(n={n})\ndef d{n}():\n    '''Sql.'''\n    q = '''\nselect {n}\n'''\n    return q\n",
    "def m{n}(x):\n    match x:\n        case [a, *_]:\n            return a\n        case {{'k': v}}:\n            return v\n        case _:\n            return {n}\n",
    "class C{n}:\n    '''Fields.'''\n\n    a: int = {n}  # a\n    b: str = 'b'\n\n    def go(self):\n        return self.a\n\n    @property\n    def p(self):\n        return self.b\n\n    @p.setter\n    def p(self, value):\n        self.b = value\n",
    "class D{n}(Base):\n    class Inner:\n        x = {n}\n\n    # between\n\n    def run(self, x):\n        while (k := x.pop()) > {n}:\n            print(k)\n        return k\n",
    "@overload\ndef o{n}(x: int): ...\n@overload\ndef o{n}(x: str): ...\ndef o{n}(x):\n    return {n}\n",
    "if sys.platform == 'p{n}':\n    def i{n}():\n        return 1\nelse:\n    def i{n}():\n        return 2\n",
    "setup('{n}', True)\n",
    "for _ in range({n}):\n    print(_)\n",
    "# %% cell {n}\nc{n} = lambda x: x\n",
    "# ---- a banner {n}\n\nP{n}: Alias = int\n",
    "\x0c\ndef page{n}():\n    return {n}\n",
    "if TYPE_CHECKING:\n    from types{n} import T{n}\n",
)
LAST = ("", 'if __name__ == "__main__":\n    main()\n', "# the end\n")
GAPS = ("", "\n", "\n\n")


def program(pick: Pick) -> str:
    """A file of 1 to 10 symbols, more or less evenly laid out."""
    imports = [IMPORTS[pick(len(IMPORTS))].format(n=10 + i) for i in range(pick(4))]
    end = GAPS[pick(len(GAPS))] + LAST[pick(len(LAST))]
    return "".join([TOP[pick(len(TOP))], *imports, *symbols(pick, 20), end])


def symbols(pick: Pick, start: int) -> list[str]:
    """1 to 7 symbols whose names are numbered from `start`, and gaps between them."""
    found = []
    for n in range(start, start + 1 + pick(7)):
        found += [GAPS[pick(len(GAPS))], SNIPPETS[pick(len(SNIPPETS))].format(n=n)]
    return found
