"""The chats of rows, whichever keys they have: lists of messages as OpenAI and transformers have them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...base.messages import few, shown
from ...base.files import parse_json

Messages = list[dict[str, Any]]  # {"role": "user", "content": "..."}, in order
Tools = list[dict[str, Any]] | None  # {"type": "function", "function": {"name": ...}}
ROLES = ("system", "developer", "user", "assistant", "tool")
# What others call the roles: OpenAI before it had tools; ShareGPT, and those that followed it.
CALLED = {"function": "tool", "human": "user", "gpt": "assistant", "observation": "tool"}
THOUGHTS = ("reasoning_content", "thinking", "reasoning")  # keys of what an answer thinks first
KINDS = (  # the keys of a row -> its chat
    (("messages",), lambda row: row["messages"]),
    (("conversations",), lambda row: row["conversations"]),
    (("prompt", "completion"), lambda row: _turns(row["prompt"], row["completion"])),
    (("instruction", "output"), lambda row: _turns(_instruction(row), row["output"])),
)


class Chat(NamedTuple):
    """A chat to learn from."""

    messages: Messages
    first: int = 0  # the message that is learned first; those before are a prompt
    tools: Tools = None  # that the assistant may call, which the template describes

    @property
    def answers(self) -> list[int]:
        """The numbers of the messages that are learned: of the assistant, whose weight is not 0."""
        own = enumerate(self.messages)
        return [i for i, m in own if i >= self.first and _is_answer(m) and m.get("weight") != 0]


def read_chat(row: Any) -> Chat:
    """Return the chat of a row. Raises ValueError, which says why it has none."""
    if not isinstance(row, dict):
        raise ValueError(f"is no object: {shown(row)}")
    for keys, messages in KINDS:
        if all(key in row for key in keys):
            first = len(as_messages(row["prompt"], "user")) if "completion" in keys else 0
            return as_chat(messages(row), row, first)
    kinds = "; ".join(" and ".join(map(repr, keys)) for keys, _ in KINDS)
    raise ValueError(f"has {few(row) or 'nothing'}, and a chat has {kinds}")


def as_chat(messages: Any, row: dict[str, Any], first: int = 0) -> Chat:
    """Return messages, checked, with the tools of their row and its system message. Raises ValueError."""
    checked, system = _checked(messages), row.get("system")
    if system and checked[0]["role"] not in ("system", "developer"):
        checked, first = [*_checked(as_messages(system, "system")), *checked], first and first + 1
    chat = Chat(checked, first, read_tools(row))
    if not any(_says(checked[number]) for number in chat.answers):
        raise ValueError("has no answer of the assistant, so nothing to learn")
    return chat


def read_prompt(value: Any) -> Messages:
    """Return what the assistant is asked, by a text or messages. Raises ValueError, which says why it is nothing."""
    chat = _checked(as_messages(value, "user"))
    if chat[-1]["role"] == "assistant":
        raise ValueError("ends with what the assistant says, and asks nothing")
    if not chat[-1]["content"].strip():
        raise ValueError("asks nothing: it has no text")
    return chat


def read_tools(row: dict[str, Any]) -> Tools:
    """Return the tools of a row, a list or its JSON, None where it has none. Raises ValueError."""
    tools = row.get("tools") or row.get("functions")
    if isinstance(tools, str):
        tools = _parsed(tools, "tools")
    if not tools:
        return None
    if not isinstance(tools, list):
        raise ValueError("has tools that are no list")
    own = [
        tool if isinstance(tool, dict) and "function" in tool else _function(tool) for tool in tools
    ]
    if not all(_is_function(tool) for tool in own):
        shape = '{"type": "function", "function": {"name": ...}}'
        raise ValueError(f"has tools of which one is not {shape}")
    return own


def as_messages(value: Any, role: str) -> list[Any]:
    """Return a value as messages: a list of them as it is, what is a content, or parts of one, as one of `role`."""
    parts = isinstance(value, list) and value and all(map(_is_part, value))
    return value if isinstance(value, list) and not parts else [{"role": role, "content": value}]


def first_question(messages: Messages) -> str:
    """Return what a user says first in a chat. Raises ValueError where none says anything."""
    said = (message["content"] for message in messages if message["role"] == "user")
    if not (text := next(said, "")).strip():
        raise ValueError("asks nothing")
    return str(text)


def with_system(texts: Sequence[str | Messages], system: str | None) -> list[Any]:
    """Return texts as what users say after a system message; as they are, where there is none."""
    if system is None:
        return [*texts]
    return [[{"role": "system", "content": system}, *as_messages(text, "user")] for text in texts]


def _is_part(value: Any) -> bool:
    return isinstance(value, dict) and "type" in value and "role" not in value


def _is_answer(message: dict[str, Any]) -> bool:
    return bool(message["role"] == "assistant")


def _says(message: dict[str, Any]) -> bool:
    """Return whether an answer has anything to learn."""
    return bool(message["content"].strip() or message.get("tool_calls"))


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
    return [_message(message, number) for number, message in enumerate(messages, 1)]


def _message(message: Any, number: int) -> dict[str, Any]:
    """Return a message as OpenAI has it today. Raises ValueError."""
    what = f"has a message {number}"
    if isinstance(message, dict) and "from" in message and "role" not in message:  # of ShareGPT
        names = {"from": "role", "value": "content"}
        message = {names.get(key, key): value for key, value in message.items()}
        if message["role"] == "function_call":
            call = _parsed(message.get("content"), f"a message {number}, function_call,")
            message = {"role": "assistant", "function_call": call}
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise ValueError(f"{what} without 'role' and 'content'")
    # What is null is not there: tables have all keys in all rows.
    own = {key: value for key, value in message.items() if value is not None}
    role = own["role"] = CALLED.get(own["role"], own["role"])
    if role not in ROLES:
        raise ValueError(f"{what} of {role!r}, none of {', '.join((*ROLES, *CALLED))}")
    if "function_call" in own:  # of OpenAI, before it had tools
        own["tool_calls"] = [own.pop("function_call")]
    if calls := own.pop("tool_calls", None):
        own["tool_calls"] = [_call(call, number) for call in _list(calls, number)]
    if "content" not in own and not (role == "assistant" and calls):
        if "content" in message:
            raise ValueError(f"{what} whose content is no text")
        raise ValueError(f"{what} without 'role' and 'content'")
    if own.get("weight", 1) not in (0, 1):
        raise ValueError(f"{what} of weight {own['weight']!r}: give 0, or 1")
    return own | {"content": _text(own.get("content", ""), number)}


def _list(calls: Any, number: int) -> list[Any]:
    if not isinstance(calls, list):
        raise ValueError(f"has a message {number} whose tool_calls are no list")
    return calls


def _call(call: Any, number: int) -> dict[str, Any]:
    """Return a call of a tool, whose arguments are an object: some have them as its JSON. Raises ValueError."""
    own = call if isinstance(call, dict) and "function" in call else _function(call)
    if not _is_function(own):
        raise ValueError(f"has a message {number} with a call of no tool: it has no name")
    function, what = own["function"], f"a message {number} with arguments of a call"
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        arguments = _parsed(arguments, what)
    if not isinstance(arguments, dict):
        raise ValueError(f"has {what} that are no object")
    return own | {"function": function | {"arguments": arguments}}


def _function(value: Any) -> dict[str, Any]:
    return {"type": "function", "function": value}


def _is_function(value: dict[str, Any]) -> bool:
    function = value["function"]
    return isinstance(function, dict) and isinstance(function.get("name"), str)


def _parsed(text: Any, what: str) -> Any:
    """Return what a text of JSON says. Raises ValueError."""
    try:
        return parse_json(text)
    except (ValueError, TypeError):
        raise ValueError(f"has {what} that are no JSON: {str(text)[:40]}") from None


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
                f"has a message {number} with a part {shown(part)}, and parts are texts, "
                '{"type": "text", "text": ...}'
            )
    return "".join(part["text"] for part in content)
