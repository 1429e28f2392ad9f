"""Chats as examples: what `--data` names, written by a chat template, packed, with what is learned of each.

1. reading.py: a source -> chats, whichever way its rows have them.
2. encoding.py: a chat -> its tokens, and which of them the assistant says.
3. examples.py: chats -> packed rows, some held out, in the exact order of `redco_runtime.text.mixture`.

Chats are tokenized at each start, and are in memory: 6 bytes a token.
"""
