"""Three-way merge of files that a user and a template both change."""

from redco_new.merge.result import WHOLE, Conflict, Merged
from redco_new.merge.text import merge_text
from redco_new.merge.three_way import OWNED, merge

__all__ = ["OWNED", "WHOLE", "Conflict", "Merged", "merge", "merge_text"]
