"""Three-way merge of files that a user and a template both change; README.md lists its stages."""

from redco_new.merge.describe import changed_lines, changed_symbols, symbol_text
from redco_new.merge.documents import merge_document
from redco_new.merge.lines import merge_text
from redco_new.merge.result import WHOLE, Conflict, MergeResult
from redco_new.merge.swap import take
from redco_new.merge.three_way import OWNED, merge
from redco_new.merge.toml import merge_tables

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
    "symbol_text",
    "take",
]
