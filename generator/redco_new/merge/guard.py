"""The guard around the engine: what may not be merged is kept, whatever happens."""

import warnings

from redco_new.merge import engine, verify
from redco_new.merge.result import Merged, kept_whole
from redco_new.merge.source import Unmergeable, decode


def guarded(base: bytes, ours: bytes, theirs: bytes, owned: tuple[str, ...]) -> Merged:
    """The merge of a Python file. Never raises: what cannot be merged is kept whole."""
    if theirs in (base, ours):
        return Merged(ours)
    if ours == base:
        return Merged(theirs)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the parser, about the user's code
            return checked(base, ours, theirs, owned)
    except (KeyboardInterrupt, SystemExit):
        raise
    except (Unmergeable, SyntaxError) as error:
        return kept_whole(ours, theirs, f"your file and the template's cannot be merged: {error}")
    except BaseException as error:  # whatever it is, the user's file is safer as it is
        return kept_whole(ours, theirs, f"the merge failed: {type(error).__name__}: {error}")


def checked(base: bytes, ours: bytes, theirs: bytes, owned: tuple[str, ...]) -> Merged:
    mine = decode(ours)
    outcome = engine.merge_sources(decode(base), mine, decode(theirs), owned)
    merged = Merged(mine.encode(outcome.lines), outcome.conflicts, outcome.warnings)
    if wrong := verify.faults(base, ours, theirs, merged, owned, outcome.renamed):
        return kept_whole(ours, theirs, f"the merge failed its check: {wrong[0]}")
    return merged
