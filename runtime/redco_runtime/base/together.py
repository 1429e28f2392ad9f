"""What the processes of a run wait for, and decide, by JAX's coordinator on process 0.

A collective of the devices would be a program to compile, and has no end where one process stays away. Each
process sends what it has, and gets one answer, so that a host pays the same among a thousand.
"""

import itertools
import json
from collections.abc import Callable
from typing import Any

import jax

from .progress import PROGRESS

MARGIN = 60.0  # seconds in which the lifeline, which has the same deadline, says who it was
LONGEST = 7 * 24 * 3600.0  # seconds, where there is no deadline, as in a notebook
_turn = itertools.count()  # of this process, which makes the same calls as the others


def patience() -> int:
    """Return how many seconds what the process does now may wait for the others."""
    return round(min(PROGRESS.deadline(), LONGEST) + MARGIN)


def decide(what: str, value: Any, rule: Callable[[list[Any]], Any]) -> Any:
    """Return, in all processes, what `rule` makes of the values of all, by index: process 0 calls it, and it raises nothing.

    what: it, in the message of a deadline. value: of this process, as JSON has it, as has what `rule` returns.
    """
    if jax.process_count() == 1:
        return rule([value])
    client, turn, index = _client(), next(_turn), jax.process_index()
    values, answer = f"redco/values/{turn}", f"redco/answer/{turn}"
    client.key_value_set(f"{values}/{index}", json.dumps(value))
    client.wait_at_barrier(f"redco/{turn} {what}", patience() * 1000)
    if index:
        return json.loads(client.blocking_key_value_get(answer, patience() * 1000))
    every = {int(key.rpartition("/")[2]): said for key, said in client.key_value_dir_get(values)}
    result = rule([json.loads(every[other]) for other in sorted(every)])
    client.key_value_delete(values)
    client.key_value_delete(f"redco/answer/{turn - 1}")  # which all have: they came here
    client.key_value_set(answer, json.dumps(result))
    return result


def wait_for_all(what: str) -> None:
    """Return when all processes have come here, which have had `what` to do for seconds or for an hour."""
    if jax.process_count() > 1:
        _client().wait_at_barrier(f"redco/{next(_turn)} {what}", patience() * 1000)


def of_first(values: list[Any]) -> Any:
    """Return what process 0 says."""
    return values[0]


def _client() -> Any:
    from jax._src import distributed  # no public name leads there

    return distributed.global_state.client
