"""Pairs of a source and a target text as examples: what `--data` names, tokenized once.

1. reading.py: a row of a file -> a pair, by its keys.
2. documents.py: parts of files -> pairs as documents, for the shards of `data.prepare`.
3. examples.py: all of it, for a pipeline.
"""
