"""The order of an epoch that is computed a place at a time."""

import time

import numpy as np
import pytest
from redco_runtime.data.batches import example_indices
from redco_runtime.data import permutation
from redco_runtime.data.permutation import SORTED, permute, shuffled


@pytest.mark.parametrize("size", [1, 2, 5, 64, 65, 1000])
def test_each_place_has_one_of_its_own(size):
    orders = {
        tuple(permute(np.arange(size), size, seed, epoch)) for seed in (0, -1) for epoch in (0, 1)
    }
    assert all(sorted(order) == [*range(size)] for order in orders)
    assert len(orders) == 4 or size <= 5


def test_all_orders_are_as_likely():
    orders = [tuple(permute(np.arange(3), 3, seed)) for seed in range(1200)]
    counts = np.unique(orders, axis=0, return_counts=True)[1]
    assert len(counts) == 6 and 150 < counts.min() and counts.max() < 250


def test_it_never_changes():
    assert permute(np.arange(8), 10, 3, 4).tolist() == [0, 9, 2, 1, 5, 6, 7, 4]
    assert permute(np.arange(8), 10, 3, 4, 1).tolist() == [6, 8, 3, 9, 4, 7, 1, 2]
    assert example_indices(2**40, 10**12, 4, SORTED + 1).tolist() == [
        480767,
        652679,
        864967,
        222000,
    ]


def test_a_small_epoch_is_sorted_by_raw_numbers(monkeypatch):
    monkeypatch.setattr(permutation, "SORTED", 6)
    numbers = np.random.Philox(key=[3, 4]).random_raw(6)
    assert shuffled(3, 4, 6, np.arange(6)).tolist() == np.argsort(numbers).tolist()
    assert (shuffled(3, 4, 7, np.arange(7)) == permute(np.arange(7), 7, 3, 4)).all()


def test_an_epoch_of_any_size_begins_at_once():
    start = time.process_time()
    for step in range(20):
        example_indices(0, 10**9 + step, 64, 5 * 10**7 + 3)
    assert time.process_time() - start < 0.5
