"""A class of the user's own, imported, made with abstract arrays, and called."""
