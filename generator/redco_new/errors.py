"""The one kind of error that is the user's to mend: where, what, and what to do."""

EXIT_CODE = 2


class RedcoError(Exception):
    """Bad input or a bad state of the disk, told in one line and without a traceback.

    where: the flag, file or key at fault.  what: what is wrong.  todo: what to do about it.
    """

    def __init__(self, where: str, what: str, todo: str):
        super().__init__(f"{where}: {what}; {todo}")
        self.where = where
        self.what = what
        self.todo = todo
