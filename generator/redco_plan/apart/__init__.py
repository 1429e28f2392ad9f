"""Programs computed in another form: fused arrays in parts, heads apart from the rows of the batch.

The engine plans them so; a project of a user's own class has these files too.
"""

from . import beside  # for its rules
from .follow import follow, run_apart
from .merged import Merged
from .parts import ELEMENTWISE
from .stored import Apart, path_name, put_together, take_apart
from .sums import add_products_first

__all__ = [
    "ELEMENTWISE",
    "Apart",
    "Merged",
    "add_products_first",
    "beside",
    "follow",
    "path_name",
    "put_together",
    "run_apart",
    "take_apart",
]
