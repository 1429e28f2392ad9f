"""The tokenizer of a GGUF: tokens, their kinds, and how a text is cut into them, as src/llama-vocab.cpp reads it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...base.messages import UserError

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)  # kinds of tokens
SPACE = "\u2581"  # of SentencePiece
TODO = "export as safetensors, which keeps the tokenizer as it is"
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UP, _LOW = (rf"[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]{x}" for x in "*+")
_LETTERS, _MORE = (rf"[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}]{x}" for x in "+*")
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UP}{_LETTERS}|[^\r\n\p{{L}}\p{{N}}]?{_LOW}{_MORE}|"
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# (what a text is cut by first; "" for GPT-2's, whether a word that is a token stays whole) -> llama.cpp's name of it.
CUTS = {
    ("", False): "gpt-2",
    (_WORDS % r"\p{N}{1,3}", True): "llama-bpe",
    (_WORDS % r"\p{N}{1,3}", False): "dbrx",
    (_WORDS % r"\p{N}", False): "qwen2",
    (_TEKKEN, True): "tekken",
}


@dataclass
class Vocabulary:
    """The tokens of a model, by id.

    model: "llama" for SentencePiece's merges by score, "gpt2" for merges of bytes.
    cut: CUTS. scores: of "llama", the higher the sooner. merges: of "gpt2", the sooner the earlier.
    prefix: whether a text begins with a space that it does not have.
    """

    model: str
    cut: str
    tokens: list[str]
    kinds: list[int]
    scores: list[float] = field(default_factory=list)
    merges: list[str] = field(default_factory=list)
    prefix: bool = False


def vocabulary(tokenizer: Any, size: int) -> Vocabulary:
    """Return the vocabulary of a tokenizer of transformers, for a model with `size` ids. Raises UserError."""
    names = {id: token for token, id in tokenizer.get_vocab().items()}
    added = tokenizer.added_tokens_decoder
    if (most := max(names.keys() - added.keys(), default=0)) >= size:
        raise UserError(
            f"--format: the tokenizer has an id {most}, and the model {size} of them: {TODO}"
        )
    tokens = [names.get(id, f"[PAD{id}]") for id in range(size)]
    kinds = [NORMAL if id in names else UNUSED for id in range(size)]
    for id in filter(lambda id: id < size, added):
        kinds[id] = CONTROL if added[id].special else USER
        if kinds[id] == USER:  # of which llama.cpp looks for the text
            tokens[id] = tokens[id].replace(SPACE, " ")
    if type(tokenizer).__mro__[1].__name__ == "ByT5Tokenizer":
        return _bytes(tokenizer, tokens, kinds)
    if not hasattr(tokenizer, "backend_tokenizer"):
        raise _unknown(type(tokenizer).__name__)
    spec = json.loads(tokenizer.backend_tokenizer.to_str())
    if spec["model"]["type"] != "BPE":
        raise _unknown(spec["model"]["type"])
    pairs = [tuple(x.split(" ") if isinstance(x, str) else x) for x in spec["model"]["merges"]]
    if not spec["model"].get("byte_fallback"):
        merges = [" ".join(pair) for pair in pairs]
        return Vocabulary("gpt2", _cut(spec), tokens, kinds, merges=merges)
    return _scored(tokenizer, spec["model"], pairs, tokens, kinds)


def _bytes(tokenizer: Any, tokens: list[str], kinds: list[int]) -> Vocabulary:
    """Return the vocabulary of a token a byte: no merge has a score, so that each character falls back to its bytes."""
    for byte in range(256):
        id = tokenizer.convert_tokens_to_ids(chr(byte))
        tokens[id], kinds[id] = f"<0x{byte:02X}>", BYTE
    space = tokenizer.convert_tokens_to_ids(" ")
    tokens[space], kinds[space] = SPACE, NORMAL  # what llama.cpp makes of a space before it looks
    return Vocabulary("llama", "default", tokens, kinds, [0.0] * len(tokens))


def _scored(
    tokenizer: Any,
    model: Mapping[str, Any],
    pairs: list[tuple[str, str]],
    tokens: list[str],
    kinds: list[int],
) -> Vocabulary:
    """Return the vocabulary of a SentencePiece model, whose merges were made of scores. Raises UserError."""
    ranks, last = dict[str, int](), ""
    for rank, (left, right) in enumerate(pairs):
        token = left + right
        if token != last and token in ranks:
            raise UserError(f"--format: no scores of tokens give the merges of {token!r}: {TODO}")
        last, _ = token, ranks.setdefault(token, rank)
    scores = [-float(ranks.get(token, len(pairs))) for token in tokens]
    for id, token in enumerate(tokens):
        if kinds[id] == NORMAL and len(token) == 6 and token.startswith("<0x"):
            kinds[id] = BYTE
        if token == model.get("unk_token"):
            kinds[id] = UNKNOWN
    first = tokenizer.backend_tokenizer.encode("a", add_special_tokens=False).tokens[0]
    prefix = first.startswith(SPACE)
    return Vocabulary("llama", "default", tokens, kinds, scores, prefix=prefix)


def _cut(spec: Mapping[str, Any]) -> str:
    """Return what llama.cpp calls how a text is cut before bytes are merged. Raises UserError."""
    first = spec["pre_tokenizer"] or {"type": "none"}
    steps = first["pretokenizers"] if first["type"] == "Sequence" else [first]
    cuts = [step["pattern"].get("Regex") for step in steps if step["type"] == "Split"]
    level = steps[-1]
    fits = level["type"] == "ByteLevel" and not level["add_prefix_space"]
    fits &= len(steps) == len(cuts) + 1 and len(cuts) == (not level.get("use_regex"))
    key = (*cuts, "")[0], bool(spec["model"].get("ignore_merges"))
    if not fits or key not in CUTS:
        raise _unknown(" ".join(step["type"] for step in steps), "cut by ")
    return CUTS[key]


def _unknown(kind: str, how: str = "") -> UserError:
    return UserError(f"--format: llama.cpp is not known to have a tokenizer {how}{kind}: {TODO}")
