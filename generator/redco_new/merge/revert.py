"""One symbol of the user's file with the user's edit of it undone, so far as it is in conflict."""

from redco_new.merge.body import merge_body, merge_lead
from redco_new.merge.symbols import Symbol


def undone(base: Symbol, ours: Symbol, theirs: Symbol) -> tuple[list[str], list[str]]:
    """The lead and the body of ours; each as in base where it cannot be merged.

    Of a class it is the header alone: its members are symbols of their own.
    """
    apart = merge_lead(base.lead, ours.lead, theirs.lead) is None
    lead = (base if apart else ours).lead
    if not (base.members and ours.members and theirs.members):
        return lead, settled(base, ours, theirs).body
    header = base.members[0], ours.members[0], theirs.members[0]
    return lead, with_header(ours, settled(*header))


def with_header(ours: Symbol, header: Symbol) -> list[str]:
    """The body of a class of ours below another header."""
    return header.body + ours.body[len(ours.members[0].body) :]


def settled(base: Symbol, ours: Symbol, theirs: Symbol) -> Symbol:
    """Ours if it can be merged, else base."""
    return base if merge_body(base, ours, theirs) is None else ours


def both_added(ours: Symbol, theirs: Symbol) -> tuple[list[str], list[str]]:
    """The lead and the body of a symbol that both sides added: theirs, and our comments if none."""
    lead = merge_lead([], ours.lead, theirs.lead)
    return theirs.lead if lead is None else lead, theirs.body


def replaced(ours: Symbol, other: Symbol) -> tuple[list[str], list[str]]:
    """The lead and the body of `other`, with our blank lines if the comments are the same."""
    return (ours if ours.comments == other.comments else other).lead, other.body
