"""Programs computed in another form: fused arrays in parts, heads apart from the rows of the batch.

The engine plans them so; a project of a user's own class has these files too.
"""

from redco_new.sharding.apart import beside  # for its rules
from redco_new.sharding.apart.follow import follow, run_apart
from redco_new.sharding.apart.merged import Merged
from redco_new.sharding.apart.parts import ELEMENTWISE
from redco_new.sharding.apart.stored import Apart, path_name, put_together, take_apart
from redco_new.sharding.apart.sums import add_products_first

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
