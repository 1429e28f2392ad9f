"""Documents of any size as examples: what `--data` names, tokenized once, packed, mixed in an exact order.

1. sources.py: an argument of --data -> files of one content, cut into parts (parts.py); formats.py and tables.py
   read the rows of a part.
2. texts.py: parts -> documents as tokens (documents.py), by encoder.py; chats have a maker of their own.
3. packing.py: documents -> rows of S tokens, some held out, by their lengths alone.
4. shard.py: parts -> a shard: tokens, their marks, and where the rows lie in them. build.py: a source -> a folder of
   shards, made by all cores (worker.py), once, whichever process comes first, going on where one was killed.
5. rows.py: a folder -> rows, read through memory maps. mixture.py: rows of several sources in the
   order of a run, a function of (seed, place). examples.py: all of it, for a pipeline.
6. streaming.py: rows of sources as they are read, a window at a time, with no folder.

The folder's name is a digest of the content of the files, of the tokenizer, and of the settings.
"""
