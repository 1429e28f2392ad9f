"""The errors that are the user's to mend: where, what, and what to do."""


class RedcoError(Exception):
    """Bad input or a bad state of the disk, told in one line and without a traceback.

    where: the flag, file or key at fault.  what: what is wrong.  todo: what to do about it.
    """

    exit_code = 2

    def __init__(self, where: str, what: str, todo: str):
        super().__init__(f"{where}: {what}; {todo}")
        self.where = where
        self.what = what
        self.todo = todo


class Refusal(RedcoError):
    """No bad input, but to be settled before an update: a conflict, a merged project that does not run."""

    exit_code = 1
