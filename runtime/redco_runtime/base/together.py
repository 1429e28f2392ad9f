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
HOSTS: list[str] = []  # of process 0: the name of the host of each, which they said as they met
_turn = itertools.count()  # of this process, which makes the same calls as the others
_words: list[str] = []  # what process 0 has said since all were seen


def patience() -> int:
    """Return how many seconds what the process does now may wait for the others."""
    return round(min(PROGRESS.deadline(), LONGEST) + MARGIN)


def decide(what: str, value: Any, rule: Callable[[list[Any]], Any]) -> Any:
    """Return, in all processes, what `rule` makes of the values of all, by index: process 0 calls it, and it raises nothing.

    what: it, in the message of a deadline. value: of this process, as JSON has it, as has what `rule` returns.
    """
    if jax.process_count() == 1:
        return rule([value])
    client, values = _client(), f"redco/values/{next(_turn)}"
    client.key_value_set(f"{values}/{jax.process_index()}", json.dumps(value))
    client.wait_at_barrier(f"{values} {what}", patience() * 1000)

    def conclude() -> Any:
        every = {int(key.rpartition("/")[2]): x for key, x in client.key_value_dir_get(values)}
        for key in (values, *_words):
            client.key_value_delete(key)  # which all have: they came here
        _words.clear()
        return rule([json.loads(every[index]) for index in sorted(every)])

    return of_first(what, conclude)


def wait_for_all(what: str) -> None:
    """Return when all processes have come here, which have had `what` to do for seconds or for an hour."""
    if jax.process_count() > 1:
        _client().wait_at_barrier(f"redco/{next(_turn)} {what}", patience() * 1000)


def of_first(what: str, say: Callable[[], Any]) -> Any:
    """Return what `say` says in process 0, as JSON has it: others wait for that, and it waits for nobody."""
    key = f"redco/word/{next(_turn)} {what}"
    if jax.process_index():
        return json.loads(_client().blocking_key_value_get(key, patience() * 1000))
    value = say()
    if jax.process_count() > 1:
        _client().key_value_set(key, json.dumps(value))
        _words.append(key)
    return value


def _client() -> Any:
    from jax._src import distributed  # no public name leads there

    return distributed.global_state.client
