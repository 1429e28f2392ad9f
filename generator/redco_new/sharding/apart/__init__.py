"""Programs computed with fused arrays taken apart. A project of a user's own class has this too."""

from redco_new.sharding.apart.parts import (
    ELEMENTWISE,
    Apart,
    path_name,
    put_together,
    run_apart,
    take_apart,
)

__all__ = ["ELEMENTWISE", "Apart", "path_name", "put_together", "run_apart", "take_apart"]
