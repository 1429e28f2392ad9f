"""Heads in the place of that for words: of projects whose model makes numbers of a text."""
