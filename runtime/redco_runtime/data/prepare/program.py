"""The process that reads data: tasks on stdin, answers on stdout, as lines of JSON and bytes of arrays."""

import json
import os
import sys
from typing import Any, BinaryIO

from ...base.errors import UserError
from .makers import load_maker
from .tasks import answers


def main() -> None:
    """Make what is asked for, one task after the other, until nobody asks, or reads the answers."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is not to be among the answers
    line = sys.stdin.readline().strip()
    maker = load_maker(line) if line else None
    for order in sys.stdin:
        task, facts = json.loads(order)
        try:
            for answer in answers(task, maker, line, **facts):
                _write(out, answer)
            _write(out, {})
        except UserError as error:
            _write(out, {"error": str(error)})


def _write(out: BinaryIO, answer: dict[str, Any]) -> None:
    arrays = answer.pop("arrays", {})
    if arrays:
        answer["arrays"] = {name: (x.dtype.str, x.shape) for name, x in arrays.items()}
    try:
        out.write(json.dumps(answer, default=str).encode() + b"\n")
        for array in arrays.values():
            out.write(array.tobytes())
        out.flush()
    except BrokenPipeError:
        os._exit(1)  # past the flush at Python's end, which would say so


if __name__ == "__main__":
    main()
