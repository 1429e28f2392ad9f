"""Documents of users, changed in a place or two, or cut, or with bytes put in: what readers must stand."""

import contextlib
import copy
import json
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings

from redco_new.request.toml import key_text, value_text

from redco_runtime.base.messages import UserError

FUZZ = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
CODE = "__import__('os').system('touch X') or 8.0"
ODD = [None, True, -1, 0, 1, 1.5, float("inf"), float("nan"), 10**30, 2**31, "", "x", "../x"]
ODD += ["\ud800", 'a"\n\\', CODE, [], {}, [None], [[1]], {"a": {}}, {CODE: 1}, "/etc/passwd"]
JUNK = [
    b"",
    b"\x00",
    b"\xff",
    b"[" * 1500,
    b'{"a":',
    b"\n",
    b'"',
    b"null",
    b"1e999",
    b"-",
    b"\xef\xbb\xbf",
]


def places(value: Any, path: tuple = ()) -> list[tuple]:
    """Return the paths of all values in a document."""
    below = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value) if isinstance(value, list) else ()
    )
    return [path, *(place for key, item in below for place in places(item, (*path, key)))]


@st.composite
def changed(draw, document: Any) -> Any:
    """A document with another value in a place or two, or without it."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(places(document)))
        value = copy.deepcopy(draw(st.sampled_from(ODD)))
        if not path:
            if draw(st.integers(0, 9)) == 0:
                return value
            if isinstance(document, dict):
                document[draw(st.sampled_from(["x", "", "type", CODE, "a b"]))] = value
            continue
        holder = document
        for key in path[:-1]:
            holder = holder[key]
        if draw(st.booleans()):
            holder[path[-1]] = value
        else:
            del holder[path[-1]]
    return document


@st.composite
def damaged(draw, text: bytes) -> bytes:
    """A text that is cut, or has bytes put in."""
    at, stop = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
    return text[:at] + draw(st.sampled_from(JUNK)) + text[stop if draw(st.booleans()) else at :]


def of_json(document: Any) -> st.SearchStrategy[bytes]:
    """Texts that are JSON, nearly that document, and texts that nearly are."""
    whole = changed(document).map(lambda x: json.dumps(x).encode())
    return whole | damaged(json.dumps(document).encode())


def of_toml(document: Any) -> st.SearchStrategy[bytes]:
    """The same of TOML."""

    def text(value: Any) -> bytes:
        rows = value.items() if isinstance(value, dict) else {"x": value}.items()
        return "\n".join(f"{key_text(k)} = {value_text(v)}" for k, v in rows).encode(
            "utf-8", "replace"
        )

    return changed(document).map(text) | damaged(text(document))


@contextlib.contextmanager
def refused(*kinds: type[Exception]):
    """Let pass what says in one line what is wrong; each other error is a traceback to its user."""
    try:
        yield
    except kinds as error:
        text = str(error)
        assert text and text.encode("utf-8", "backslashreplace"), text
        assert len(text) < 4000 and (isinstance(error, UserError) or "\n" not in text), text
