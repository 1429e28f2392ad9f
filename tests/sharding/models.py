"""Every model of the zoo, by name: (forward, params, batch)."""

from sharding.zoo import ZOO as SMALL
from sharding.zoo_control import CONTROL
from sharding.zoo_flax import FLAX
from sharding.zoo_mixed import MIXED
from sharding.zoo_text import TEXT
from sharding.zoo_vision import VISION

ZOO = {**SMALL, **TEXT, **VISION, **MIXED, **CONTROL, **FLAX}
