"""Windows of tokens, made as sources are read: what `--streaming` asks of the process that reads data."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from ..text.documents import Bad, Maker, Shape, Tokens
from ..text.sources import Source, check_bad
from ..text.tokens import pack
from .formats import describe, parts_of
from .reading import read_documents


def windows(
    maker: Maker,
    sources: list[Source],
    shape: Shape,
    size: int,
    number: int,
    part: int,
    documents: int,
) -> Iterator[dict[str, Any]]:
    """Yield windows of at least `size` tokens, from the one of `number` on. Raises UserError, which names files and lines.

    part, documents: where that one begins, as of Window. shape: of the first window; no other is held out.
    """
    parts = enumerate((own, one) for own in sources for one in parts_of(own, streaming=True))
    bad: list[str] = []
    window, length, at, ahead = list[Tokens](), 0, (part, documents), documents

    def packed() -> dict[str, Any]:
        own = shape._replace(held_out=0.0) if number else shape
        index, arrays = pack(window, maker, own, number)
        places = {"number": number, "part": at[0], "documents": at[1]}
        return places | {"index": index, "arrays": arrays}

    for number_of_part, (source, one) in islice(parts, part, None):
        count = 0
        for item in read_documents(maker, [one]):
            if isinstance(item, Bad):
                bad.append(describe(item))
                check_bad(source, bad, len(bad), shape.skip_bad_rows)
                continue
            ends = item.ends is not None
            count += ends
            if ahead:
                ahead -= ends
                continue
            window.append(item)
            length += len(item.ids)
            if ends and length >= size:
                yield packed()
                window, length, number, at = [], 0, number + 1, (number_of_part, count)
    if length:
        yield packed()
