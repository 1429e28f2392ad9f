"""How many texts share a row at most: those who pack rows keep to it, and a kernel counts on it."""

# Tokens of a text in the mean, at the least. cuDNN takes a table of texts of a fixed size: with 32 of 2,048 tokens
# an H100 is as fast as with one text, with 128 it takes 2.4 times as long.
TOKENS = 64
FEWEST, MOST = 16, 32


def most_texts(length: int) -> int:
    """Return the most texts of a row of `length` tokens; its padding is not one."""
    return min(length, max(FEWEST, min(length // TOKENS, MOST)))
