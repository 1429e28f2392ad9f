"""How well each class is predicted: precision, recall and F1 of each, and which is taken for which."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = 16  # classes whose counts are printed, at most
LINES = 50  # classes that are printed, at most: the worst


@dataclass(frozen=True)
class ClassReport:
    """What became of the examples of each of C classes."""

    names: Sequence[str]
    right: np.ndarray  # examples of each, (C,), as the next two
    predicted: np.ndarray
    expected: np.ndarray
    counts: np.ndarray | None = None  # of class i that were taken for class j, (C, C), where known

    @property
    def f1(self) -> np.ndarray:
        """F1 of each class: 0 where nothing is right."""
        return 2 * self.right / np.maximum(self.predicted + self.expected, 1)

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the classes that there are, expected or predicted, as of scikit-learn."""
        there = (self.predicted + self.expected) > 0
        return float(self.f1[there].mean()) if there.any() else 0.0

    def record(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        record: dict[str, Any] = {"classes": dict(zip(self.names, self._rows(), strict=True))}
        if self.counts is not None:
            record["confusion"] = {"names": [*self.names], "counts": self.counts.tolist()}
        return record

    def table(self) -> str:
        """Return the lines of a table: a class each, the numbers of it, and how often it was taken for which."""
        counted = self.counts is not None and len(self.names) <= COLUMNS
        heads = ["precision", "recall", "f1", "examples", *(self.names if counted else ())]
        lines, rows = [["", *heads]], self._rows()
        for i in sorted(np.argsort(self.f1, kind="stable")[:LINES]):
            numbers = [f"{rows[i][key]:.3f}" for key in heads[:3]] + [str(rows[i]["examples"])]
            counts = self.counts[i].tolist() if counted and self.counts is not None else []
            lines.append([self.names[i], *numbers, *map(str, counts)])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = [
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip()
            for line in lines
        ]
        if (more := len(rows) - LINES) > 0:
            texts.append(f"and {more} classes with a higher F1")
        return "\n".join(texts)

    def draw(self, path: Path) -> None:
        """Write a PNG of it: F1 of each class, or which class was taken for which."""
        from matplotlib.figure import Figure  # late: it takes a second

        size = min(4 + 0.4 * len(self.names), 24)
        figure = Figure(figsize=(size, size), layout="constrained")
        axes, places = figure.add_subplot(), range(len(self.names))
        if self.counts is None:
            axes.barh(places, self.f1)
            axes.set(xlabel="F1", xlim=(0, 1))
        else:
            shares = self.counts / np.maximum(self.counts.sum(axis=1, keepdims=True), 1)
            axes.imshow(shares, vmin=0, vmax=1, cmap="Blues")
            for i, j in np.argwhere(self.counts) if len(self.names) <= 2 * COLUMNS else ():
                color = "white" if shares[i, j] > 0.5 else "black"
                axes.text(j, i, str(self.counts[i, j]), ha="center", va="center", color=color)
            axes.set_xticks(places, self.names, rotation=90)
            axes.set(xlabel="predicted", ylabel="expected")
        axes.set_yticks(places, self.names)
        figure.savefig(path, format="png")

    def _rows(self) -> list[Mapping[str, Any]]:
        precision = self.right / np.maximum(self.predicted, 1)
        recall = self.right / np.maximum(self.expected, 1)
        columns = {
            "precision": precision,
            "recall": recall,
            "f1": self.f1,
            "examples": self.expected,
        }
        return [
            {name: column[i].item() for name, column in columns.items()}
            for i in range(len(self.names))
        ]


def report_classes(
    names: Sequence[str], expected: np.ndarray, predicted: np.ndarray
) -> ClassReport:
    """Return how well each of `names` is predicted, by its number. expected, predicted: of examples, (N,)."""
    size = len(names)
    pairs = np.bincount(np.asarray(expected) * size + np.asarray(predicted), minlength=size**2)
    counts = pairs.reshape(size, size)
    return ClassReport(names, counts.diagonal(), counts.sum(axis=0), counts.sum(axis=1), counts)
