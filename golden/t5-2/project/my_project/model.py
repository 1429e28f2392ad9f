# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""T5 (Raffel et al. 2020), an encoder and a decoder with relative positions, in Flax NNX.

Shape letters: B batch, S source, T target or queries, C cache slots, D embed, F mlp, N heads,
H head dim, R distance buckets, V vocab, L layers. A name carries its shape: x_BSD has shape
(B, S, D). Parameters are float32; the forward pass computes in `config.dtype`, its norms in float32.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from my_project.runtime.layout.activations import lay_out
from my_project.runtime.nn.attention import attention
from my_project.runtime.nn.decoding import each_layer, unstack
from my_project.runtime.nn.embedding import look_up
from my_project.runtime.nn.layers import over_layers


@dataclasses.dataclass(frozen=True)
class T5Config:
    """Sizes of the model; the defaults are those of T5 v1_1-base."""

    vocab_size: int = 32128  # V: tokens
    embed_dim: int = 768  # D: features of the residual stream
    mlp_dim: int = 2048  # F: features inside the MLP
    encoder_layers: int = 12  # L of the encoder
    decoder_layers: int = 12  # L of the decoder
    num_heads: int = 12  # N
    head_dim: int = 64  # H: features of a head
    distance_buckets: int = 32  # R: groups of distances, a multiple of 4
    max_distance: int = 128  # tokens: those beyond count as equally far
    norm_epsilon: float = 1e-06  # added to the mean square
    start_id: int = 0  # token that the decoder starts from
    pad_id: int = 0  # token that fills up a row
    eos_id: int = 1  # token that ends a text
    dtype: str = "bfloat16"  # of the computation
    remat: str = "fit"  # what is saved for the backward pass: config.py has the choices

    def __post_init__(self):
        R = self.distance_buckets
        if R < 4 or R % 4:
            raise ValueError(f"distance_buckets {R} must be a multiple of 4.")
        if self.max_distance <= R // 2:
            raise ValueError(f"max_distance {self.max_distance} must be more than {R // 2}.")

    @property
    def special_ids(self) -> dict[str, int]:
        """The tokens that beam_search needs to know, as its arguments."""
        return {"start_id": self.start_id, "pad_id": self.pad_id, "eos_id": self.eos_id}


