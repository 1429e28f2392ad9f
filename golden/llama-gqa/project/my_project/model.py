# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""Llama (checkpoint), a causal decoder with rotary positions and grouped heads, in Flax NNX.

Shape letters: B batch, S sequence, T cache slots, D embed, F mlp, N heads, K key/value heads,
H head dim, R half of the rotated features of a head, V vocab, L layers. A name carries its shape:
x_BSD has shape (B, S, D). Parameters are float32; the forward pass computes in `config.dtype`, its
norms in float32.
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
class LlamaConfig:
    """Sizes of the model; the defaults are those of Llama (checkpoint)."""

    vocab_size: int = 32000  # V: tokens
    embed_dim: int = 2048  # D: features of the residual stream
    mlp_dim: int = 5632  # F: features inside the MLP
    num_layers: int = 22  # L
    num_heads: int = 32  # N: of the queries
    num_kv_heads: int = 2  # K: of the keys and values; divides num_heads
    kv_copies: int = 2  # of each such head: the devices that share one, each have one
    head_dim: int = 64  # H: features of a head
    max_positions: int = 2048  # tokens: longest sequence
    rope_theta: float = 10000.0  # the slowest rotation, in tokens a radian
    norm_epsilon: float = 1e-05  # added to the mean square
    dtype: str = "bfloat16"  # of the computation
    remat: str = "fit"  # what is saved for the backward pass: config.py has the choices

    def __post_init__(self):
        if self.num_heads % self.num_kv_heads:
            heads = f"num_heads {self.num_heads}"
            raise ValueError(f"num_kv_heads {self.num_kv_heads} must divide {heads}.")
        if self.head_dim % 2:
            raise ValueError(f"head_dim {self.head_dim} must be even.")


class Llama(nnx.Module):
    """The language model: `model(input_ids_BS)` gives the logits of each next token."""

    def __init__(self, config: LlamaConfig, *, rngs: nnx.Rngs):
        V, D = config.vocab_size, config.embed_dim
        self.config = config
        # In float32, in which the gradients of its rows add up.
        self.embed = nnx.Embed(V, D, embedding_init=_NORMAL, rngs=rngs)
        create = nnx.vmap(lambda rngs: Layer(config, rngs))  # one Layer, its parameters L-stacked
        self.layers = nnx.split_rngs(splits=config.num_layers)(create)(rngs)
        self.ln = _norm(config, D, rngs)
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
        rotary = _rotary(self.config, positions_BS)

        @over_layers(self.config.remat)
        def run(layer, x_BSD):
            return layer(x_BSD, rotary, _attend_causal(segments_BS))[0]

        x_BSD = self._embed(input_ids_BS)
        return _normed(self.ln, run(self.layers, x_BSD))

    def logits(self, x_BSD: jax.Array) -> jax.Array:
        """Return logits_BSV of hidden states, in the compute dtype."""
        return self.head(x_BSD)

    def init_cache(self, batch: int, length: int) -> dict[str, jax.Array]:
        """Return an empty cache of `length` slots: keys "k", values "v", each (L, B, T, K, H)."""
        self._check_length(length)
        c = self.config
        shape = (c.num_layers, batch, length, c.num_kv_heads * c.kv_copies, c.head_dim)
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
        rotary = _rotary(self.config, positions_BS)

        # The cache is carried, not scanned over, so that each step writes S slots in place.
        @each_layer
        def run(layer, carry, i):
            x_BSD, cache = carry

            def attend(q_BSNH, k_BSKH, v_BSKH):
                start = (i, 0, index, 0, 0)
                k = jax.lax.dynamic_update_slice(cache["k"], k_BSKH[None], start)
                v = jax.lax.dynamic_update_slice(cache["v"], v_BSKH[None], start)
                o_BSNH = attention(q_BSNH, k[i], v[i], causal=True, start=index, mask_BT=mask_BT)
                return o_BSNH, {"k": k, "v": v}

            return layer(x_BSD, rotary, attend)

        carry = (self._embed(input_ids_BS), cache)
        x_BSD, cache = run(self.layers, carry)
        return _normed(self.ln, x_BSD), cache

    def _embed(self, input_ids_BS):
        rows_BSD = look_up(self.embed.embedding[...], input_ids_BS, self.config.dtype, "rows_BSD")
        return lay_out(lay_out(rows_BSD, "rows_BSD"), "x_BSD")

    def _check_length(self, length):
        limit = self.config.max_positions
        if length > limit:
            raise ValueError(f"{length} tokens exceed max_positions {limit}: shorten or raise it.")


