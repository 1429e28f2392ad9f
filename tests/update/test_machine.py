"""Any order of edits, changes of the template, updates, kills and decisions: nothing is lost."""

import re
import tempfile

import pytest
from disk_faults import Killed, killed_at, on
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition
from hypothesis.stateful import rule, run_state_machine_as_test
from transactions import in_memory
from updates import HOSTS, MODEL, PIPELINE, README, SHARDING, TRAIN, Project
from updates import assert_whole, files, stamped

from redco_new.project.manifest import PendingChange, read_manifest
from redco_merge import WHOLE, symbol_text

CODE = (MODEL, PIPELINE, TRAIN)
EXTRA = ("launch/one.sh", "launch/two.sh")
FLAGS = st.sampled_from(([], ["--partial"], ["--shards", "8"]))
SIDE = st.sampled_from(("theirs", "mine"))
PATHS = st.sampled_from((*CODE, README, HOSTS))
WORD = re.compile(r"mine_\d+")
WHERE = st.integers(0, 2)  # few places: the same ones come again


def function_of(path: str, text: str, where: int) -> str:
    """A function of a file with what it consists of, or a line of a text file; "" if there is none."""
    whole = r"^def [^\n]*\n(?:[ \t]+[^\n]*\n)+" if path in CODE else r"^[^\n]+\n"
    found = re.findall(whole, text, re.M)
    return found[where % len(found)] if found else ""


def with_word(path: str, text: str, where: int, word: str) -> str:
    """A file with a word in one of its functions, or on a line of its own."""
    part = function_of(path, text, where)
    if path not in CODE:
        return text.replace(part, f"{part}# {word}\n", 1)
    head, _, rest = part.partition("\n")
    return text.replace(part, f"{head}\n    {word} = 1\n{rest}", 1) if part else text


class Updates(RuleBasedStateMachine):
    """mine: the words that the user wrote and has neither deleted nor given up for the template's."""

    def __init__(self):
        super().__init__()
        self.patch, self.memory = pytest.MonkeyPatch(), in_memory()
        folder = self.memory.__enter__()
        (folder / "tmp").mkdir()
        self.patch.setattr(tempfile, "tempdir", str(folder / "tmp"))
        self.patch.setattr("os.fsync", lambda handle: None)
        self.project = Project(folder / "my-project")
        self.project.install(self.patch)
        self.mine: set[str] = set()
        self.number = 0

    def teardown(self):
        self.patch.undo()
        self.memory.__exit__(None, None, None)

    def word(self, owner: str = "theirs") -> str:
        self.number += 1
        return f"{owner}_{self.number}"

    def written(self, path: str) -> str | None:
        file = self.project.root / path
        return file.read_text() if file.exists() else None

    @initialize(where=WHERE)
    def user_edits_all(self, where):
        for path in (*CODE, README, HOSTS):
            self.user_edits(path, where)

    @rule(path=PATHS, where=WHERE)
    def user_edits(self, path, where):
        if text := self.written(path):
            word = self.word("mine")
            self.project.write(path, with_word(path, text, where, word))
            if word in self.written(path):
                self.mine.add(word)

    @rule(path=PATHS, where=WHERE)
    def template_changes(self, path, where):
        if text := self.project.template.get(path):
            self.project.template[path] = with_word(path, text, where, self.word("theirs"))

    @rule(path=PATHS, where=WHERE, flags=FLAGS)
    def both_change(self, path, where, flags):
        self.user_edits(path, where)
        self.template_changes(path, where)
        self.update(flags)

    @rule(path=PATHS, where=WHERE, whole=st.booleans())
    def user_deletes(self, path, where, whole):
        if text := self.written(path):
            part = text if whole else function_of(path, text, where)
            self.mine -= set(WORD.findall(part))
            if whole:
                (self.project.root / path).unlink()
            else:
                self.project.write(path, text.replace(part, "", 1))

    @rule(path=PATHS, where=WHERE, whole=st.booleans())
    def template_deletes(self, path, where, whole):
        if text := self.project.template.get(path):
            part = text if whole else function_of(path, text, where)
            self.project.template[path] = text.replace(part, "", 1)
            if whole and path != MODEL:
                del self.project.template[path]

    @rule(path=st.sampled_from(EXTRA), ours=st.booleans(), theirs=st.booleans())
    def new_file(self, path, ours, theirs):
        if ours and self.written(path) is None:
            word = self.word("mine")
            self.project.write(path, f"echo {word}\n")
            self.mine.add(word)
        if theirs:
            self.project.template[path] = f"#!/bin/sh\necho {self.word('theirs')}\n"

    @rule(flags=FLAGS)
    def update(self, flags):
        code, _, err = self.project.redco("update", *flags)
        assert code in (0, 1), err
        assert_whole(self.project.root)
        after = stamped(self.project.root)
        again = self.project.redco("update", *flags)
        assert stamped(self.project.root) == after, again

    @precondition(lambda self: self.pending)
    @rule(side=SIDE, edited=st.booleans(), flags=FLAGS)
    def settle(self, side, edited, flags):
        """Resolve all that is pending, and update; the user may go on writing there in between."""
        pending = self.pending
        for each in pending:
            self.resolve(each, side)
        for path in {each.path for each in pending if edited}:
            for where in range(3):
                self.user_edits(path, where)
        self.update(flags)

    @precondition(lambda self: self.pending)
    @rule(where=WHERE, side=SIDE)
    def resolve_one(self, where, side):
        self.resolve(self.pending[where % len(self.pending)], side)

    def resolve(self, each: PendingChange, side: str) -> None:
        given = self.given(each) if side == "theirs" else set()
        if self.project.redco("resolve", f"{each.path}::{each.symbol}", f"--{side}")[0] == 0:
            self.mine -= given

    @property
    def pending(self) -> tuple[PendingChange, ...]:
        return read_manifest(self.project.root)[0].pending

    def given(self, each: PendingChange) -> set[str]:
        """The words of the user's in what is pending."""
        text = self.written(each.path) or ""
        if each.path.endswith(".py") and each.symbol != WHOLE:
            text = symbol_text(text.encode(), each.symbol) or ""
        return set(WORD.findall(text))

    @precondition(lambda self: self.number > 5)
    @rule(path=st.sampled_from((SHARDING, HOSTS, "launch")))
    def eject(self, path):
        self.project.redco("eject", path)

    @rule(at=st.integers(0, 40), where=WHERE, flags=FLAGS)
    def is_killed(self, at, where, flags):
        """At a call that changes the disk, of an update that has something to do; and goes on."""
        for path in (*CODE, README, HOSTS):
            self.template_changes(path, where)
        try:
            with on(killed_at(at)):
                self.project.redco("update", *flags)
        except Killed:
            self.nothing_is_lost()
        self.update(flags)

    @invariant()
    def nothing_is_lost(self):
        # A kill may leave a copy of what redco remembers, which is no text.
        texts = [file.read_text(errors="replace") for file in files(self.project.root)]
        lost = self.mine - set(WORD.findall("".join(texts)))
        assert not lost, lost


def test_nothing_is_lost():
    checks = [HealthCheck.too_slow]
    run_state_machine_as_test(
        Updates,
        settings=settings(
            max_examples=30, stateful_step_count=12, deadline=None, suppress_health_check=checks
        ),
    )
