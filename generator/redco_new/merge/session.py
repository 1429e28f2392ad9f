"""What is known throughout one merge, and what it finds."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from redco_new.merge.align import Triple
from redco_new.merge.names import FUNCTIONS
from redco_new.merge.result import Conflict
from redco_new.merge.symbols import Symbol, shown


@dataclass
class Session:
    """owned: symbols that are never merged into once edited.  width: characters of a line.

    kept: names that the template removed and the result still uses.
    needed: names whose imports the user deleted and the result uses.
    """

    owned: frozenset[str]
    width: int
    kept: frozenset[str] = frozenset()
    needed: frozenset[str] = frozenset()
    conflicts: list[Conflict] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def conflict(self, path: str, theirs: Sequence[Symbol], reason: str) -> None:
        self.conflicts.append(Conflict(path, shown(theirs), reason, path in self.owned))

    def refuse(self, path: str, triple: Triple, reason: str) -> None:
        """Our side stays. Says so, and that the template's callers may not fit."""
        self.conflict(path, [triple.theirs] if triple.theirs else [], reason)
        new = parameters(triple.theirs)
        if triple.base and new != parameters(triple.base) and new is not None:
            self.warnings.append(f"`{path}` has other parameters in the template: {new}")


def parameters(symbol: Symbol | None) -> str | None:
    """The parameters of a function as text; None for anything else."""
    match symbol.nodes if symbol else []:
        case [node] if isinstance(node, FUNCTIONS):
            return f"({ast.unparse(node.args)})"
    return None
