"""Chats as examples: what `--data` names, written by a chat template, packed, with what is learned of each.

1. reading.py: a row of a file -> a chat, whichever way the row has it.
2. encoding.py: a chat -> its tokens, and which of them the assistant says.
3. documents.py: both, of files, for the shards of `data.prepare`. examples.py: all of it, for a pipeline.
"""
