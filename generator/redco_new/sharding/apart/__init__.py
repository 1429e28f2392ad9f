"""Programs computed with fused arrays taken apart, and with the rows of the batch where they are.

The engine plans them so; a project of a user's own class has these files too.
"""

from redco_new.sharding.apart.follow import follow, run_apart
from redco_new.sharding.apart.parts import ELEMENTWISE, Apart, path_name, put_together, take_apart

__all__ = [
    "ELEMENTWISE",
    "Apart",
    "follow",
    "path_name",
    "put_together",
    "run_apart",
    "take_apart",
]
