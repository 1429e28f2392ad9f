"""`--preview`: rows as they are learned from, in text: what is learned is marked, and nothing is trained."""

from types import SimpleNamespace

import numpy as np
import pytest
from linear import MESH, Config

from redco_runtime.base.messages import UserError
from redco_runtime.data import dry_run
from redco_runtime.data.dry_run import prepare
from redco_runtime.data.preview import preview
from redco_runtime.run.record import Run


class Letters:
    """A tokenizer of which an id is a letter."""

    def __init__(self, name=""):
        pass

    def decode(self, ids):
        return "".join(map(chr, ids))


def pipeline(rows, **names):
    def collate(examples):
        return {name: np.stack([row[name] for row in examples]) for name in examples[0]}

    return SimpleNamespace(
        tokenizer=Letters, collate=collate, examples=lambda config: (rows, []), **names
    )


def row(text, learned, **arrays):
    ids = np.array([ord(x) for x in text])
    marked = np.array([x == "^" for x in learned])
    return {"input_ids": ids, "mask": np.ones(len(ids), bool), "learned": marked} | arrays


@pytest.fixture
def show(tmp_path, capsys):
    """show(pipeline, rows): what is printed."""

    def show(pipeline, rows=1):
        config = Config()
        object.__setattr__(config, "data", SimpleNamespace(tokenizer="letters"))
        preview(pipeline, Run(tmp_path / "a", config, MESH, None, preview=rows))
        assert not (tmp_path / "a").exists()
        return capsys.readouterr().out

    return show


def test_what_is_learned_is_in_brackets(show):
    out = show(pipeline([row("ask: yes", "     ^^^")]))
    assert "-- row 1: 8 tokens in 1 texts, 3 of them learned\na·s·k·:· [y·e·s]\n" in out
    assert out.endswith("in brackets; a dot is between two tokens; nothing was trained\n")


@pytest.mark.parametrize(("no_color", "begins"), [("", "\x1b[32m"), ("1", "[")])
def test_a_terminal_shows_what_is_learned_in_green(show, monkeypatch, no_color, begins):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", no_color)
    assert f"a{begins}b" in show(pipeline([row("ab", " ^")]))


def test_texts_of_a_packed_row_are_apart_and_control_characters_are_written(show):
    packed = row("a\x1b\nbc", " ^^ ^", segments=np.array([1, 1, 1, 2, 2]))
    assert "5 tokens in 2 texts, 3 of them learned\na[\\x1b·\\n\n]\nb[c]\n" in show(
        pipeline([packed])
    )


def test_weights_of_the_next_tokens_say_what_is_learned(show):
    out = show(
        pipeline([row("abcd", "")], targets=lambda batch: (None, np.array([[0, 0.5, 1, 0]])))
    )
    assert "a·b[c·d]\n" in out


@pytest.mark.parametrize(("name", "none"), [("labels", -1), ("label", 0)])
def test_what_tokens_become_is_behind_them(show, name, none):
    rows = row("abc", "", **{name: np.array([none, ord("X"), 1])})
    del rows["learned"]
    out = show(pipeline([rows]))
    assert "3 tokens in 1 texts, 2 of them learned\na[b->X·c->\\x01]\n" in out


def test_as_many_rows_as_there_are(show):
    out = show(pipeline([row("ab", " ^"), row("cd", " ^")]), rows=5)
    assert "a[b]" in out and "c[d]" in out and "row 3" not in out


def test_what_has_no_tokens_is_refused(show):
    with pytest.raises(UserError, match="^--preview: it shows tokens, and collate"):
        show(pipeline([{"x": np.zeros(2)}]))


def test_a_project_without_it_speaks_of_none(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(dry_run, "if_asked_for", lambda module: None)
    prepare(pipeline([row("ab", " ^")]), Run(tmp_path, Config(), MESH, None))
    assert capsys.readouterr().out == "1 rows to train on, and 0 held out\n"


def test_without_a_number_it_says_how_many_rows_there_are(tmp_path, capsys):
    rows = [row("ab", " ^"), row("cd", " ^")]
    prepare(pipeline(rows), Run(tmp_path, Config(), MESH, None))
    prepare(pipeline(iter(rows)), Run(tmp_path, Config(), MESH, None))
    first, second = capsys.readouterr().out.splitlines()
    assert first == "2 rows to train on, and 0 held out: --preview 3 shows the first"
    assert second.startswith("rows as they come to train on, and 0 held out")