class Layer(nnx.Module):
    """Attention, then the MLP, each on the normed residual stream."""

    def __init__(self, config: LlamaConfig, rngs: nnx.Rngs):
        self.ln_1 = _norm(config, config.embed_dim, rngs)
        self.attn = Attention(config, rngs)
        self.ln_2 = _norm(config, config.embed_dim, rngs)
        self.mlp = MLP(config, rngs)

    def __call__(self, x_BSD, rotary, attend):
        o_BSD, extra = self.attn(lay_out(_normed(self.ln_1, x_BSD), "h_BSD"), rotary, attend)
        x_BSD = lay_out(x_BSD + o_BSD, "mid_BSD")
        h_BSD = lay_out(_normed(self.ln_2, x_BSD), "h_BSD")
        return lay_out(x_BSD + self.mlp(h_BSD), "x_BSD"), extra


class Attention(nnx.Module):
    """Attention with K heads of keys and values; `attend(q, k, v) -> (o, extra)` says who sees whom."""

    def __init__(self, config: LlamaConfig, rngs: nnx.Rngs):
        D, H = config.embed_dim, config.head_dim
        heads, kv_heads = config.num_heads * H, config.num_kv_heads * H
        self.head_dim = H
        self.kv_copies = config.kv_copies
        self.q = _linear(config, D, heads, rngs)
        self.k = _linear(config, D, kv_heads, rngs)
        self.v = _linear(config, D, kv_heads, rngs)
        self.o = _linear(config, heads, D, rngs)

    def __call__(self, h_BSD, rotary, attend):
        q_BSNH = lay_out(self._heads(self.q, h_BSD), "heads_BSNH")
        k_BSKH = lay_out(self._heads(self.k, h_BSD), "kv_BSKH")
        v_BSKH = lay_out(self._heads(self.v, h_BSD), "kv_BSKH")
        k_BSKH, v_BSKH = (jnp.repeat(x, self.kv_copies, axis=2) for x in (k_BSKH, v_BSKH))
        o_BSNH, extra = attend(_rotate(q_BSNH, *rotary), _rotate(k_BSKH, *rotary), v_BSKH)
        return self.o(o_BSNH.reshape(*h_BSD.shape[:2], -1)), extra

    def _heads(self, project, h_BSD):
        return project(h_BSD).reshape(*h_BSD.shape[:2], -1, self.head_dim)


class MLP(nnx.Module):
    def __init__(self, config: LlamaConfig, rngs: nnx.Rngs):
        D, F = config.embed_dim, config.mlp_dim
        self.gate = _linear(config, D, F, rngs)
        self.up = _linear(config, D, F, rngs)
        self.down = _linear(config, F, D, rngs)

    def __call__(self, h_BSD):
        gate_BSF, up_BSF = lay_out(self.gate(h_BSD), "u_BSF"), lay_out(self.up(h_BSD), "u_BSF")
        return self.down(lay_out(jax.nn.silu(gate_BSF) * up_BSF, "a_BSF"))


_NORMAL = nnx.initializers.normal(0.02)


def _linear(config, size_in, size_out, rngs):
    dtype = jnp.dtype(config.dtype)
    kwargs = {"use_bias": False, "dtype": dtype, "kernel_init": _NORMAL}
    return nnx.Linear(size_in, size_out, rngs=rngs, **kwargs)


def _norm(config, size, rngs):
    return nnx.RMSNorm(size, epsilon=config.norm_epsilon, rngs=rngs)


def _normed(ln, x):
    return ln(x).astype(x.dtype)


def _attend_causal(segments_BS):
    """Return a function that attends to the tokens of one's own text, up to oneself."""

    def attend(q_BSNH, k_BSKH, v_BSKH):
        o_BSNH = attention(q_BSNH, k_BSKH, v_BSKH, causal=True, segments_BS=segments_BS)
        return o_BSNH, None

    return attend


def _rotary(config, positions_BS):
    """Return sin and cos of the angle of each position and pair of features: (B, S, 1, R)."""
    angles_BS1R = positions_BS[:, :, None, None] * _rates(config)[None, None, None, :]
    return jnp.sin(angles_BS1R), jnp.cos(angles_BS1R)


def _rates(config):
    """Return the radians that each pair of features turns a token: float32 (R,)."""
    return config.rope_theta ** -(jnp.arange(0, config.head_dim, 2) / config.head_dim)


def _rotate(x_BSNH, sin_BS1R, cos_BS1R):
    """Turn the pairs of features (0, R), (1, R + 1), ... of each head."""
    a, b = jnp.split(x_BSNH, 2, axis=-1)
    turned = (a * cos_BS1R - b * sin_BS1R, b * cos_BS1R + a * sin_BS1R)
    return jnp.concatenate(turned, axis=-1).astype(x_BSNH.dtype)
