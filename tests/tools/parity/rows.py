"""The rows of each case: made of letters, and the same for ever. Imports nothing of either environment."""

import random
from typing import Any

LENGTH = 96  # of a row, in tokens


def words(draw: random.Random, length: int) -> str:
    """Return a text of so many letters."""
    return "".join(draw.choice("abcdefghij klm nop") for _ in range(length - 1)) + "x"


def texts(draw: random.Random) -> list[dict[str, Any]]:
    """Return texts of which two fill a row with their ends."""
    firsts = [draw.randrange(6, LENGTH - 8) for _ in range(8)]
    return [{"text": words(draw, n)} for first in firsts for n in (first, LENGTH - 2 - first)]


def short_texts(draw: random.Random) -> list[dict[str, Any]]:
    """Return texts that are shorter than a row."""
    return [{"text": words(draw, draw.randrange(4, 60))} for _ in range(24)]


def message(role: str, text: str) -> dict[str, str]:
    """Return a message of a chat."""
    return {"role": role, "content": text}


def chats(draw: random.Random) -> list[dict[str, Any]]:
    """Return chats of two turns: with the two marks of each message a row is full."""
    rows, letters = [], LENGTH - 8
    for _ in range(12):
        edges = sorted(draw.sample(range(1, letters), 3))
        lengths = [stop - start for start, stop in zip([0, *edges], [*edges, letters], strict=True)]
        roles = ("user", "assistant", "user", "assistant")
        rows.append(
            {"messages": [message(r, words(draw, n)) for r, n in zip(roles, lengths, strict=True)]}
        )
    return rows


def completions(draw: random.Random) -> list[dict[str, Any]]:
    """Return questions and their answers."""
    rows = []
    for _ in range(24):
        question, answer = (words(draw, draw.randrange(2, 24)) for _ in range(2))
        rows.append(
            {"prompt": [message("user", question)], "completion": [message("assistant", answer)]}
        )
    return rows


def pairs(draw: random.Random) -> list[dict[str, Any]]:
    """Return questions, each with a better and a worse answer."""
    rows = []
    for _ in range(24):
        question, good, bad = (words(draw, draw.randrange(2, 20)) for _ in range(3))
        answers = {"chosen": good, "rejected": bad}
        row = {key: [message("assistant", text)] for key, text in answers.items()}
        rows.append({"prompt": [message("user", question)]} | row)
    return rows


def opinions(draw: random.Random) -> list[dict[str, Any]]:
    """Return answers to one question, of which some are good."""
    rows = []
    for number in range(24):
        answer = [message("assistant", words(draw, draw.randrange(2, 20)))]
        rows.append({"prompt": [message("user", "abc x")], "completion": answer})
        rows[-1]["label"] = number % 3 > 0
    return rows


def sums(draw: random.Random) -> list[dict[str, Any]]:
    """Return questions, and what the reward of the project compares answers with, which is none of them."""
    return [{"prompt": words(draw, draw.randrange(4, 20)), "answer": "0"} for _ in range(8)]


def labelled(draw: random.Random) -> list[dict[str, Any]]:
    """Return texts with the number of a class."""
    return [
        {"text": words(draw, draw.randrange(4, 60)), "label": draw.randrange(3)} for _ in range(24)
    ]


def tagged(draw: random.Random) -> list[dict[str, Any]]:
    """Return words, each with the number of a tag."""
    rows = []
    for _ in range(24):
        said = [
            words(draw, draw.randrange(2, 8)).replace(" ", "y") for _ in range(draw.randrange(2, 7))
        ]
        rows.append({"words": said, "labels": [draw.randrange(3) for _ in said]})
    return rows


def translations(draw: random.Random) -> list[dict[str, Any]]:
    """Return sources and targets."""
    return [
        {
            "source": words(draw, draw.randrange(4, 60)),
            "target": words(draw, draw.randrange(2, 30)),
        }
        for _ in range(24)
    ]


def pictures(draw: random.Random) -> list[dict[str, Any]]:
    """Return pictures of 16 x 16, as bytes of their red, green and blue, with the name of a class."""
    return [
        {"pixels": draw.randbytes(16 * 16 * 3).hex(), "label": draw.choice(("bad", "good", "odd"))}
        for _ in range(24)
    ]
