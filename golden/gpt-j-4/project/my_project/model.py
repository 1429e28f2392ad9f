# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""GPT-J (Wang and Komatsuzaki 2021), a causal decoder with rotary positions, in Flax NNX.

Shape letters: B batch, S sequence, T cache slots, D embed, F mlp, N heads, H head dim, R half
of the rotary dim, V vocab, L layers. A name carries its shape: x_BSD has shape (B, S, D).
Parameters are float32; the forward pass computes in `config.dtype`, its layer norms in float32.
"""

import dataclasses

import jax
import jax.numpy as jnp
from flax import nnx

from my_project.runtime.layout.activations import lay_out
from my_project.runtime.nn.attention import attention, text_positions
from my_project.runtime.nn.decoding import each_layer, unstack
from my_project.runtime.nn.embedding import look_up
from my_project.runtime.nn.layers import over_layers


@dataclasses.dataclass(frozen=True)
class GPTJConfig:
    """Sizes of the model; the defaults are those of GPT-J 6b."""

    vocab_size: int = 50400  # V: tokens, 50257 of which the tokenizer uses
    embed_dim: int = 4096  # D: features of the residual stream
    mlp_dim: int = 16384  # F: features inside the MLP
    num_layers: int = 28  # L
    num_heads: int = 16  # N: divides embed_dim
    rotary_dim: int = 64  # features of each head that are rotated: even
    max_positions: int = 2048  # tokens: longest sequence
    layer_norm_epsilon: float = 1e-05  # added to the variance
    dtype: str = "bfloat16"  # of the computation
    remat: str = "fit"  # what is saved for the backward pass: config.py has the choices

    @property
    def head_dim(self) -> int:
        return self.embed_dim // self.num_heads

    def __post_init__(self):
        if self.embed_dim % self.num_heads:
            raise ValueError(f"num_heads {self.num_heads} must divide embed_dim {self.embed_dim}.")
        if self.rotary_dim not in range(2, self.head_dim + 1, 2):
            limit = f"{self.head_dim}, the head dim"
            raise ValueError(f"rotary_dim {self.rotary_dim} must be even, from 2 to {limit}.")


class GPTJ(nnx.Module):
    """The language model: `model(input_ids_BS)` gives the logits of each next token."""

    def __init__(self, config: GPTJConfig, *, rngs: nnx.Rngs):
        V, D = config.vocab_size, config.embed_dim
        self.config = config
        # In float32, in which the gradients of its rows add up.
        self.embed = nnx.Embed(V, D, embedding_init=_NORMAL, rngs=rngs)
        create = nnx.vmap(lambda rngs: Layer(config, rngs))  # one Layer, its parameters L-stacked
        self.layers = nnx.split_rngs(splits=config.num_layers)(create)(rngs)
        self.ln = _layer_norm(config, rngs)
        self.head = _linear(config, D, V, rngs)

    def __call__(self, input_ids_BS: jax.Array) -> jax.Array:
        """Return logits_BSV of the token after each position, in the compute dtype."""
        return self.logits(self.hidden(input_ids_BS))

    def hidden(self, input_ids_BS: jax.Array, segments_BS: jax.Array | None = None) -> jax.Array:
        """Return x_BSD, causal hidden states after the last norm.

        segments_BS: which of the texts packed in its row a token is of. None sees another, and the
        positions of each are from 0 on. Without it a row is one text.
        """
        S = input_ids_BS.shape[1]
        self._check_length(S)
        positions_BS = text_positions(S, segments_BS)
        rotary = _rotary(positions_BS, self.config.rotary_dim)

        @over_layers(self.config.remat)
        def run(layer, x_BSD):
            return layer(x_BSD, rotary, _attend_causal(segments_BS))[0]

        x_BSD = self._embed(input_ids_BS)
        return _norm(self.ln, run(self.layers, x_BSD))

    def logits(self, x_BSD: jax.Array) -> jax.Array:
        """Return logits_BSV of hidden states, in the compute dtype."""
        return self.head(x_BSD)

    def init_cache(self, batch: int, length: int) -> dict[str, jax.Array]:
        """Return an empty cache of `length` slots: keys "k", values "v", each (L, B, T, N, H)."""
        self._check_length(length)
        c = self.config
        shape = (c.num_layers, batch, length, c.num_heads, c.head_dim)
        return {"k": jnp.zeros(shape, c.dtype), "v": jnp.zeros(shape, c.dtype)}

    def unstacked(self):
        """Return a copy of the model for many calls of `decode`: its layers are apart, not in a stack."""
        model = nnx.clone(self)
        model.layers = unstack(self.layers)
        return model

    def decode(self, input_ids_BS, positions_BS, mask_BT, cache, index):
        """Return (x_BSD, cache) for S new tokens, which take the slots `index` to `index + S - 1`.

        A token attends to the slots up to its own where mask_BT is true. Its place in the text is
        in positions_BS, which differs from its slot in a row that is padded on the left.
        """
        rotary = _rotary(positions_BS, self.config.rotary_dim)

        # The cache is carried, not scanned over, so that each step writes S slots in place.
        @each_layer
        def run(layer, carry, i):
            x_BSD, cache = carry

            def attend(q_BSNH, k_BSNH, v_BSNH):
                start = (i, 0, index, 0, 0)
                k = jax.lax.dynamic_update_slice(cache["k"], k_BSNH[None], start)
                v = jax.lax.dynamic_update_slice(cache["v"], v_BSNH[None], start)
                o_BSNH = attention(q_BSNH, k[i], v[i], causal=True, start=index, mask_BT=mask_BT)
                return o_BSNH, {"k": k, "v": v}

            return layer(x_BSD, rotary, attend)

        carry = (self._embed(input_ids_BS), cache)
        x_BSD, cache = run(self.layers, carry)
        return _norm(self.ln, x_BSD), cache

    def _embed(self, input_ids_BS):
        rows_BSD = look_up(self.embed.embedding[...], input_ids_BS, self.config.dtype, "rows_BSD")
        return lay_out(lay_out(rows_BSD, "rows_BSD"), "x_BSD")

    def _check_length(self, length):
        limit = self.config.max_positions
        if length > limit:
            raise ValueError(f"{length} tokens exceed max_positions {limit}: shorten or raise it.")


class Layer(nnx.Module):
    """Attention and MLP side by side, both on the same normed input."""

    def __init__(self, config: GPTJConfig, rngs: nnx.Rngs):
        self.ln = _layer_norm(config, rngs)
        self.attn = Attention(config, rngs)
        self.mlp = MLP(config, rngs)

    def __call__(self, x_BSD, rotary, attend):
        h_BSD = lay_out(_norm(self.ln, x_BSD), "h_BSD")
        o_BSD, extra = self.attn(h_BSD, rotary, attend)
        return lay_out(x_BSD + (o_BSD + self.mlp(h_BSD)), "x_BSD"), extra


class Attention(nnx.Module):
    """Multi-head attention; `attend(q, k, v) -> (o, extra)` decides which keys a query sees."""

    def __init__(self, config: GPTJConfig, rngs: nnx.Rngs):
        D = config.embed_dim
        self.heads = (config.num_heads, config.head_dim)
        self.q = _linear(config, D, D, rngs, use_bias=False)
        self.k = _linear(config, D, D, rngs, use_bias=False)
        self.v = _linear(config, D, D, rngs, use_bias=False)
        self.o = _linear(config, D, D, rngs, use_bias=False)

    def __call__(self, h_BSD, rotary, attend):
        q_BSNH, k_BSNH, v_BSNH = (
            lay_out(project(h_BSD).reshape(h_BSD.shape[:2] + self.heads), "heads_BSNH")
            for project in (self.q, self.k, self.v)
        )
        o_BSNH, extra = attend(_rotate(q_BSNH, *rotary), _rotate(k_BSNH, *rotary), v_BSNH)
        return self.o(o_BSNH.reshape(h_BSD.shape)), extra


class MLP(nnx.Module):
    def __init__(self, config: GPTJConfig, rngs: nnx.Rngs):
        self.up = _linear(config, config.embed_dim, config.mlp_dim, rngs)
        self.down = _linear(config, config.mlp_dim, config.embed_dim, rngs)

    def __call__(self, h_BSD):
        u_BSF = lay_out(self.up(h_BSD), "u_BSF")
        return self.down(lay_out(jax.nn.gelu(u_BSF, approximate=True), "a_BSF"))


_NORMAL = nnx.initializers.normal(0.02)


def _linear(config, size_in, size_out, rngs, use_bias=True):
    dtype = jnp.dtype(config.dtype)
    kwargs = {"use_bias": use_bias, "dtype": dtype, "kernel_init": _NORMAL}
    return nnx.Linear(size_in, size_out, rngs=rngs, **kwargs)


def _layer_norm(config, rngs):
    return nnx.LayerNorm(config.embed_dim, epsilon=config.layer_norm_epsilon, rngs=rngs)


def _norm(ln, x_BSD):
    return ln(x_BSD).astype(x_BSD.dtype)


def _attend_causal(segments_BS):
    """Return a function that attends to the tokens of one's own text, up to oneself."""

    def attend(q_BSNH, k_BSNH, v_BSNH):
        o_BSNH = attention(q_BSNH, k_BSNH, v_BSNH, causal=True, segments_BS=segments_BS)
        return o_BSNH, None

    return attend


def _rotary(positions_BS, rotary_dim):
    """Return sin and cos of the angle of each position and pair of features: (B, S, 1, R)."""
    rates_R = jnp.array([10000 ** (-i / rotary_dim) for i in range(0, rotary_dim, 2)], jnp.float32)
    angles_BS1R = positions_BS[:, :, None, None] * rates_R[None, None, None, :]
    return jnp.sin(angles_BS1R), jnp.cos(angles_BS1R)


def _rotate(x_BSNH, sin_BS1R, cos_BS1R):
    """Turn the pairs of features (0, 1), (2, 3), ... up to 2R of each head; keep the others."""
    head, rest = jnp.split(x_BSNH, [2 * sin_BS1R.shape[-1]], axis=-1)
    a, b = head[..., ::2], head[..., 1::2]
    turned = (a * cos_BS1R - b * sin_BS1R, b * cos_BS1R + a * sin_BS1R)
    head = jnp.stack(turned, axis=-1).reshape(head.shape).astype(x_BSNH.dtype)
    return jnp.concatenate([head, rest], axis=-1)
