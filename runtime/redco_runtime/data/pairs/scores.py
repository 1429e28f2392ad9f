"""How near written targets are to those that they should be: ROUGE and BLEU, each by its library."""

import functools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

ROUGE = ("rouge1", "rouge2", "rougeL", "rougeLsum")
SENTENCES = re.compile(r"(?<=[.!?])\s+")  # where one ends; transformers' script asks NLTK's data


def rouge(expected: Sequence[str], written: Sequence[str]) -> dict[str, float]:
    """Return ROUGE (Lin 2004), 0 to 1: the mean F1 over the targets, as run_summarization.py of transformers has it.

    Of stems of words; for rougeLsum each sentence is a line.
    """
    from rouge_score.rouge_scorer import RougeScorer  # late: it takes a second

    scorer = RougeScorer(ROUGE, use_stemmer=True)
    pairs = zip(map(in_lines, expected), map(in_lines, written), strict=True)
    scores = [scorer.score(*pair) for pair in pairs]
    return {name: float(np.mean([one[name].fmeasure for one in scores])) for name in ROUGE}


def in_lines(text: str) -> str:
    """Return a text with a line for each sentence."""
    return "\n".join(SENTENCES.split(text.strip()))


def bleu(expected: Sequence[str], written: Sequence[str]) -> dict[str, float]:
    """Return {"bleu": BLEU of all targets, 0 to 100, as sacreBLEU has it}; {} where that is not installed."""
    if (corpus_bleu := _corpus_bleu()) is None:
        return {}
    texts = [text.strip() for text in written], [[text.strip() for text in expected]]
    return {"bleu": float(corpus_bleu(*texts).score)}


@functools.cache
def _corpus_bleu() -> Any:
    """Return what computes it, or None."""
    try:
        from sacrebleu import corpus_bleu
    except ImportError:
        return None
    return corpus_bleu
