"""How far the host may run ahead of the devices."""

from collections import deque
from typing import Any

import jax

# Calls. More than one, so that a device need not wait for Python; far fewer than the 32 at which
# XLA's CPU client blocks (measured with collectives on virtual devices).
AHEAD = 4


class Pace:
    """A brake: call it with a result of each step that is dispatched: it waits for the one AHEAD before.

    The devices always have work queued, and the host never queues without end: XLA's CPU devices
    block at 32 calls in flight, and where they must meet in a collective they then wait for ever.
    """

    def __init__(self) -> None:
        self._pending: deque[Any] = deque()

    def __call__(self, result: Any) -> None:
        self._pending.append(result)
        if len(self._pending) > AHEAD:
            jax.block_until_ready(self._pending.popleft())
