"""docs/results/servers.md: what servers expect of an exported folder, of the rows that the tests check."""

from __future__ import annotations

from servers.rows import ADAPTERS, CHATS, MODEL, TEXTS, Row
from servers.tensors import FAMILIES, SGLANG, VLLM

HEAD = f"""# What servers expect of an exported folder

What {VLLM} and {SGLANG} read of a folder, each row with the file of their source that says so (beneath `vllm/` and
`sglang/`). Every row is a check of what `export` writes: `tests/test_servers.py` runs it for each family. Neither server
runs here, which takes a GPU: it was read in their source, not seen. llama.cpp was run: see
[export](../how-to/export.md).
"""
PARTS = (
    ("A model", MODEL),
    ("Its texts", TEXTS),
    ("Its chats", CHATS),
    ("An adapter alone", ADAPTERS),
)
LETTERS = """
## Tensors

By family: the file of the class in `vllm/model_executor/models` and in `sglang/srt/models`, what keys of `config.json` it
asserts, and the tensors that it takes, all of them and no others. `{}` is a number; of shapes E is `hidden_size`, F the inner
size, H heads, K heads of keys, D `head_dim`, V `vocab_size`, P positions, X experts. The last rows are there where the
embedding is not tied. gpt-neox and, by vLLM, olmo2 run in the class of transformers, whose names they then are. bart, bert,
t5 and vit write no texts token by token, or have no class there. Of a family that is not here no source was read: its tensors
are those of transformers' class, in which both servers run what they have no class of.
"""


def page() -> str:
    """Return the page."""
    texts = [HEAD]
    texts += [f"\n## {title}\n\n{table(rows)}" for title, rows in PARTS]
    texts.append(LETTERS)
    for name, served in FAMILIES.items():
        keys = ", ".join(f"`{key}` {str(value).lower()}" for key, value in served.keys.items())
        shapes = served.tensors | served.head
        rows = "".join(f"| `{tensor}` | {shape} |\n" for tensor, shape in shapes.items())
        where = f"`{served.vllm}`, `{served.sglang}`" + (f"; {keys}" if keys else "")
        texts.append(f"\n### {name}\n\n{where}\n\n| tensor | shape |\n|---|---|\n{rows}")
    return "".join(texts)


def table(rows: tuple[Row, ...]) -> str:
    """Return rows as a table."""
    lines = [f"| what | {VLLM} | {SGLANG} |", "|---|---|---|"]
    lines += [f"| {row.what} | `{row.where[VLLM]}` | `{row.where[SGLANG]}` |" for row in rows]
    return "\n".join(lines) + "\n"
