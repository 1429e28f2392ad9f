"""The methods of a decoder in model.py, as recipes call them."""

from __future__ import annotations

from redco_new.pytorch.texts import IDS, MASK, NAMES, POSITIONS, TextMethods

PACKED = '''
        segments_BS: which of the texts packed in its row a token is of. None sees another, and the
        positions of each are from 0 on. Without it a row is one text.
        """'''
ALONE = '''
        A row is one text: those that share one would mix. Raises UserError for segments_BS.
        """
        if segments_BS is not None:
            raise UserError("--packing: texts in one row would mix in this model: give off")'''
CACHED = '''
    def init_cache(self, batch: int, length: int) -> dict[str, jax.Array]:
        """Return an empty cache of `length` slots: keys "k", values "v", each (L, B, T, heads, size)."""
        c = self.config
        return empty_cache({cache})

    def decode(self, input_ids_BS, positions_BS, mask_BT, cache, index):
        """Return (x_BSD, cache) for S new tokens, which take the slots `index` to `index + S - 1`.

        A token attends to the slots up to its own where mask_BT is true. Its place in the text is
        in positions_BS, which differs from its slot in a row that is padded on the left.
        """
        attend = ToCache(cache, index, mask_BT)
        x_BSD = self._run({inputs})
        return x_BSD, attend.cache
'''
ANEW = '''
    def init_cache(self, batch: int, length: int) -> dict[str, jax.Array]:
        """Return no cache but the texts themselves, of at most `length` tokens: each is computed anew, token by token."""
        return empty_texts(batch, length)

    def decode(self, input_ids_BS, positions_BS, mask_BT, cache, index):
        """Return (x_BSD, cache) for S new tokens, whose places in the text are in positions_BS, by the whole texts."""
        return decode_anew(self.hidden, input_ids_BS, positions_BS, mask_BT, cache, index)
'''
TEXT = '''
    def __call__(self, input_ids_BS: jax.Array) -> jax.Array:
        """Return logits_BSV of the token after each position."""
        return self.logits(self.hidden(input_ids_BS))

    def hidden(self, input_ids_BS: jax.Array, segments_BS: {kind} = None) -> jax.Array:
        """Return x_BSD, causal hidden states that `logits` reads.
{about}
        S = input_ids_BS.shape[1]
{check}{places}        return self._run({inputs})

    def logits(self, x_BSD: jax.Array) -> jax.Array:
        """Return logits_BSV of hidden states."""
{logits}
{decoding}
    def _run(self, {names}):
{run}
'''
CHECK = """        if S > self.config.{longest}{less}:
            limit = f"{longest} {{self.config.{longest}}}{less}"
            raise ValueError(f"{{S}} tokens exceed {{limit}}: shorten them or raise it.")
"""
PLACES = "        positions_BS = text_positions(S, {segments})\n"


def print_methods(methods: TextMethods, logits: str, run: str) -> str:
    """Return the methods of a decoder. logits, run: the statements of these two, indented."""
    segments = "segments_BS" if methods.shares else "None"
    attends = {NAMES[MASK]: f"ToTexts({segments})" if methods.shares else "ToTexts()"}
    ordered = [NAMES[x] for x in (IDS, POSITIONS, MASK) if NAMES[x] in methods.inputs]
    names = ", ".join(ordered)
    less = f" - {methods.first}" if methods.first else ""
    check = CHECK.format(longest=methods.longest, less=less) if methods.longest else ""
    places = PLACES.format(segments=segments) if methods.places else ""
    about = PACKED if methods.shares else ALONE
    if not (check or places):
        about = f"{about}\n"
    text = TEXT.format(
        kind="jax.Array | None" if methods.shares else "None",
        about=about,
        check=check,
        places=places,
        inputs=", ".join(attends.get(x, x) for x in ordered),
        logits=logits,
        decoding=(CACHED if methods.cache else ANEW)
        .replace("{cache}", methods.cache)
        .replace("{inputs}", names),
        names=names,
        run=run,
    )
    return text if check or places else text.replace("        S = input_ids_BS.shape[1]\n", "")
