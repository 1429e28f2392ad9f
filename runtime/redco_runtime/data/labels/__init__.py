"""Texts with a label, and words with one each, as examples: what `--data` names, tokenized once.

1. reading.py: a row of a file -> a text or words, and the numbers of their labels.
2. documents.py: these -> documents, for the shards of `data.prepare`.
3. spans.py: the entities that labels of words make up, and how many of them are predicted.
"""
