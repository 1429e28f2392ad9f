"""Changing files of a project, all or none: `locked`, then `recover`, then `apply`.

Killed at any moment, the project is as before or as after, once `recover` has run. Between the two
`apply` writes no file where it has not first put a copy of what lies there into .redco/staging/, and
a journal that names them all. Removing the journal is what commits; whatever happens before that, an
error or a kill, `recover` takes back. A file that its user has edited meanwhile is never touched.
"""

from redco_new.transaction.commit import apply
from redco_new.transaction.journal import unfinished
from redco_new.transaction.lock import locked
from redco_new.transaction.plan import Change
from redco_new.transaction.recovery import recover

__all__ = ["Change", "apply", "locked", "recover", "unfinished"]
