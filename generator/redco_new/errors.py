"""The errors that are the user's to mend: where, what, and what to do."""

MOST = 800  # characters of a part of a message: of a terminal of 80 columns ten lines


class RedcoError(Exception):
    """Bad input or a bad state of the disk, told in one line and without a traceback.

    where: the flag, file or key at fault.  what: what is wrong.  todo: what to do about it.
    What a terminal would not print as it is, of what files say, is a space in its text.
    """

    exit_code = 2

    def __init__(self, where: str, what: str, todo: str):
        text = f"{_shortened(where)}: {_shortened(what)}; {_shortened(todo)}"
        super().__init__("".join(c if c.isprintable() else " " for c in text))
        self.where = where
        self.what = what
        self.todo = todo


def _shortened(text: str) -> str:
    """Return a text without its middle, where it would fill a screen: a flag or a file may say anything."""
    return text if len(text) <= MOST else f"{text[: MOST // 2]} ... {text[-MOST // 2 :]}"


class Refusal(RedcoError):
    """No bad input, but to be settled before an update: a conflict, a merged project that does not run."""

    exit_code = 1
