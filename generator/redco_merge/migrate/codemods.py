"""What a migration is made of: facts about names that moved and calls that changed, and no code.

Names are dotted and full: redco_runtime.loop.say. `project` stands for the package of a project.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

ROOTS = {"redco_runtime", "project"}  # stand in every file, or in none


@dataclass(frozen=True)
class Rename:
    """A function or class that has another name, or lies in another module, and is called as before."""

    before: str
    after: str

    @property
    def words(self) -> frozenset[str]:
        """The words that a file has where this is about it."""
        return frozenset(self.before.split(".")) - ROOTS

    @property
    def title(self) -> str:
        """What it says, for people."""
        return f"{self.before} is {self.after}"


@dataclass(frozen=True)
class Call:
    """A call that is written another way.

    before: its function, and its arguments in their order: `a` goes by place or by that name, `x.y` by place,
        `a=x.y` by name, and both are an attribute y of any x. A call with fewer or more arguments is another
        call. `module.Class().method(a)` is a method of an instance.
    after: what takes its place: an expression of these arguments, and of the instance as `self`.
    where: argument -> the full name of what it has to be.
    """

    before: str
    after: str
    where: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> frozenset[str]:
        """The words that a file has where this is about it."""
        call = ast.parse(self.before, mode="eval").body
        assert isinstance(call, ast.Call)
        names = [*re.findall(r"\w+", ast.unparse(call.func)), *(x.arg or "" for x in call.keywords)]
        return frozenset(names) - ROOTS

    @property
    def title(self) -> str:
        """What it says, for people."""
        return f"{self.before} is {self.after}"


@dataclass(frozen=True)
class Moves:
    """Modules of redco_runtime that lie in the project's own package, with all that they have.

    modules: name in redco_runtime -> name in PACKAGE.runtime; a package's modules go with it.
    """

    modules: Mapping[str, str]

    words = frozenset({"redco_runtime"})
    title = "the runtime lies in your own package"


Codemod = Rename | Call | Moves


@dataclass(frozen=True)
class Migration:
    """What one version of redco changed of what users' code calls.

    number: of the interface that it leads to.
    title: what changed, for people.
    codemods: what can be rewritten, first to last.
    gone: full name -> what to write instead, of what only its user can rewrite.
    """

    number: int
    title: str
    codemods: tuple[Codemod, ...]
    gone: Mapping[str, str] = field(default_factory=dict)
