"""What a made project keeps of config.py, where redco's defaults are others by now."""

import pytest

from redco_new.update.kept_defaults import keep_defaults

CONFIG = "my_project/config.py"
BEFORE = '''"""Settings."""


class Optimizer:
    """How fast."""

    learning_rate: float = 1e-4  # at the peak
    beta1: float = 0.9  # ä


def matrices(params):
    """Return what decays."""
    return "kernel"


class Train:
    steps: int = 10
'''
CHANGES = {
    "    learning_rate: float = 1e-4": "    # As TRL's.\n    learning_rate: float = 1e-6",
    "beta1: float = 0.9  # ä\n": "beta1: float = 0.9  # ä\n    final_rate: float = 0.1\n",
    '"kernel"\n': '"kernel", "bias"\n',
    "steps: int = 10": "steps: int = 20",
}


def changed():
    text = BEFORE
    for old, new in CHANGES.items():
        text = text.replace(old, new)
    return text


def test_the_rule_of_updates_stays_and_all_else_is_redcos():
    text, notes = keep_defaults(changed(), BEFORE)
    assert text == BEFORE.replace("# ä\n", "# ä\n    final_rate: float = 0.1\n").replace(
        "10\n", "20\n"
    )
    assert notes == [
        "config.py: learning_rate stays 1e-4; a project made today has 1e-6",
        "config.py: matrices stays as it was; a project made today has another",
    ]
    assert keep_defaults(text, text) == (text, [])


def test_what_became_a_field_stays_as_it_was():
    data = '\n\nclass Data:\n    subword: str = "first"  # x\n    text_field: str = "words"\n'
    text, notes = keep_defaults(BEFORE + data, BEFORE)
    assert text == BEFORE + data.replace("first", "last")
    assert notes == ['config.py: subword stays "last"; a project made today has "first"']
    assert keep_defaults(BEFORE + data, text)[0] == text  # and at the next update
    assert keep_defaults(BEFORE + data, BEFORE + data) == (BEFORE + data, [])


def test_so_does_one_of_training():
    train = '    deviation: str = "sample"\n'
    text, notes = keep_defaults(BEFORE + train, BEFORE)
    assert text == BEFORE + train.replace("sample", "population")
    assert notes == ['config.py: deviation stays "population"; a project made today has "sample"']


@pytest.mark.parametrize(
    "base", ["", "class Optimizer", "class Other:\n    learning_rate: int = 1\n"]
)
def test_without_such_a_base_redcos_text_stays(base):
    assert keep_defaults(changed(), base) == (changed(), [])


def test_an_update_changes_no_rate_silently(project):
    project.template[CONFIG] = BEFORE
    assert project.update()[0] == 0
    project.edit(CONFIG, "0.9", "0.8")
    project.template[CONFIG] = changed()
    code, out, err = project.update()
    assert (code, err) == (0, "")
    assert "learning_rate stays 1e-4; a project made today has 1e-6" in out
    text = project.read(CONFIG)
    assert all(x in text for x in ("= 1e-4", "= 0.8", 'return "kernel"\n', "final_rate", "= 20"))
    assert project.update()[1] == "my-project: nothing to update.\n"


def test_another_recipe_has_its_own_rate(project):
    project.template[CONFIG] = BEFORE
    project.update()
    project.template[CONFIG] = changed()
    assert project.redco("update", "--recipe", "sft")[0] == 0
    assert "= 1e-6" in project.read(CONFIG)
