"""redco.toml: what it asks for is done, by hand or by flags, and stays as its user wrote it."""

from dataclasses import replace

import pytest
from updates import README, SHARDING, TOML, stamped

from redco_new.request import Request
from redco_new.project.state import ProjectState, read_project_state
from redco_new.update.redco_toml import read_request


def asked(project) -> Request:
    return Request.from_toml(project.read(TOML))


def test_flag(project):
    code, out, err = project.update("--shards", "8")
    assert (code, err) == (0, "")
    assert asked(project).mesh["model"] == 8
    assert '"model": 8' in project.read(SHARDING) and "over 8" in project.read(README)
    assert "my_project/sharding.py       ~ PARAMS\n      ~ model 4 -> 8\n" in out


def test_value_changed_by_hand(project):
    project.edit(TOML, "model = 4", "model = 8  # mine")
    project.edit(TOML, "zero = 0", "zero = 1")
    text = project.read(TOML)
    assert project.update()[0] == 0
    assert project.read(TOML) == text
    assert '"model": 8' in project.read(SHARDING)


ODD = """name="my-project" # mine
dtype = 'bfloat16'
model = "gpt-j"

mesh = {model = 4, data = -1}  # mine
"""


def test_formatting_order_and_comments_stay(project):
    project.write(TOML, ODD)
    project.template[TOML] = project.template[TOML].replace("was made from", "is made of")
    assert project.update()[0] == 0
    assert project.read(TOML) == ODD


def test_key_in_a_place_of_its_own(project):
    project.edit(TOML, "sequence_parallel = false\n", 'sequence_parallel = false\nrecipe = "lm"\n')
    text = project.read(TOML)
    assert project.update()[0] == 0
    assert project.read(TOML) == text
    assert asked(project).recipe == "lm"


def test_comment_and_template_change_elsewhere(project):
    project.edit(TOML, "model = 4", "model = 4\n# mine")
    project.change(TOML, "# What this project was made from.", "# What this project is made of.")
    assert project.update()[0] == 0
    assert "is made of" in project.read(TOML) and "# mine" in project.read(TOML)


def test_flag_on_top_of_what_was_changed_by_hand(project):
    project.edit(TOML, "zero = 0", "zero = 1")
    project.edit(TOML, "# What this", "# mine\n# What this")
    assert project.update("--shards", "8")[0] == 0
    assert (asked(project).zero, asked(project).mesh["model"]) == (1, 8)
    assert "# mine" in project.read(TOML)


@pytest.mark.parametrize(
    ("old", "new"),
    [("model = 4", "model = 4  # mine"), ("model = 4\n", ""), ("[mesh]", "[ mesh ]")],
)
def test_flag_that_changes_a_line_of_the_users_own(project, old, new):
    project.edit(TOML, old, new)
    before = stamped(project.root)
    code, _, err = project.redco("update", "--shards", "8")
    if not new:
        assert (code, stamped(project.root)) == (1, before)
        assert err == (
            "redco: redco.toml: the flags change lines that you wrote in a way of your own, and nothing "
            "was changed; write model = 8 there yourself, and run it again without the flags\n"
        )
        return
    assert (code, err) == (0, "")
    assert asked(project).mesh["model"] == 8
    assert "# mine" not in new or "model = 8  # mine\n" in project.read(TOML)


def test_flags_on_odd_formatting_never_break_it(project):
    for flags in (["--shards", "8"], ["--zero", "1"], ["--size", "6b"], ["--recipe", "lm"]):
        project.write(TOML, ODD)
        code = project.redco("update", *flags)[0]
        wanted = asked(project)
        assert code in (0, 1)
        changed = wanted.mesh["model"] == 8 or wanted.zero or wanted.size or wanted.recipe
        assert bool(changed) is (code == 0)


def test_byte_order_mark(project):
    project.write(TOML, b"\xef\xbb\xbf" + project.read(TOML).encode())
    assert project.update("--shards", "8")[0] == 0
    assert project.read(TOML).startswith("\ufeff") and "model = 8" in project.read(TOML)


def test_fork_whose_redco_toml_says_it_in_another_way(project):
    project.template[TOML] = 'name = "my-project"\nmodel = "gpt-j"\nmesh = {{model = {model}}}\n'
    project.write(TOML, project.template[TOML].format(model=4))
    before = project.read(TOML)
    assert project.redco("update", "--shards", "8")[0] == 0
    assert project.read(TOML) == before.replace("model = 4", "model = 8")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff", "redco.toml: not UTF-8: "),
        (b"name = ", "redco.toml: not TOML: "),
        (b'name = "other"\nmodel = "gpt-j"\n', "redco.toml: name: the name was my-project and is"),
        (None, "redco.toml: is missing; bring it back: redco update --restore redco.toml"),
    ],
)
def test_bad(project, content, message):
    if content is None:
        (project.root / TOML).unlink()
    else:
        project.write(TOML, content)
    before = stamped(project.root)
    code, _, err = project.redco("update")
    assert (code, err.count("\n"), stamped(project.root)) == (2, 1, before)
    assert err.startswith(f"redco: {message}")


def test_a_project_made_before_muon_could_be_asked_for_keeps_it(project):
    project.edit(TOML, "features = []\n", "")
    state = read_project_state(project.root)
    assert not read_request(state).features  # of today, whose user took the key out
    request = {k: v for k, v in state.manifest.request.items() if k != "features"}
    records = replace(state.records, manifest=replace(state.manifest, request=request))

    def features():
        return read_request(ProjectState(project.root, records)).features

    assert features() == ("muon",)
    project.write(TOML, project.read(TOML).replace("[mesh]", "muon = false\n\n[mesh]"))
    assert features() == ()
    project.write("my_project/runtime/base/buckets.py", "")  # which all had
    assert features() == ("buckets",)
    project.edit(TOML, "muon = false", "muon = true")
    assert features() == ("buckets", "muon")


def test_a_project_keeps_what_had_not_to_be_asked_for_when_it_was_made(project):
    state = read_project_state(project.root)
    project.write("my_project/runtime/data/example_streams.py", "")  # which had that class
    project.write("my_project/runtime/data/preview.py", "")
    project.write("my_project/runtime/run/settings_file.py", "")

    def features(interface):
        manifest = replace(state.manifest, interface=interface)
        records = replace(state.records, manifest=manifest)
        return read_request(ProjectState(project.root, records)).features

    assert features(6) == ("iterators", "preview", "settings")
    assert features(7) == ("settings",)
    assert features(state.manifest.interface) == ()


def test_features_are_added(project):
    for name in ("push", "elastic"):
        assert project.update("--features", name)[0] == 0
    assert asked(project).features == ("elastic", "push")


def test_a_project_of_a_checkpoint_that_was_made_before_goes_on_without(project):
    project.edit(TOML, 'model = "gpt-j"', 'model = "./mine"')
    state = read_project_state(project.root)
    before = {**state.manifest.request, "model": "./mine"}
    for made, rate in ((before, 0.0), ({**before, "dropout": "config"}, "config")):
        records = replace(state.records, manifest=replace(state.manifest, request=made))
        assert read_request(ProjectState(project.root, records)).dropout == rate
