"""Three-way merge of files that a user and a template both change; README.md lists its stages."""

from redco_merge.describe import changed_lines, changed_symbols, symbol_text
from redco_merge.documents import merge_document, merge_tables, merge_text
from redco_merge.python import OWNED, merge
from redco_merge.result import WHOLE, Conflict, MergeResult, readable_text
from redco_merge.take import take

__all__ = [
    "OWNED",
    "WHOLE",
    "Conflict",
    "MergeResult",
    "changed_lines",
    "changed_symbols",
    "merge",
    "merge_document",
    "merge_tables",
    "merge_text",
    "readable_text",
    "symbol_text",
    "take",
]
