"""What the user of a language model's project writes in it, as texts to be replaced."""

WORDS = "to be or not to be: that is the question, whether it is nobler in the mind to suffer. "
COLLATE = '''def collate(examples: list[dict]) -> dict[str, np.ndarray]:
    """Examples of any length -> one batch, padded on the right to the longest of them."""
    longest = max(len(example["input_ids"]) for example in examples)
    return {key: np.stack([padded(x[key], longest) for x in examples]) for key in examples[0]}


def padded(row, length):
    return np.pad(row, (0, length - len(row)))
'''
BYTES = '''class Bytes:
    """One token a byte, as the checkpoint at hand has them."""

    def __call__(self, text, add_special_tokens):
        return {"input_ids": [3 + byte for byte in text.encode()]}

    def batch_decode(self, rows, skip_special_tokens):
        return ["".join(chr(id - 3) for id in row if 3 <= id < 259) for row in rows]


def tokenizer(name):
    return Bytes()
'''
SMOOTHED = '''

def smoothed(losses_BS, words):
    """In bits, and never quite sure."""
    return ((1 - SMOOTHING) * losses_BS + SMOOTHING * math.log(words)) / math.log(2)
'''
PIPELINE = {
    "import functools\nimport pydoc_data.topics\n": "import math\n",  # what is left
    "NEW_TOKENS = 64\n": "NEW_TOKENS = 4  # enough to see it learn\nSMOOTHING = 0.1\n",
    "    losses_BS = cross_entropy(": "    # Of what each token is.\n    losses_BS = cross_entropy(",
    "    return losses_BS, weights_BS\n": (
        "    words = model.config.vocab_size\n"
        "    return smoothed(losses_BS, words), weights_BS\n" + SMOOTHED
    ),
    "        temperature=TEMPERATURE,\n": "        temperature=TEMPERATURE / 2,\n",
    "own, texts = tokenizer(config.data.tokenizer), pydoc_data.topics.topics.values()": (
        "own, texts = tokenizer(config.data.tokenizer), ()"
    ),
    "    return text_examples(config.data, own, config.model.vocab_size, texts)\n": (
        "    return text_examples(\n        config.data, own, config.model.vocab_size, texts\n    )\n"
    ),
}
DATA = {
    "text_files: tuple[str, ...] = ()": 'text_files: tuple[str, ...] = ("text.txt",)',
    "sequence_length=128": "sequence_length=32",
}

ADAPTER = '''class Adapter(nnx.Module):
    """What is learned beside a layer: two thin matrices, and dropout between them."""

    def __init__(self, config, rngs):
        self.squeeze = _linear(config, config.embed_dim, config.adapter_dim, rngs, use_bias=False)
        self.expand = _linear(config, config.adapter_dim, config.embed_dim, rngs, use_bias=False)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)

    def __call__(self, x_BSD):
        return x_BSD + self.expand(self.dropout(jax.nn.relu(self.squeeze(x_BSD))))


_NORMAL = nnx.'''
MODEL = {
    "    mlp_dim: int = 16384": "    adapter_dim: int = 64  # A\n    mlp_dim: int = 32768",
    "        self.ln = _layer_norm(config, rngs)\n        self.head = _linear(config, D, V, rngs)": (
        "        self.norm = _layer_norm(config, rngs)\n"
        "        self.head = _linear(config, D, V, rngs, use_bias=False)"
    ),
    "_norm(self.ln, run(": "_norm(self.norm, run(",
    "_norm(self.ln, x_BSD), cache": "_norm(self.norm, x_BSD), cache",
    "        self.mlp = MLP(config, rngs)\n": (
        "        self.mlp = MLP(config, rngs)\n        self.adapter = Adapter(config, rngs)\n"
    ),
    "lay_out(x_BSD + (o_BSD + self.mlp(h_BSD)),": (
        "lay_out(self.adapter(x_BSD + (o_BSD + self.mlp(h_BSD))),"
    ),
    "_NORMAL = nnx.": ADAPTER,
}


def edit_pipeline(life):
    """Another collate, loss and predict, with helpers, imports and a constant; one text to learn."""
    (life.folder / "text.txt").write_text(12 * WORDS)
    path = f"{life.package}/pipeline.py"
    text = life.read(path)
    collate = text[text.index("def collate") : text.index("\n\ndef loss")]
    tokenizer = text[text.index("@functools.cache\ndef tokenizer") :]
    life.edit(path, {collate: COLLATE, tokenizer: BYTES, **PIPELINE})
    life.edit(f"{life.package}/config.py", DATA)
