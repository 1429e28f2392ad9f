"""What the template changed and a project does not hold: remembered until its user settles it."""

import pytest
from updates import MODEL, PIPELINE, README

UP = f"{MODEL}::up"


def test_lines_of_a_text_file_stay_pending(project):
    project.edit(README, "Run it.", "Run mine.")
    project.change(README, "Run it.", "Run it twice.")
    project.update("--partial")
    for _ in range(2):
        assert project.pending() == ["README.md::line 5"]
        assert project.update()[0] == 0
    assert "+Run it twice." in project.read(".redco/incoming/README.md.diff")
    code, _, err = project.redco("resolve", README, "--theirs")
    assert code == 1 and "take it by hand from .redco/incoming/README.md.diff" in err
    project.settle(("README.md::line 5", "mine"))
    assert project.pending() == []


def test_other_lines_of_a_text_file_are_in_conflict_again(project):
    project.edit(README, "Run it.", "Run mine.")
    project.change(README, "Run it.", "Run it twice.")
    project.update("--partial")
    project.change(README, "Run it twice.\n", "")
    assert project.update()[0] == 1


def test_removed_symbol_stays_pending(project):
    project.edit(MODEL, "x * WIDTH", "x * mine")
    project.change(MODEL, "def up(x):\n    return x * WIDTH\n\n\n", "")
    project.update("--partial")
    for _ in range(2):
        assert project.pending() == [UP]
        assert project.update()[0] == 0
    project.settle((UP, "theirs"))
    assert "def up" not in project.read(MODEL)


def test_owned_function_shows_all_that_changed_since_it_began(project):
    project.edit(PIPELINE, "list(examples)", "mine(examples)")
    project.change(PIPELINE, "list(examples)", "tuple(examples)")
    project.update()
    project.change(PIPELINE, "tuple(examples)", "set(examples)")
    project.change(PIPELINE, "max(", "min(")
    project.update()
    shown = project.read(f".redco/incoming/{PIPELINE}.diff")
    assert "-    return list(examples)\n+    return set(examples)\n" in shown
    assert project.pending() == [f"{PIPELINE}::collate"]
    project.change(PIPELINE, "set(examples)", "list(examples)")
    project.update()
    assert project.pending() == [], "the template is again where it began"


@pytest.mark.parametrize("side", ["mine", "theirs"])
def test_owned_function_is_settled(project, side):
    project.edit(PIPELINE, "list(examples)", "mine(examples)")
    project.change(PIPELINE, "list(examples)", "tuple(examples)")
    project.update()
    project.settle((f"{PIPELINE}::collate", side))
    kept = "mine(examples)" if side == "mine" else "tuple(examples)"
    assert kept in project.read(PIPELINE)
    assert project.pending() == []
    assert project.update()[1] == "my-project: nothing to update.\n"


def test_owned_function_that_the_user_takes_by_hand(project):
    project.edit(PIPELINE, "list(examples)", "mine(examples)")
    project.change(PIPELINE, "list(examples)", "tuple(examples)")
    project.update()
    project.write(PIPELINE, project.template[PIPELINE])
    project.update()
    assert project.pending() == []


def test_file_that_the_user_deletes_meanwhile(project):
    project.edit(PIPELINE, "list(examples)", "mine(examples)")
    project.change(PIPELINE, "list(examples)", "tuple(examples)")
    project.update()
    (project.root / PIPELINE).unlink()
    code, _, err = project.redco("resolve", PIPELINE, "--theirs")
    assert (code, err.count("\n")) == (1, 1) and "you deleted it" in err
    assert not (project.root / PIPELINE).exists()
    project.redco("update")
    assert project.pending() == []


def test_applied_and_not_yet_applied_of_one_file(project):
    project.edit(MODEL, "x * WIDTH", "x * mine")
    project.edit(MODEL, "y / WIDTH", "y / mine")
    project.change(MODEL, "x * WIDTH", "x + WIDTH")
    project.update("--partial")
    project.change(MODEL, "y / WIDTH", "y - WIDTH")
    assert project.update()[0] == 1
    project.settle((MODEL, "theirs"))
    assert "x + WIDTH" in project.read(MODEL)
    assert "y / mine" in project.read(MODEL), "that update is not applied"
    assert project.redco("update")[0] == 0
    assert project.read(MODEL) == project.template[MODEL]


def test_what_was_edited_since_it_was_told_is_not_given_up(project):
    project.edit(PIPELINE, "return model(batch)\n", "return model(batch) - 1  # mine\n")
    project.change(PIPELINE, "return model(batch)\n", "return model(batch) + 1\n")
    assert project.update()[0] == 0
    project.edit(PIPELINE, "# mine", "# mine, and more")
    code, _, err = project.redco("resolve", f"{PIPELINE}::loss", "--theirs")
    assert code == 1 and f"you changed {PIPELINE}::loss since it was told" in err
    assert "# mine, and more" in project.read(PIPELINE)
    assert project.update()[0] == 0
    project.settle((f"{PIPELINE}::loss", "theirs"))
    assert "+ 1" in project.read(PIPELINE)


def test_header_of_a_class_is_taken_and_its_methods_stay(project):
    project.template[MODEL] += "\n\nclass Layer(object):\n    def run(self):\n        return 1\n"
    project.update()
    project.edit(MODEL, "class Layer(object):", "class Layer(object, Mine):")
    project.edit(
        MODEL, "        return 1\n", "        return 1\n\n    def mine(self):\n        return 2\n"
    )
    project.edit(MODEL, "import math\n", "import math\n\n\nclass Mine:\n    pass\n")
    project.change(MODEL, "class Layer(object):", "class Layer(dict):")
    assert project.update("--partial")[0] == 1
    project.settle((f"{MODEL}::Layer", "theirs"))
    assert "class Layer(dict):" in project.read(MODEL)
    assert "    def mine(self):" in project.read(MODEL)
