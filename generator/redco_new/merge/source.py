"""Bytes of a Python file <-> its lines, so that nothing is lost on the way."""

import codecs
import io
import re
import tokenize
from collections import Counter
from dataclasses import dataclass

LINE = re.compile(r"[^\n]*\n|[^\n]+")


class Unmergeable(Exception):
    """The file can only be kept whole; the message says why."""


@dataclass(frozen=True)
class Source:
    """A decoded file: its lines, each with its own line ending."""

    lines: list[str]
    encoding: str
    bom: bytes

    @property
    def newline(self) -> str:
        """The line ending of most lines; "\\n" where there is none."""
        ends = Counter("\r\n" if line.endswith("\r\n") else "\n" for line in self.lines)
        return max(ends, key=ends.__getitem__, default="\n")

    def encode(self, lines: list[str]) -> bytes:
        """`lines` as bytes of this file: its encoding, mark, and newline (or none) at the end.

        Raises Unmergeable if they hold a character that this file's encoding lacks.
        """
        whole = [line if line.endswith("\n") else line + self.newline for line in lines]
        if whole and self.lines and not self.lines[-1].endswith("\n"):
            whole[-1] = whole[-1].removesuffix("\n").removesuffix("\r")
        try:
            return self.bom + "".join(whole).encode(self.encoding)
        except UnicodeEncodeError as error:
            raise Unmergeable(f"your file's encoding, {self.encoding}, lacks: {error}") from error


def decode(data: bytes) -> Source:
    """The lines of a Python file. Raises Unmergeable if they cannot be told with certainty."""
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    rest = data.removeprefix(bom)
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(rest).readline)[0]
        text = rest.decode(encoding)
        exact = text.encode(encoding) == rest
    except (SyntaxError, UnicodeError, LookupError) as error:
        raise Unmergeable(f"cannot be decoded: {error}") from error
    if not exact or re.search(r"\r(?!\n)", text):
        raise Unmergeable("has bytes or line endings that Python itself reads in two ways")
    return Source(LINE.findall(text), encoding, bom)


def bare(lines: list[str]) -> list[str]:
    """`lines` without their line endings."""
    return [line.rstrip("\r\n") for line in lines]


def plain(lines: list[str]) -> str:
    """`lines` as one text with "\\n" line endings, the last one too."""
    return "".join(line + "\n" for line in bare(lines))
