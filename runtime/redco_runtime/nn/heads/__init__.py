"""Heads in the place of a language model's."""
