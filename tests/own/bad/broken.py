"""It cannot be imported."""

import math

HALF = math.sqare(2) / 2
