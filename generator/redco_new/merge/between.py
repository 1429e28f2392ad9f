"""The comments between symbols: none is taken twice because a side moved it."""

from collections import Counter
from dataclasses import replace

from redco_new.merge.fingerprint import comment_text
from redco_new.merge.place import Item
from redco_new.merge.symbols import Symbol, comments_of


def without_doubles(
    items: list[Item], base: list[Symbol], ours: list[Symbol], theirs: list[Symbol]
) -> list[Item]:
    """`items` without comments that the template only moved and our file has elsewhere."""
    b, o, t = (Counter(x for s in side for x in s.comments) for side in (base, ours, theirs))
    excess = Counter(x for item in items for x in comments_of(item.lead)) - (o + (t - b))
    return [without(item, excess) for item in items] if excess else items


def without(item: Item, excess: Counter[str]) -> Item:
    """`item` without those of `excess` that our file has not above it; they are counted off."""
    new = Counter(comments_of(item.lead)) - Counter(item.ours.comments if item.ours else ())
    lead = []
    for line in item.lead:
        text = comment_text(line)
        if line.strip() and min(excess[text], new[text]) > 0:
            excess[text] -= 1
            new[text] -= 1
        else:
            lead.append(line)
    if item.ours and lead != item.lead and comments_of(lead) == item.ours.comments:
        lead = item.ours.lead
    return replace(item, lead=lead)
