"""Which symbols of a project an edit touched, and where a line of a report looks first."""

from types import SimpleNamespace

from redco_new.check.symbols import changed_since, digests_of, edited_files, suspects

MODULE = b'''"""A module."""
import numpy as np

SIZE = 3


def loss(x):
    """Return it."""
    return x * 2  # twice


class Net:
    """A net."""

    width: int = 4

    def __call__(self, x):
        return x
'''


def changed(old: bytes, new: bytes) -> list[str]:
    one, other = digests_of(MODULE), digests_of(MODULE.replace(old, new, 1))
    assert MODULE.count(old)
    return [name for name in {**other, **one} if one.get(name) != other.get(name)]


def test_comments_docstrings_and_layout_are_no_edits():
    assert changed(b"  # twice", b"") == []
    assert changed(b'"""Return it."""', b'"""Give it back."""') == []
    assert changed(b"x * 2", b"(\n        x * 2\n    )") == []
    assert changed(b'"""A module."""', b"") == []


def test_a_symbol_is_named_with_its_class():
    assert changed(b"x * 2", b"x * 3") == ["loss"]
    assert changed(b"        return x\n", b"        return -x\n") == ["Net.__call__"]
    assert changed(b"int = 4", b"int = 5") == ["Net.width"]
    assert changed(b"SIZE = 3", b"SIZE = 4") == ["SIZE"]
    assert changed(b"class Net:", b"class Net(object):") == ["Net"]
    assert changed(b"import numpy as np", b"import numpy") == ["imports"]


def test_edits_since_a_check(tmp_path):
    base = {"p/a.py": MODULE, "p/b.py": MODULE}
    state = SimpleNamespace(root=tmp_path, base=base.get, records=SimpleNamespace(base=base))
    (tmp_path / "p").mkdir()
    (tmp_path / "p/a.py").write_bytes(MODULE)
    (tmp_path / "p/b.py").write_bytes(MODULE.replace(b"x * 2", b"x * 3"))
    (tmp_path / "own.py").write_bytes(b"def f(): pass\n")
    then = edited_files(state, ["own.py", "p/b.py"])
    assert [*then] == ["own.py", "p/b.py"]
    assert changed_since(state, {}, then) == ["own.py::f", "p/b.py::loss"]
    (tmp_path / "p/a.py").write_bytes(MODULE.replace(b"SIZE = 3", b"SIZE = 4"))
    (tmp_path / "p/b.py").write_bytes(MODULE)  # as redco wrote it, again
    now = edited_files(state, ["own.py"])
    assert changed_since(state, then, now) == ["p/a.py::SIZE", "p/b.py::loss"]


def test_suspects_are_in_the_order_of_what_is_likely():
    edits = ["p/config.py::Data", "p/pipeline.py::loss", "p/sharding.py::PARAMS", "tests/t.py::x"]
    about = ("pipeline.py", "config.py")
    order = "p/pipeline.py::loss, p/config.py::Data, p/sharding.py::PARAMS"
    assert suspects(edits, about) == order
    assert suspects(edits, about, "p/sharding.py::PARAMS").startswith("p/sharding.py::PARAMS")
    assert suspects([], about) == ""
