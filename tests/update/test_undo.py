"""`redco undo`: the last update taken back, all of it or nothing."""

import pytest
from updates import HOSTS, README, SHARDING, TOML, TRAIN, assert_whole, files

from redco_new.project.archive import pack
from redco_new.project.records import BASE
from redco_new.transaction import MANIFEST, sha256
from redco_new.update.former import UNDO


def contents(project):
    own = [project.root / MANIFEST, project.root / BASE]
    return {path: path.read_bytes() for path in [*files(project.root), *own]}


def test_an_update_is_taken_back(project):
    project.write(TRAIN, project.read(TRAIN) + "# mine\n")
    del project.template[HOSTS]
    before, mode = contents(project), (project.root / HOSTS).stat().st_mode
    assert project.update("--shards", "8")[0] == 0
    assert contents(project) != before and not (project.root / HOSTS).exists()
    project.write(TRAIN, project.read(TRAIN) + "# mine too\n")  # which the update did not touch
    code, out, err = project.redco("undo")
    assert (code, err) == (0, "") and f"as before the update: {SHARDING}\n" in out
    project.write(TRAIN, project.read(TRAIN).removesuffix("# mine too\n"))
    assert contents(project) == before and (project.root / HOSTS).stat().st_mode == mode
    assert not (project.root / UNDO).exists()
    assert_whole(project.root)
    code, _, err = project.redco("undo")
    assert code == 2 and "no update is kept" in err and err.count("\n") == 1
    assert project.update("--shards", "8")[0] == 0


def test_an_update_that_does_nothing_keeps_the_one_before(project):
    project.update("--shards", "8")
    kept = (project.root / UNDO).read_bytes()
    assert project.update()[0] == 0 and (project.root / UNDO).read_bytes() == kept


def test_files_that_were_edited_since_are_named(project):
    project.update("--shards", "8")
    project.edit(README, "Run it.", "Run it. mine")
    project.write(TOML, project.read(TOML) + "# mine\n")
    before = contents(project)
    code, _, err = project.redco("undo")
    assert code == 1 and README in err and TOML in err and SHARDING not in err
    assert err.count("\n") == 1 and contents(project) == before and (project.root / UNDO).exists()


def test_what_redco_changed_since_is_not_taken_back(project):
    project.update("--shards", "8")
    project.redco("eject", HOSTS)
    assert project.redco("undo")[0] == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": 2, "files": [{"path": "../x", "before": null, "after": null}]}',
        '{"schema": 2, "files": [{"path": "redco.toml", "before": "0", "after": "NOW"}]}',
        '{"schema": 2, "files": [{"path": "redco.toml", "before": ["0"], "after": "NOW"}]}',
        '{"schema": 2, "files": [{"path": "redco.toml"}]}',
        '{"schema": 3, "files": []}',
    ],
)
def test_a_damaged_record_is_one_line(project, text):
    project.update("--shards", "8")
    text = text.replace("NOW", sha256((project.root / TOML).read_bytes()))
    (project.root / UNDO).write_bytes(pack({"index.json": text.encode()}))
    before = contents(project)
    code, _, err = project.redco("undo")
    assert code == 2 and err.count("\n") == 1 and contents(project) == before
