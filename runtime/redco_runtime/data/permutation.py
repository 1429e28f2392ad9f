"""The order of examples, a place at a time: no epoch is laid out in memory, and none costs a pause."""

from functools import lru_cache

import numpy as np

# Up to so many examples an epoch is sorted, in 0.2 s; the places of a larger one are computed.
SORTED = 2**20
ROUNDS = 8  # of the network: four make a pseudorandom permutation (Luby and Rackoff 1988)


def shuffled(seed: int, epoch: int, size: int, places: np.ndarray) -> np.ndarray:
    """Return which of `size` examples stand at `places` of an epoch: int64, of the shape of `places`.

    It is a permutation of range(size) for each (seed, epoch), the same for ever.
    """
    if size <= SORTED:
        return _sorted(seed, epoch, size)[places]
    return permute(places, size, seed, epoch)


def permute(places: np.ndarray, size: int, *key: int) -> np.ndarray:
    """Return the image of `places`, all below `size`, under a permutation of range(size): int64.

    A Feistel network over the next power of four; what falls outside goes through it again (Black
    and Rogaway 2002). Grain's `index_shuffle` is one too, for an index at a time.
    """
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    keys = np.random.Philox(key=_words(key)).random_raw(ROUNDS)
    values = _network(np.asarray(places, np.uint64), half, keys)
    while (out := values >= size).any():
        values[out] = _network(values[out], half, keys)
    return values.astype(np.int64)


def _network(values: np.ndarray, half: int, keys: np.ndarray) -> np.ndarray:
    """Return a permutation of the numbers of 2 * half bits, applied to `values`."""
    bits = np.uint64(half)
    mask = np.uint64(2**half - 1)
    left, right = values >> bits, values & mask
    for key in keys:
        left, right = right, left ^ (_mix(right ^ key) & mask)
    return left << bits | right


def _mix(x: np.ndarray) -> np.ndarray:
    """Return 64 bits that each depend on all of x: the end of SplitMix64 (Steele et al. 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _words(key: tuple[int, ...]) -> np.ndarray:
    """Return a key of Philox: two words of 64 bits."""
    first, *rest = (part % 2**64 for part in key)
    second = 0
    for part in rest:  # a few small numbers: an epoch, a source
        second = (second * 1_000_003 + part) % 2**64
    return np.array([first, second], np.uint64)


@lru_cache(maxsize=2)  # a batch can end one epoch and begin the next
def _sorted(seed: int, epoch: int, size: int) -> np.ndarray:
    # NumPy keeps the raw words of Philox for ever; Generator.permutation may change by release.
    return np.argsort(np.random.Philox(key=_words((seed, epoch))).random_raw(size), kind="stable")
