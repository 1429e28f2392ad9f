"""The chats of rows: lists of messages, whichever keys they have."""

import json
from collections.abc import Sequence
from typing import Any

from redco_runtime.errors import few

Messages = list[dict[str, str]]  # {"role": "user", "content": "..."}, in order
ROLES = ("system", "developer", "user", "assistant", "tool")
KINDS = (  # the keys of a row -> its chat
    (("messages",), lambda row: row["messages"]),
    (("prompt", "completion"), lambda row: _turns(row["prompt"], row["completion"])),
    (("instruction", "output"), lambda row: _turns(_instruction(row), row["output"])),
)


def read_chat(row: Any) -> Messages:
    """Return the messages of a row. Raises ValueError, which says why it has none."""
    if not isinstance(row, dict):
        raise ValueError(f"is no object: {json.dumps(row)[:40]}")
    for keys, chat in KINDS:
        if all(key in row for key in keys):
            messages = _checked(chat(row))
            learned = messages[first_learned(row) :]
            if not any(m["role"] == "assistant" and m["content"].strip() for m in learned):
                raise ValueError("has no answer of the assistant, so nothing to learn")
            return messages
    kinds = "; ".join(" and ".join(map(repr, keys)) for keys, _ in KINDS)
    raise ValueError(f"has {few(row) or 'nothing'}, and a chat has {kinds}")


def read_prompt(value: Any) -> Messages:
    """Return what the assistant is asked, by a text or messages. Raises ValueError, which says why it is nothing."""
    chat = _checked(as_messages(value, "user"))
    if chat[-1]["role"] == "assistant":
        raise ValueError("ends with what the assistant says, and asks nothing")
    if not chat[-1]["content"].strip():
        raise ValueError("asks nothing: it has no text")
    return chat


def first_learned(row: Any) -> int:
    """Return the number of the first message of a row that is learned: what its prompt says is not, as of TRL."""
    if "messages" in row or "completion" not in row or "prompt" not in row:
        return 0
    return len(as_messages(row["prompt"], "user"))


def as_messages(value: Any, role: str) -> list[Any]:
    """Return a value as messages: a list of them as it is, what is a content, or parts of one, as one of `role`."""
    parts = isinstance(value, list) and value and all(map(_is_part, value))
    return value if isinstance(value, list) and not parts else [{"role": role, "content": value}]


def with_system(texts: Sequence[str], system: str | None) -> list[Any]:
    """Return texts as what users say after a system message; as they are, where there is none."""
    if system is None:
        return [*texts]
    return [[{"role": "system", "content": system}, *as_messages(text, "user")] for text in texts]


def _is_part(value: Any) -> bool:
    return isinstance(value, dict) and "type" in value and "role" not in value


def _turns(question: Any, answer: Any) -> list[Any]:
    return [*as_messages(question, "user"), *as_messages(answer, "assistant")]


def _instruction(row: dict[str, Any]) -> Any:
    """Return what the user says of a row of instruction, input and output, as of Alpaca."""
    more = row.get("input")
    return f"{row['instruction']}\n\n{more}" if more else row["instruction"]


def _checked(messages: Any) -> Messages:
    """Return messages, whose contents are texts. Raises ValueError where they are no chat."""
    if not isinstance(messages, list) or not messages:
        raise ValueError("has no list of messages")
    chat = []
    for number, message in enumerate(messages, 1):
        if not isinstance(message, dict) or not {"role", "content"} <= message.keys():
            raise ValueError(f"has a message {number} without 'role' and 'content'")
        if message["role"] not in ROLES:
            kinds = ", ".join(ROLES)
            raise ValueError(f"has a message {number} of {message['role']!r}, none of {kinds}")
        chat.append(message | {"content": _text(message["content"], number)})
    return chat


def _text(content: Any, number: int) -> str:
    """Return the text of a message: its parts end to end, as templates of transformers write them. Raises ValueError."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ValueError(f"has a message {number} whose content is no text")
    for part in content:
        is_text = isinstance(part, dict) and part.get("type") == "text"
        if not is_text or not isinstance(part.get("text"), str):
            raise ValueError(
                f"has a message {number} with a part {json.dumps(part, default=str)[:40]}, and parts are texts, "
                '{"type": "text", "text": ...}'
            )
    return "".join(part["text"] for part in content)
