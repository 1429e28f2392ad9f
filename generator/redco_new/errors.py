"""The errors that are the user's to mend: where, what, and what to do."""

MOST = 800  # characters of a part of a message: of a terminal of 80 columns ten lines


class RedcoError(Exception):
    """Bad input or a bad state of the disk, told in one line and without a traceback.

    where: the flag, file or key at fault.  what: what is wrong.  todo: what to do about it.
    What a terminal would not print as it is, of what files say, is a space in its text; `todo` may have lines.
    """

    exit_code = 2

    def __init__(self, where: str, what: str, todo: str):
        fault = _printable(f"{_shortened(where)}: {_shortened(what)}")
        super().__init__(f"{fault}; {_printable(todo, lines=True)}")
        self.where = where
        self.what = what
        self.todo = todo


def _printable(text: str, lines: bool = False) -> str:
    return "".join(c if c.isprintable() or (lines and c == "\n") else " " for c in text)


def _shortened(text: str) -> str:
    """Return a text without its middle, where it would fill a screen: a flag or a file may say anything."""
    return text if len(text) <= MOST else f"{text[: MOST // 2]} ... {text[-MOST // 2 :]}"


class Refusal(RedcoError):
    """No bad input, but to be settled before an update: a conflict, a merged project that does not run."""

    exit_code = 1
