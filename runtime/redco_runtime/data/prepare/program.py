"""The process that reads data: an order on stdin, answers on stdout, lines of JSON and bytes of arrays."""

import json
import os
import sys
import threading
from typing import Any, BinaryIO

from ...base.errors import UserError
from .tasks import answers


def main() -> None:
    """Make the answers that stdin asks for, on stdout; end as soon as nobody writes to stdin."""
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_follow, daemon=True).start()
    # What a library prints is not to be among the answers.
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        try:
            for answer in answers(order["task"], order["maker"], **order["facts"]):
                _write(out, answer)
        except UserError as error:
            _write(out, {"error": str(error)})


def _follow() -> None:
    """End once the process that asks is gone."""
    os.read(0, 1)  # past Python's buffer, whose lock would be held at the end
    os._exit(1)


def _write(out: BinaryIO, answer: dict[str, Any]) -> None:
    arrays = answer.pop("arrays", {})
    if arrays:
        answer["arrays"] = {name: (x.dtype.str, x.shape) for name, x in arrays.items()}
    out.write(json.dumps(answer, default=str).encode() + b"\n")
    for array in arrays.values():
        out.write(array.tobytes())
    out.flush()


if __name__ == "__main__":
    main()
