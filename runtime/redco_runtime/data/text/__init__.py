"""Documents of any size as examples: what `--data` names, tokenized once, packed, mixed in an exact order.

1. sources.py: an argument of --data -> files of one content. request.py: what is asked of the process that reads them, which
   is of `data.prepare`.
2. documents.py: what makes documents of rows, as tokens by encoder.py: of texts.py here; of chats, pairs and labels beside it.
3. rows.py: the rows of a source, made by that process where they are not there, read through memory maps.
   packing.py: documents -> rows of S tokens, some held out, by their lengths alone; in_memory.py: those that a project brings.
4. mixture.py: rows of several sources in the order of a run, a function of (seed, place). examples.py: all of it, for a
   pipeline; text_examples.py and framed_texts.py: of texts.
5. streaming.py: rows of sources as they are read, a window at a time, with no folder.

The folder's name is a digest of the content of the files, of the tokenizer, and of the settings.
"""
