"""The goldens are sound, and the comparison with them sees every kind of difference."""

import subprocess
from types import SimpleNamespace

import black
import golden
import golden_layouts
import pytest

CASES = [case.name for case in golden.cases()]


def test_there_are_goldens():
    assert "gpt-j-4" in CASES


@pytest.mark.parametrize("name", CASES)
def test_files_are_formatted_and_compile(name):
    mode = black.Mode(line_length=100, target_versions={black.TargetVersion.PY311})
    files = golden.committed(golden.GOLDEN / name)
    assert any(path.endswith("/model.py") for path in files)
    for path, text in files.items():
        if not path.endswith(".py") or text.startswith(golden.LINK):
            continue  # another golden's
        assert black.format_str(text, mode=mode) == text, path
        compile(text, path, "exec")


@pytest.mark.parametrize("name", CASES)
def test_runtime_is_not_copied(name):
    case = golden.GOLDEN / name
    package = golden.request_of(case).package
    assert (case / "project" / package / "runtime").resolve() == golden.RUNTIME
    assert not (case / "project" / ".redco" / "base.tar.xz").exists()


def test_what_a_golden_before_has_is_a_link(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    first = {}
    texts = {"project/x/same.py": "1\n", "project/own.py": "2\n", "sharding.txt": "3\n"}
    golden.write(a, golden.once(a, texts, first))
    golden.write(b, golden.once(b, texts | {"project/own.py": "4\n"}, first))
    assert golden.committed(a) == texts
    assert (b / "project/x/same.py").read_text() == "1\n"
    assert golden.committed(b) == {
        "project/x/same.py": "link to ../../../a/project/x/same.py\n",
        "project/own.py": "4\n",
        "sharding.txt": "3\n",
    }


@pytest.mark.parametrize("name", CASES)
def test_losses_fall(name):
    lines = (golden.GOLDEN / name / golden.LOSSES).read_text().splitlines()
    steps, values = zip(*(line.split() for line in lines), strict=True)
    assert list(map(int, steps)) == list(range(1, golden.STEPS + 1))
    assert float(values[-1]) < float(values[0]) - 1


def test_layouts_of_the_zoo_are_the_committed_ones():
    """None is missing, none is too much."""
    new = golden_layouts.zoo()
    assert new and all(new.values())
    found = golden.differences(golden.committed(golden.ZOO), new, "golden/zoo")
    assert not found, "\n".join([*found, golden.REWRITE])


def test_missing_changed_and_extra_files_are_shown():
    old = {"changed": "a\nb\n", "extra": "e\n", "same": "s\n"}
    new = {"changed": "a\nc\n", "missing": "m\n", "same": "s\n", "void": ""}
    text = "".join(golden.differences(old, new, "golden/x"))
    assert "--- golden/x/changed\n+++ golden/x/changed\n" in text
    assert "-b\n+c\n" in text
    assert "--- golden/x/extra\n+++ /dev/null\n@@ -1 +0,0 @@\n-e\n" in text
    assert "--- /dev/null\n+++ golden/x/missing\n@@ -0,0 +1 @@\n+m\n" in text
    assert "empty: golden/x/void" in text
    assert "same" not in text


def test_what_lies_in_a_case(tmp_path):
    (tmp_path / "project" / "runtime").mkdir(parents=True)
    (tmp_path / "project" / "runtime" / "copied.py").write_text("x\n")
    (tmp_path / "project" / "__pycache__").mkdir()
    (tmp_path / "project" / "__pycache__" / "a.pyc").write_bytes(b"\xff")
    (tmp_path / "project" / "link").symlink_to("away")
    for name in ("request.toml", golden.LOSSES, "net.py", "other.txt"):
        (tmp_path / name).write_text("t\n")
    assert golden.committed(tmp_path) == {
        "other.txt": "t\n",
        "project/link": "link to away\n",
        "project/runtime/copied.py": "x\n",
    }


@pytest.mark.parametrize(
    ("committed", "differ"),
    [
        ("1 2.0000\n2 1.0000\n", False),
        ("1 2.0010\n2 1.0005\n", False),
        ("1 2.0000\n2 1.0020\n", True),
        ("1 2.0000\n", True),
        ("1 2.0000\n2 1.0000\n3 1.0000\n", True),
        ("1 nan\n2 1.0000\n", True),
        (None, True),
    ],
)
def test_losses_are_compared_within_a_tolerance(tmp_path, monkeypatch, committed, differ):
    monkeypatch.setattr(golden, "GOLDEN", tmp_path / "golden")
    path = tmp_path / "golden" / "loss.txt"
    path.parent.mkdir()
    if committed is not None:
        path.write_text(committed)
    text = golden.losses_differ(path, [2.0, 1.0])
    assert bool(text) is differ
    if differ:
        assert text.startswith("--- golden/loss.txt\n+++ golden/loss.txt\n")


def test_run_that_fails_is_a_difference(tmp_path, monkeypatch):
    def fail(files, case):
        raise subprocess.CalledProcessError(3, "train")

    (tmp_path / "request.toml").write_text('name = "a"\nmodel = "gpt-j"\n')
    monkeypatch.setattr(golden, "cases", lambda: [tmp_path])
    monkeypatch.setattr(golden, "error_cases", lambda: [])
    monkeypatch.setattr(golden, "generate", lambda case: ({}, {}))
    monkeypatch.setattr(golden, "losses", fail)
    monkeypatch.setattr(golden, "committed", lambda case: {})
    monkeypatch.setattr(golden_layouts, "zoo", lambda: {})
    assert list(golden.check()) == [
        f"golden/{tmp_path.name}: its training run failed with exit code 3\n"
    ]


def test_main_shows_differences_and_how_to_accept_them(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["golden.py", "--check"])
    monkeypatch.setattr(golden, "check", lambda: ["--- a\n+++ b\n"])
    assert golden.main() == 1
    assert capsys.readouterr().out.endswith(
        "1 goldens differ. If this is what you want: make golden\n"
    )
    monkeypatch.setattr(golden, "check", lambda: [])
    assert golden.main() == 0


def test_what_redco_remembers_of_a_golden_is_what_it_wrote(monkeypatch):
    """The archive is in no golden: that it holds the files of the project is looked at where they are made."""
    (case,) = (case for case in golden.cases() if case.name == "gpt-j-4")
    monkeypatch.setattr(
        golden, "texts", lambda request: ({"README.md": "a\n"}, model(request), None)
    )
    monkeypatch.setattr(golden.golden_layouts, "lines", lambda plan: "")
    assert "project/README.md" in golden.generate(case)[1]
    records = golden.new_records
    monkeypatch.setattr(
        golden,
        "new_records",
        lambda request, files, **others: records(request, {**files, "redco.toml": "b\n"}, **others),
    )
    with pytest.raises(AssertionError, match="(?s)not what it wrote.*--- base.tar.xz/redco.toml"):
        golden.generate(case)


def model(request):
    return SimpleNamespace(record=None, request=request)