class T5(nnx.Module):
    """`model(source, mask, target)` gives the logits of each next target token."""

    def __init__(self, config: T5Config, *, rngs: nnx.Rngs):
        V, D = config.vocab_size, config.embed_dim
        self.config = config
        # In float32, in which the gradients of its rows add up.
        self.embed = nnx.Embed(V, D, embedding_init=nnx.initializers.normal(1.0), rngs=rngs)
        self.encoder_distance = _distance(config, rngs)
        self.encoder = _stack(EncoderLayer, config.encoder_layers, config, rngs)
        self.encoder_ln = _rms_norm(config, rngs)
        self.decoder_distance = _distance(config, rngs)
        self.decoder = _stack(DecoderLayer, config.decoder_layers, config, rngs)
        self.decoder_ln = _rms_norm(config, rngs)
        self.head = _linear(config, D, V, rngs)

    def __call__(self, input_ids_BS, mask_BS, decoder_ids_BT) -> jax.Array:
        """Return logits_BTV of the token after each target token, in the compute dtype."""
        x_BSD = self.encode(input_ids_BS, mask_BS)
        return self.logits(self.hidden(decoder_ids_BT, x_BSD, mask_BS))

    def encode(self, input_ids_BS: jax.Array, mask_BS: jax.Array) -> jax.Array:
        """Return x_BSD, hidden states of a source, whose tokens are where mask_BS is true."""
        seen = {"mask_BT": mask_BS, "bias_1NST": self._source_bias(mask_BS.shape[1])}

        @over_layers(self.config.remat)
        def run(layer, x_BSD):
            return layer(x_BSD, seen)

        return _norm(self.encoder_ln, run(self.encoder, self._embed(input_ids_BS, "x_BSD")))

    def hidden(self, decoder_ids_BT, x_BSD, mask_BS) -> jax.Array:
        """Return y_BTD, causal hidden states of a target, whose first token is `start_id`."""
        T = decoder_ids_BT.shape[1]
        seen = {"causal": True, "bias_1NST": self._target_bias(0, T, T)}

        @over_layers(self.config.remat)
        def run(layer, y_BTD):
            keys = layer.cross.keys(x_BSD)
            return layer(y_BTD, lambda new: (new, None), seen, keys, mask_BS)[0]

        return _norm(self.decoder_ln, run(self.decoder, self._embed(decoder_ids_BT, "y_BTD")))

    def init_cache(self, x_BSD: jax.Array, length: int) -> dict[str, jax.Array]:
        """Return the cache of a target of up to `length` tokens.

        "k", "v": empty, (L, B, C, N, H). "cross_k", "cross_v": of the source, (L, B, S, N, H).
        """
        c = self.config
        shape = (c.decoder_layers, x_BSD.shape[0], length, c.num_heads, c.head_dim)

        @nnx.scan(in_axes=(0,), out_axes=0, graph_updates=False)
        def cross(layer):
            return layer.cross.keys(x_BSD)

        cross_k, cross_v = cross(self.decoder)
        empty = {"k": jnp.zeros(shape, c.dtype), "v": jnp.zeros(shape, c.dtype)}
        return empty | {"cross_k": cross_k, "cross_v": cross_v}

    def unstacked(self):
        """Return a copy of the model for many calls of `decode`: its layers are apart, not in a stack."""
        model = nnx.clone(self)
        model.decoder = unstack(self.decoder)
        return model

    def decode(self, decoder_ids_BT, mask_BS, cache, index):
        """Return (y_BTD, cache) for T new tokens, which take the slots from `index` on."""
        seen = {
            "causal": True,
            "start": index,
            "bias_1NST": self._target_bias(index, decoder_ids_BT.shape[1], cache["k"].shape[2]),
        }

        # The cache is carried, not scanned over, so that each step writes T slots in place.
        @each_layer
        def run(layer, carry, i, cross_k, cross_v):
            y_BTD, old = carry

            def remember(new):
                start = (i, 0, index, 0, 0)
                k, v = (
                    jax.lax.dynamic_update_slice(x, x_BTNH[None], start)
                    for x, x_BTNH in zip(old, new, strict=True)
                )
                return (k[i], v[i]), (k, v)

            return layer(y_BTD, remember, seen, (cross_k, cross_v), mask_BS)

        carry = (self._embed(decoder_ids_BT, "y_BTD"), (cache["k"], cache["v"]))
        y_BTD, (k, v) = run(self.decoder, carry, cache["cross_k"], cache["cross_v"])
        return _norm(self.decoder_ln, y_BTD), cache | {"k": k, "v": v}

    def logits(self, y_BTD: jax.Array) -> jax.Array:
        """Return logits_BTV of hidden states, in the compute dtype."""
        return self.head(y_BTD)

    def _embed(self, ids, name):
        rows_BTD = look_up(self.embed.embedding[...], ids, self.config.dtype, "rows_BTD")
        return lay_out(lay_out(rows_BTD, "rows_BTD"), name)

    def _source_bias(self, S):
        """Return bias_1NSS, what the distances of the S tokens of a source add to their scores."""
        at_S = jnp.arange(S)
        apart_SS = at_S[None, :] - at_S[:, None]
        half = self.config.distance_buckets // 2  # for the tokens before, and those after
        bucket_SS = _bucket(half, self.config.max_distance, jnp.abs(apart_SS))
        bucket_SS = bucket_SS + half * (apart_SS > 0)
        return self.encoder_distance(bucket_SS).transpose(2, 0, 1)[None]

    def _target_bias(self, index, T, C):
        """Return bias_1NTC, of the scores of T tokens, from slot `index` on, for C slots."""
        back_TC = (index + jnp.arange(T))[:, None] - jnp.arange(C)[None, :]
        buckets, farthest = self.config.distance_buckets, self.config.max_distance
        bucket_TC = _bucket(buckets, farthest, jnp.maximum(back_TC, 0))
        return self.decoder_distance(bucket_TC).transpose(2, 0, 1)[None]


class EncoderLayer(nnx.Module):
    """Attention, then MLP, each on its normed input."""

    def __init__(self, config: T5Config, rngs: nnx.Rngs):
        self.attn_ln = _rms_norm(config, rngs)
        self.attn = Attention(config, rngs)
        self.mlp_ln = _rms_norm(config, rngs)
        self.mlp = MLP(config, rngs)

    def __call__(self, x_BSD, seen):
        h_BSD = lay_out(_norm(self.attn_ln, x_BSD), "h_BSD")
        x_BSD = lay_out(x_BSD + self.attn(h_BSD, self.attn.keys(h_BSD), **seen), "mid_BSD")
        h_BSD = lay_out(_norm(self.mlp_ln, x_BSD), "h_BSD")
        return lay_out(x_BSD + self.mlp(h_BSD), "x_BSD")


