"""The chats of a source: lists of messages, whichever keys its rows have."""

import json
from collections.abc import Iterator
from typing import Any

from redco_runtime.errors import UserError, few
from redco_runtime.text.formats import Bad, format_of, read_records
from redco_runtime.text.sources import Source

Messages = list[dict[str, str]]  # {"role": "user", "content": "..."}, in order
ROLES = ("system", "developer", "user", "assistant", "tool")
KINDS = (  # the keys of a row -> its chat
    (("messages",), lambda row: row["messages"]),
    (("prompt", "completion"), lambda row: _turns(row["prompt"], row["completion"])),
    (("instruction", "output"), lambda row: _turns(_instruction(row), row["output"])),
)


def read_chats(source: Source) -> Iterator[tuple[str, Messages] | Bad]:
    """Yield (where, messages) of each row of a source, and the rows that are no chat. Raises UserError."""
    for file in source.files:
        if format_of(file) == "text":
            raise UserError(
                f"{source.flag}: {file} has texts, and no chats: give .jsonl, .json, .parquet, .arrow "
                "or hf:NAME"
            )
        for where, row in _read(file):
            try:
                yield row if isinstance(row, Bad) else (where, _chat(row))
            except ValueError as error:
                yield Bad(where, str(error))


def _read(file: str) -> Iterator[tuple[str, Any]]:
    """Yield (where, row) of each row of a file; a row that cannot be read is a Bad."""
    if format_of(file) != "json":
        yield from read_records(file)
        return
    with open(file, "rb") as lines:
        if lines.read(64).lstrip().startswith(b"["):
            lines.seek(0)
            try:
                rows = json.load(lines)
            except ValueError as error:
                raise UserError(f"--data: {file} is not JSON: {error}") from None
            yield from ((f"{file}, item {number}", row) for number, row in enumerate(rows, 1))
            return
        lines.seek(0)
        for number, line in enumerate(lines, 1):
            where = f"{file}, line {number}"
            if line.strip():
                try:
                    yield where, json.loads(line)
                except ValueError as error:
                    yield where, Bad(where, f"is not JSON: {error}")


def _chat(row: Any) -> Messages:
    """Return the messages of a row. Raises ValueError, which says why it has none."""
    if not isinstance(row, dict):
        raise ValueError(f"is no object: {json.dumps(row)[:40]}")
    for keys, chat in KINDS:
        if all(key in row for key in keys):
            return _checked(chat(row))
    kinds = "; ".join(" and ".join(map(repr, keys)) for keys, _ in KINDS)
    raise ValueError(f"has {few(row) or 'nothing'}, and a chat has {kinds}")


def _turns(question: Any, answer: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def _instruction(row: dict[str, Any]) -> Any:
    """Return what the user says of a row of instruction, input and output, as of Alpaca."""
    more = row.get("input")
    return f"{row['instruction']}\n\n{more}" if more else row["instruction"]


def _checked(messages: Any) -> Messages:
    """Return messages. Raises ValueError where they are no chat."""
    if not isinstance(messages, list) or not messages:
        raise ValueError("has no list of messages")
    for number, message in enumerate(messages, 1):
        if not isinstance(message, dict) or not {"role", "content"} <= message.keys():
            raise ValueError(f"has a message {number} without 'role' and 'content'")
        if message["role"] not in ROLES:
            kinds = ", ".join(ROLES)
            raise ValueError(f"has a message {number} of {message['role']!r}, none of {kinds}")
        if not isinstance(message["content"], str):
            raise ValueError(f"has a message {number} whose content is no text")
    if not any(m["role"] == "assistant" and m["content"].strip() for m in messages):
        raise ValueError("has no answer of the assistant, so nothing to learn")
    return messages
