"""Print what llama.cpp makes of a GGUF: tokens of texts, and the logits of rows of ids. Runs where llama-cpp-python is.

stdin: {"model": path, "texts": [...], "ids": [...]}; stdout: {"tokens": [[...]], "logits": [[...]]}; no ids: the vocabulary alone.
"""

import json
import sys

import llama_cpp

asked = json.load(sys.stdin)
model = llama_cpp.Llama(
    asked["model"],
    n_ctx=128,
    logits_all=True,
    verbose=False,
    type_k=llama_cpp.GGML_TYPE_F32,
    type_v=llama_cpp.GGML_TYPE_F32,
    flash_attn=False,
    vocab_only=not asked["ids"],
)
tokens = [model.tokenize(text.encode(), special=True) for text in asked["texts"]]
logits = []
if asked["ids"]:
    model.eval(asked["ids"])
    logits = model.scores[: len(asked["ids"])].tolist()
json.dump({"tokens": tokens, "logits": logits}, sys.stdout)