class DecoderLayer(nnx.Module):
    """Attention to the target, attention to the source, then MLP, each on its normed input.

    `remember(keys)` gives the keys and values to attend to, of which `seen` says more, and what
    the layer is to return beside its output. x_keys: those of the source.
    """

    def __init__(self, config: T5Config, rngs: nnx.Rngs):
        self.attn_ln = _rms_norm(config, rngs)
        self.attn = Attention(config, rngs)
        self.cross_ln = _rms_norm(config, rngs)
        self.cross = Attention(config, rngs)
        self.mlp_ln = _rms_norm(config, rngs)
        self.mlp = MLP(config, rngs)

    def __call__(self, y_BTD, remember, seen, x_keys, mask_BS):
        h_BTD = lay_out(_norm(self.attn_ln, y_BTD), "h_BTD")
        y_keys, extra = remember(self.attn.keys(h_BTD))
        y_BTD = lay_out(y_BTD + self.attn(h_BTD, y_keys, **seen), "mid_BTD")
        h_BTD = lay_out(_norm(self.cross_ln, y_BTD), "h_BTD")
        y_BTD = lay_out(y_BTD + self.cross(h_BTD, x_keys, mask_BT=mask_BS), "crossed_BTD")
        h_BTD = lay_out(_norm(self.mlp_ln, y_BTD), "h_BTD")
        return lay_out(y_BTD + self.mlp(h_BTD), "y_BTD"), extra


class Attention(nnx.Module):
    """Multi-head attention of h_BTD to the keys and values that `keys` makes of h_BSD."""

    def __init__(self, config: T5Config, rngs: nnx.Rngs):
        D, NH = config.embed_dim, config.num_heads * config.head_dim
        self.heads = (config.num_heads, config.head_dim)
        # Scores are not divided by the root of H: the initial queries are that much smaller.
        self.q = _linear(config, D, NH, rngs, std=(D * config.head_dim) ** -0.5)
        self.k = _linear(config, D, NH, rngs)
        self.v = _linear(config, D, NH, rngs)
        self.o = _linear(config, NH, D, rngs)

    def keys(self, h_BSD):
        return tuple(
            lay_out(project(h_BSD).reshape(h_BSD.shape[:2] + self.heads), "heads_BSNH")
            for project in (self.k, self.v)
        )

    def __call__(self, h_BTD, keys, **seen):
        q_BTNH = lay_out(self.q(h_BTD).reshape(h_BTD.shape[:2] + self.heads), "heads_BTNH")
        o_BTNH = attention(q_BTNH, *keys, scale=1.0, layout="heads_BTNH", **seen)
        return self.o(o_BTNH.reshape(*h_BTD.shape[:2], -1))


class MLP(nnx.Module):
    def __init__(self, config: T5Config, rngs: nnx.Rngs):
        self.gate = _linear(config, config.embed_dim, config.mlp_dim, rngs)
        self.up = _linear(config, config.embed_dim, config.mlp_dim, rngs)
        self.down = _linear(config, config.mlp_dim, config.embed_dim, rngs)

    def __call__(self, h_BTD):
        gate_BTF = lay_out(self.gate(h_BTD), "u_BTF")
        u_BTF = lay_out(self.up(h_BTD), "u_BTF")
        return self.down(lay_out(jax.nn.gelu(gate_BTF, approximate=True) * u_BTF, "a_BTF"))


def _stack(kind, num_layers, config, rngs):
    """Return one module of that kind, with the parameters of all layers, stacked along L."""
    create = nnx.vmap(lambda rngs: kind(config, rngs))
    return nnx.split_rngs(splits=num_layers)(create)(rngs)


def _linear(config, size_in, size_out, rngs, std=None):
    init = nnx.initializers.normal(std or size_in**-0.5)
    dtype = jnp.dtype(config.dtype)
    kwargs = {"use_bias": False, "dtype": dtype, "kernel_init": init}
    return nnx.Linear(size_in, size_out, rngs=rngs, **kwargs)


def _rms_norm(config, rngs):
    return nnx.RMSNorm(config.embed_dim, epsilon=config.norm_epsilon, rngs=rngs)


def _norm(ln, x_BSD):
    return ln(x_BSD).astype(x_BSD.dtype)


def _distance(config, rngs):
    """Return the biases of each head to scores, by the distance of tokens: (R, N), float32."""
    init = nnx.initializers.normal(config.embed_dim**-0.5)
    return nnx.Embed(config.distance_buckets, config.num_heads, embedding_init=init, rngs=rngs)


def _bucket(buckets, farthest, distance):
    """Return the bucket of each distance: half of them for one distance each, then ever wider ones.

    The table is made on the host, where the logarithm at a limit rounds as it does in PyTorch.
    """
    near = buckets // 2
    far = np.arange(near, farthest + 1, dtype=np.float32)
    far = np.log(far / near) / np.float32(math.log(farthest / near)) * (buckets - near)
    table = np.concatenate([np.arange(near), near + np.minimum(far.astype(int), near - 1)])
    return jnp.asarray(table)[jnp.minimum(distance, farthest)]
