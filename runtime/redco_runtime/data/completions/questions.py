"""Questions of files: what a model is asked, and what its answers are compared with. They stay in memory."""

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...base.examples import Arrays
from ...base.messages import UserError, announce, announce_training, few, shown
from ..chats.encoding import ChatEncoder
from ..chats.reading import Messages, Tools, read_prompt, read_tools
from ..example_streams import check_share
from ..permutation import permute
from ..prepare.formats import describe, parse_rows, parts_of
from ..text.prompts import pad_row
from ..text.documents import NAMED, Bad
from ..text.examples import Mixture
from ..text.sources import Source, check_bad, check_ids, parse_sources


class Question(NamedTuple):
    """A question of a row: its ids, its chat, and what an answer is compared with."""

    ids: np.ndarray
    messages: Messages
    tools: Tools
    answer: Any


@dataclass(frozen=True)
class QuestionReader:
    """Reads the questions of sources. room: tokens of one, at most. vocabulary: ids that the model has."""

    settings: Any
    encoder: ChatEncoder
    room: int
    vocabulary: int

    def read(self, source: Source, share: float) -> tuple[list[Question], list[Question]]:
        """Return the questions to learn from, and a share of them that is held out. Raises UserError."""
        rows, bad, count = list[Question](), list[str](), 0
        for row in parse_rows(parts_of(source), self.parse):
            if isinstance(row, Bad):
                bad += [describe(row)] if count < NAMED else []
                count += 1
            else:
                rows.append(row)
        check_bad(source, bad, count, self.settings.skip_bad_rows)
        held_out = max(1, round(share * len(rows))) if share and len(rows) > 1 else 0
        if len(rows) == held_out:
            raise UserError(f"{source.flag}: {source.name} has no question: it is empty")
        check_ids(source.name, max(int(row.ids.max()) for row in rows), self.vocabulary)
        longest = max(len(row.ids) for row in rows)
        apart = f", {held_out:,} of them held out" if held_out else ""
        left_out = f"; {count:,} bad rows left out" if count else ""
        what = f"{len(rows):,} questions of up to {longest} tokens"
        announce(f"data: {source.name}: {what}{apart}{left_out}")
        places = permute(np.arange(len(rows)), len(rows), 0) < held_out
        pairs = [*zip(rows, places.tolist(), strict=True)]
        return [row for row, out in pairs if not out], [row for row, out in pairs if out]

    def parse(self, row: Any) -> Question:
        """Return the question of a row. Raises ValueError, which says why it has none."""
        messages, answer = self._fields(row)
        tools = read_tools(row)
        ids = self.encoder.ask(messages, tools)
        if not 0 < len(ids) <= self.room:
            room = f"{self.room} that --sequence-length leaves beside --new-tokens"
            raise ValueError(f"has {len(ids)} tokens, and a question has 1 to the {room}")
        return Question(ids, messages, tools, answer)

    def _fields(self, row: Any) -> tuple[Messages, Any]:
        if not isinstance(row, dict):
            raise ValueError(f"is no object: {shown(row)}")
        prompt, answer = self.settings.prompt_field, self.settings.answer_field
        for field in (prompt, *([answer] if answer else [])):
            if field not in row:
                todo = "--prompt-field and --answer-field name others"
                raise ValueError(f"has {few(row) or 'nothing'}, and no {field!r}: {todo}")
        value = row[answer] if answer else row
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return read_prompt(row[prompt]), json.dumps(value) if number else value


def question_examples(
    settings: Any, encoder: ChatEncoder, room: int, vocabulary: int
) -> tuple[Mixture, list[Arrays]]:
    """Return the questions of `--data` to learn from, and those that are held out.

    Each is a row of `pad_row`, of `room` tokens, with its "messages" and "tools", "question", the text of the last
    message, and "answer": what the row of the file has for it, a number as a text. Raises UserError, which names
    files and lines.
    """
    check_share(settings.held_out)
    encoder.ends()
    reader = QuestionReader(settings, encoder, room, vocabulary)
    sources = parse_sources("--data", settings.data)
    share = 0.0 if settings.held_out_data else settings.held_out
    parts = [reader.read(source, share) for source in sources]
    apart = parse_sources("--held-out-data", settings.held_out_data)
    held_out = [reader.read(source, 0.0)[0] for source in apart] or [part for _, part in parts]

    trained = {question.ids.tobytes() for part, _ in parts for question in part}
    rest = [question.ids.tobytes() for part in held_out for question in part]
    if shared := sum(ids in trained for ids in rest):
        announce_training(
            f"data: {shared:,} of {len(rest):,} questions that are held out are trained on too"
        )

    def example(question: Question, _: int = 0) -> dict[str, Any]:
        chat = {"messages": question.messages, "tools": question.tools}
        text = question.messages[-1]["content"]
        return pad_row(question.ids, room) | chat | {"question": text, "answer": question.answer}

    train = Mixture([part for part, _ in parts], [source.weight for source in sources])
    # One object for each of the others: their loss and their scores are of one rollout.
    return train.map(example), [example(question) for part in held_out for question in part]
