"""How well each class is predicted."""

import numpy as np
import pytest
from redco_runtime.data.class_report import ClassReport, report_classes
from sklearn.metrics import confusion_matrix, f1_score, precision_recall_fscore_support

NAMES = ["a", "b", "c", "never"]


@pytest.fixture
def drawn():
    rng = np.random.default_rng(0)
    return rng.integers(0, 3, 50), rng.integers(0, 3, 50)


def test_it_is_that_of_scikit_learn(drawn):
    report = report_classes(NAMES, *drawn)
    labels, record = range(4), report.record()
    np.testing.assert_array_equal(report.counts, confusion_matrix(*drawn, labels=labels))
    each = precision_recall_fscore_support(*drawn, labels=labels, zero_division=0)
    for i, name in enumerate(NAMES):
        found = record["classes"][name]
        assert [*found.values()] == pytest.approx([column[i] for column in each])
        assert [*found] == ["precision", "recall", "f1", "examples"]
    assert report.macro_f1 == pytest.approx(f1_score(*drawn, average="macro"))
    assert record["confusion"] == {"names": NAMES, "counts": report.counts.tolist()}


def test_a_table_has_a_line_for_each_class(drawn):
    report = report_classes(NAMES, *drawn)
    head, *lines = report.table().splitlines()
    assert head.split() == ["precision", "recall", "f1", "examples", *NAMES]
    assert lines[1].split()[0] == "b" and lines[1].split()[5:] == list(map(str, report.counts[1]))
    assert lines[3].split()[1:5] == ["0.000", "0.000", "0.000", "0"]


def test_of_many_classes_the_worst_are_shown():
    labels = np.arange(200)
    report = report_classes([f"n{i}" for i in labels], labels, np.where(labels < 3, 9, labels))
    *lines, rest = report.table().splitlines()
    assert len(lines) == 51 and rest == "and 150 classes with a higher F1"
    assert {line.split()[0] for line in lines[1:]} >= {"n0", "n1", "n2", "n9"}


@pytest.mark.parametrize("counted", [True, False])
def test_it_is_drawn(drawn, tmp_path, counted):
    from PIL import Image

    report = report_classes(NAMES, *drawn)
    if not counted:
        report = ClassReport(NAMES, report.right, report.predicted, report.expected)
    report.draw(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        assert len(set(image.convert("L").get_flattened_data())) > 10
