"""Killed, failing or interrupted at each call that changes the disk: all old or all new."""

import errno
import itertools
import os
import shutil

import pytest
import transactions
from disk_faults import Calls, Killed, killed_at, on
from transactions import ALL, NEW, OLD, SMALL, lay, some, tree

from redco_new.errors import RedcoError
from redco_new.transaction import apply, recover, unfinished


@pytest.fixture
def folder():
    with transactions.in_memory() as folder:
        yield folder


def ends(folder, paths=ALL):
    """The trees before and after the update of `paths`."""
    before, after = some(OLD, paths), some(NEW, paths)
    return [tree(lay(folder / "before", before)), tree(lay(folder / "after", after))]


def update(root, calls, paths=ALL):
    """Lay `root` anew and update `paths` there, on a disk that behaves as `calls` say."""
    lay(root, some(OLD, paths))
    with on(calls):
        apply(root, transactions.changes(paths))


def killed_updates(folder, paths=ALL):
    """(number of the call, project that was killed there), for each call that there is."""
    for number in itertools.count():
        root = folder / f"killed-{number}"
        try:
            update(root, killed_at(number), paths)
        except Killed:
            yield number, root
        else:
            return


def files(root):
    """The tree without what the transaction keeps there."""
    return {path: entry for path, entry in tree(root).items() if ".redco/staging" not in path}


def test_update(folder):
    before, after = ends(folder)
    update(folder / "root", Calls())
    assert tree(folder / "root") == after != before


def test_killed_at_each_call(folder):
    states, found = ends(folder), []
    for number, root in killed_updates(folder):
        assert unfinished(root) or files(root) in states, number
        assert recover(root) == [], number
        assert not unfinished(root)
        found.append(states.index(tree(root)))
    assert found == sorted(found), "committed at one call, and for good"
    assert found.count(0) > 100 and found.count(1) > 10


def test_killed_at_each_call_and_again_while_undoing(folder):
    states, kills, before = ends(folder, SMALL), 0, None
    for number, root in killed_updates(folder, SMALL):
        now = tree(root)
        if now != before:  # the same after an fsync
            kills += kill_each_recovery(root, states, number)
        before = now
    print(f"{kills} kills of recoveries")
    assert kills > 500


def kill_each_recovery(root, states, number):
    """How many kills it takes until one recovery of a copy of `root` runs through."""
    for kills in itertools.count():
        copy = root.with_name(f"{root.name}-{kills}")
        shutil.copytree(root, copy, symlinks=True)
        try:
            with on(killed_at(kills)):
                recover(copy)
            return kills
        except Killed:
            assert recover(copy) == [], (number, kills)
            assert tree(copy) in states, (number, kills)


def test_disk_full_at_each_call(folder):
    states, found = ends(folder), []
    for number in itertools.count():
        calls, root = Calls(number, OSError(errno.ENOSPC, "No space left")), folder / str(number)
        try:
            update(root, calls)
        except RedcoError as error:
            assert error.what == "cannot be written: No space left, and nothing was changed"
            assert tree(root) == states[0], number
            found.append(0)
        else:  # after the commit, where nothing is left to do but to tidy up
            assert files(root) == states[1], number
            recover(root)
            assert tree(root) == states[1], number
            found.append(1)
        if number == len(calls.made):
            break
    assert found == sorted(found) and found.count(0) > 100


def test_disk_that_turns_read_only_at_each_call(folder):
    states, found = ends(folder, SMALL), []
    for number in itertools.count():
        calls = Calls(number, OSError(errno.EROFS, "Read-only file system"), lasting=True)
        root = folder / str(number)
        try:
            update(root, calls, SMALL)
            found.append("new")
        except RedcoError as error:
            found.append("not undone" if "cannot be undone: Read-only" in error.what else "old")
        half_done = unfinished(root)
        assert half_done or files(root) == states[found[-1] == "new"], number
        assert recover(root) == []
        assert tree(root) == states[found[-1] == "new"], number
        if number == len(calls.made):
            break
    assert {found[0], found[-1]} == {"old", "new"} and found.count("not undone") > 20


def test_interrupted_at_each_call(folder):
    states, found = ends(folder, SMALL), []
    for number in itertools.count():
        calls, root = Calls(number, KeyboardInterrupt()), folder / str(number)
        try:
            update(root, calls, SMALL)
            break
        except KeyboardInterrupt:
            assert not unfinished(root)
            found.append(states.index(files(root)))
            recover(root)
            assert tree(root) == states[found[-1]]
    assert found == sorted(found) and set(found) == {0, 1}


def test_all_is_on_the_disk_before_it_is_relied_on(folder):
    """A loss of power can take back what no fsync has followed."""
    root, calls = folder / "root", Calls()
    update(root, calls)
    made = [(name, path.removeprefix(f"{root}/")) for name, path in calls.made]
    staging, journal = ".redco/staging", ".redco/staging/journal.json"
    begun, ended = made.index(("replace", journal)), made.index(("unlink", journal))
    synced = [made.index(("fsync", place), begun) for place in (staging, ".redco")]
    steps = [i for i in range(begun + 1, ended) if made[i][0] != "fsync"]
    assert len(steps) > 10 and max(synced) < min(steps)
    assert made[max(steps)] == ("replace", ".redco/manifest.json")
    for name, path in made[:begun]:
        if name != "fsync" and path != staging:
            assert ("fsync", path) in made[:begun], path
    for i in steps:
        parent = os.path.dirname(root / made[i][1])
        if os.path.isdir(parent):
            assert ("fsync", parent.removeprefix(f"{root}/")) in made[i:ended], made[i]
    assert made[ended + 1] == ("fsync", staging)


def test_journal_goes_before_its_copies(folder):
    """Without them it could not be followed, should a kill leave the folder cleared in part."""
    half_done = [root for _, root in killed_updates(folder, SMALL) if unfinished(root)]
    assert len(half_done) > 10
    for root in half_done:
        with on(Calls()) as calls:
            recover(root)
        staging = root / ".redco/staging"
        removed = calls.made.index(("unlink", str(staging / "journal.json")))
        assert removed < calls.made.index(("fsync", str(staging)))  # before it is cleared
