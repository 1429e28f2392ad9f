"""Three-way merge of files that a user and a template both change."""

from redco_new.merge.describe import changed_lines, changed_symbols, symbol_text
from redco_new.merge.result import WHOLE, Conflict, Merged
from redco_new.merge.taken import take
from redco_new.merge.text import merge_text
from redco_new.merge.three_way import OWNED, merge

__all__ = [
    "OWNED",
    "WHOLE",
    "Conflict",
    "Merged",
    "changed_lines",
    "changed_symbols",
    "merge",
    "merge_text",
    "symbol_text",
    "take",
]
