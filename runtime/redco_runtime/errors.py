"""The error that a user can mend."""


class UserError(Exception):
    """Its message says where, what and what to do; programs print it alone and exit with 2."""
