# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""Qwen2MoeForCausalLM of transformers, printed from PyTorch 2.13.0: names of parts and variables are its own."""

import dataclasses

import jax
import jax.numpy as jnp
from flax import nnx

from my_project.runtime.nn.attend import ToCache, ToTexts, empty_cache
from my_project.runtime.nn.attention import text_positions
from my_project.runtime.nn.experts.chosen import chosen_experts


@dataclasses.dataclass(frozen=True)
class Qwen2MoeForCausalLMConfig:
    """Sizes of the model; the defaults are those that it was asked for with."""

    vocab_size: int = 512
    hidden_size: int = 64
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    max_position_embeddings: int = 256
    initializer_range: float = 0.02
    rms_norm_eps: float = 1e-06
    moe_intermediate_size: int = 48
    shared_expert_intermediate_size: int = 96
    num_experts_per_tok: int = 2
    num_experts: int = 8
    num_hidden_layers: int = 3
    dtype: str = "bfloat16"
    remat: str = "fit"


class Qwen2MoeForCausalLM(nnx.Module):
    """Qwen2MoeForCausalLM, as its arguments are in Qwen2MoeForCausalLMConfig."""

    def __init__(self, config: Qwen2MoeForCausalLMConfig, *, rngs: nnx.Rngs):
        self.config = config
        self.model = Qwen2MoeModel(config, rngs=rngs)
        self.lm_head = _linear(config, config.hidden_size, config.vocab_size, rngs)

    def __call__(self, input_ids_BS: jax.Array) -> jax.Array:
        """Return logits_BSV of the token after each position."""
        return self.logits(self.hidden(input_ids_BS))

    def hidden(self, input_ids_BS: jax.Array, segments_BS: jax.Array | None = None) -> jax.Array:
        """Return x_BSD, causal hidden states that `logits` reads.

        segments_BS: which of the texts packed in its row a token is of. None sees another, and the
        positions of each are from 0 on. Without it a row is one text.
        """
        S = input_ids_BS.shape[1]
        if S > self.config.max_position_embeddings:
            limit = f"max_position_embeddings {self.config.max_position_embeddings}"
            raise ValueError(f"{S} tokens exceed {limit}: shorten them or raise it.")
        positions_BS = text_positions(S, segments_BS)
        return self._run(input_ids_BS, positions_BS, ToTexts(segments_BS))

    def logits(self, x_BSD: jax.Array) -> jax.Array:
        """Return logits_BSV of hidden states."""
        return self.lm_head(x_BSD)

    def init_cache(self, batch: int, length: int) -> dict[str, jax.Array]:
        """Return an empty cache of `length` slots: keys "k", values "v", each (L, B, T, heads, size)."""
        c = self.config
        return empty_cache(
            c.num_hidden_layers,
            batch,
            length,
            (c.num_key_value_heads, c.hidden_size // c.num_attention_heads),
            (c.num_key_value_heads, c.hidden_size // c.num_attention_heads),
            c.dtype,
        )

    def decode(self, input_ids_BS, positions_BS, mask_BT, cache, index):
        """Return (x_BSD, cache) for S new tokens, which take the slots `index` to `index + S - 1`.

        A token attends to the slots up to its own where mask_BT is true. Its place in the text is
        in positions_BS, which differs from its slot in a row that is padded on the left.
        """
        attend = ToCache(cache, index, mask_BT)
        x_BSD = self._run(input_ids_BS, positions_BS, attend)
        return x_BSD, attend.cache

    def _run(self, input_ids_BS, positions_BS, attend):
        return self.model(input_ids_BS, positions_BS, attend)


class Qwen2MoeModel(nnx.Module):
    """modeling_qwen2_moe.py:429."""

    def __init__(self, config: Qwen2MoeForCausalLMConfig, *, rngs: nnx.Rngs):
        self.config = config
        self.dtype = config.dtype
        self.embed_tokens = nnx.Embed(
            config.vocab_size,
            config.hidden_size,
            embedding_init=nnx.initializers.normal(config.initializer_range),
            rngs=rngs,
        )
        create = nnx.vmap(lambda rngs: Qwen2MoeDecoderLayer(config, rngs=rngs))
        self.layers = nnx.split_rngs(splits=config.num_hidden_layers)(create)(rngs)
        self.norm = Qwen2MoeRMSNorm(config.hidden_size, config.rms_norm_eps, dtype=config.dtype)
        self.rotary_emb = Qwen2MoeRotaryEmbedding(config)

    def __call__(self, input_ids, position_ids, attend):
        inputs_embeds = self.embed_tokens(input_ids).astype(self.dtype)
        cos, sin = self.rotary_emb(position_ids)

        @attend.over_layers(self.config.remat, experts=True)
        def run(layer, hidden_states, attend):
            return layer(hidden_states, cos, sin, attend)

        hidden_states = run(self.layers, inputs_embeds)
        return self.norm(hidden_states)


class Qwen2MoeDecoderLayer(nnx.Module):
    """modeling_qwen2_moe.py:354."""

    def __init__(self, config: Qwen2MoeForCausalLMConfig, *, rngs: nnx.Rngs):
        self.self_attn = Qwen2MoeAttention(config, rngs=rngs)
        self.mlp = Qwen2MoeSparseMoeBlock(config, rngs=rngs)
        self.input_layernorm = Qwen2MoeRMSNorm(
            config.hidden_size, config.rms_norm_eps, dtype=config.dtype
        )
        self.post_attention_layernorm = Qwen2MoeRMSNorm(
            config.hidden_size, config.rms_norm_eps, dtype=config.dtype
        )

    def __call__(self, hidden_states, cos, sin, attend):
        hidden_states_2 = self.input_layernorm(hidden_states)
        hidden_states_2 = self.self_attn(hidden_states_2, cos, sin, attend)
        hidden_states = hidden_states + hidden_states_2
        hidden_states_2 = self.post_attention_layernorm(hidden_states)
        hidden_states_2 = self.mlp(hidden_states_2)
        return hidden_states + hidden_states_2


class Qwen2MoeSparseMoeBlock(nnx.Module):
    """modeling_qwen2_moe.py:332."""

    def __init__(self, config: Qwen2MoeForCausalLMConfig, *, rngs: nnx.Rngs):
        self.gate = Qwen2MoeTopKRouter(config, rngs=rngs)
        self.experts = Qwen2MoeExperts(config, rngs=rngs)
        self.shared_expert = Qwen2MoeMLP(config, rngs=rngs)
        self.shared_expert_gate = _linear(config, config.hidden_size, 1, rngs)

    def __call__(self, hidden_states):
        B, S, D = hidden_states.shape
        hidden_states_reshaped = hidden_states.reshape(-1, D)
        shared_expert_output = self.shared_expert(hidden_states_reshaped)
        router_indices, router_top_value = self.gate(hidden_states_reshaped)
        expert_output = self.experts(hidden_states_reshaped, router_indices, router_top_value)
        shared_expert_output = (
            jax.nn.sigmoid(self.shared_expert_gate(hidden_states_reshaped)) * shared_expert_output
        )
        expert_output = expert_output + shared_expert_output
        return expert_output.reshape(B, S, D)


class Qwen2MoeExperts(nnx.Module):
    """modeling_qwen2_moe.py:271."""

    def __init__(self, config: Qwen2MoeForCausalLMConfig, *, rngs: nnx.Rngs):
        self.dtype = config.dtype
        self.gate_proj = nnx.Param(
            nnx.initializers.normal(config.initializer_range)(
                rngs.params(),
                (config.num_experts, config.hidden_size, config.moe_intermediate_size),
            )
        )
        self.up_proj = nnx.Param(
            nnx.initializers.normal(config.initializer_range)(
                rngs.params(),
                (config.num_experts, config.hidden_size, config.moe_intermediate_size),
            )
        )
        self.down_proj = nnx.Param(
            nnx.initializers.normal(config.initializer_range)(
                rngs.params(),
                (config.num_experts, config.moe_intermediate_size, config.hidden_size),
            )
        )

    def __call__(self, hidden_states, router_indices, router_top_value):
        return chosen_experts(
            hidden_states,
            router_indices,
            router_top_value,
            self.gate_proj[...].astype(self.dtype),
            self.up_proj[...].astype(self.dtype),
            self.down_proj[...].astype(self.dtype),
        )


class Qwen2MoeTopKRouter(nnx.Module):
    """modeling_qwen2_moe.py:311."""

    def __init__(self, config: Qwen2MoeForCausalLMConfig, *, rngs: nnx.Rngs):
        self.dtype = config.dtype
        self.top_k = config.num_experts_per_tok
        self.hidden_dim = config.hidden_size
        self.weight = nnx.Param(
            nnx.initializers.normal(config.initializer_range)(
                rngs.params(), (config.num_experts, config.hidden_size)
            )
        )

    def __call__(self, hidden_states):
        hidden_states = hidden_states.reshape(-1, self.hidden_dim)
        router_logits = hidden_states @ self.weight[...].astype(self.dtype).T
        router_probs = jax.nn.softmax(router_logits.astype(jnp.float32), axis=-1)
        router_top_value, router_indices = jax.lax.top_k(router_probs, self.top_k)
        router_top_value = router_top_value.astype(self.dtype)
        return (router_indices, router_top_value)


class Qwen2MoeMLP(nnx.Module):
    """modeling_qwen2_moe.py:122."""

    def __init__(self, config: Qwen2MoeForCausalLMConfig, *, rngs: nnx.Rngs):
        self.gate_proj = _linear(
            config, config.hidden_size, config.shared_expert_intermediate_size, rngs
        )
        self.up_proj = _linear(
            config, config.hidden_size, config.shared_expert_intermediate_size, rngs
        )
        self.down_proj = _linear(
            config, config.shared_expert_intermediate_size, config.hidden_size, rngs
        )

    def __call__(self, x):
        return self.down_proj(jax.nn.silu(self.gate_proj(x)) * self.up_proj(x))


class Qwen2MoeAttention(nnx.Module):
    """modeling_qwen2_moe.py:208."""

    def __init__(self, config: Qwen2MoeForCausalLMConfig, *, rngs: nnx.Rngs):
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.q_proj = nnx.Linear(
            config.hidden_size,
            config.hidden_size // config.num_attention_heads * config.num_attention_heads,
            dtype=config.dtype,
            kernel_init=nnx.initializers.normal(config.initializer_range),
            rngs=rngs,
        )
        self.k_proj = nnx.Linear(
            config.hidden_size,
            config.hidden_size // config.num_attention_heads * config.num_key_value_heads,
            dtype=config.dtype,
            kernel_init=nnx.initializers.normal(config.initializer_range),
            rngs=rngs,
        )
        self.v_proj = nnx.Linear(
            config.hidden_size,
            config.hidden_size // config.num_attention_heads * config.num_key_value_heads,
            dtype=config.dtype,
            kernel_init=nnx.initializers.normal(config.initializer_range),
            rngs=rngs,
        )
        self.o_proj = _linear(
            config,
            config.hidden_size // config.num_attention_heads * config.num_attention_heads,
            config.hidden_size,
            rngs,
        )

    def __call__(self, hidden_states, cos, sin, attend):
        B, S, _ = hidden_states.shape
        query_states = self.q_proj(hidden_states).reshape(B, S, -1, self.head_dim).swapaxes(1, 2)
        key_states = self.k_proj(hidden_states).reshape(B, S, -1, self.head_dim).swapaxes(1, 2)
        value_states = self.v_proj(hidden_states).reshape(B, S, -1, self.head_dim)
        cos = cos[:, None]
        sin = sin[:, None]
        joined = jnp.concatenate(
            (-query_states[..., self.head_dim // 2 :], query_states[..., : self.head_dim // 2]),
            axis=-1,
        )
        query_states = query_states * cos + joined * sin
        joined = jnp.concatenate(
            (-key_states[..., self.head_dim // 2 :], key_states[..., : self.head_dim // 2]), axis=-1
        )
        key_states = key_states * cos + joined * sin
        attn_output = attend(query_states.swapaxes(1, 2), key_states.swapaxes(1, 2), value_states)
        attn_output = attn_output.reshape(B, S, -1)
        return self.o_proj(attn_output)


class Qwen2MoeRMSNorm(nnx.Module):
    """modeling_qwen2_moe.py:55."""

    def __init__(self, hidden_size, eps, dtype):
        self.dtype = dtype
        self.variance_epsilon = eps
        self.weight = nnx.Param(jnp.ones((hidden_size,)))

    def __call__(self, hidden_states):
        hidden_states = hidden_states.astype(jnp.float32)
        variance = jnp.mean(hidden_states**2, axis=-1, keepdims=True)
        hidden_states = hidden_states * jax.lax.rsqrt(variance + self.variance_epsilon)
        return self.weight[...].astype(self.dtype) * hidden_states.astype(self.dtype)


class Qwen2MoeRotaryEmbedding(nnx.Module):
    """modeling_qwen2_moe.py:76."""

    def __init__(self, config: Qwen2MoeForCausalLMConfig):
        self.dtype = config.dtype
        div = jnp.arange(
            0, config.hidden_size // config.num_attention_heads, 2, dtype=jnp.float32
        ) / (config.hidden_size // config.num_attention_heads)
        self.inv_freq = nnx.Variable(1 / 10000.0**div)

    def __call__(self, position_ids):
        freqs = position_ids[:, :, None].astype(jnp.float32) * self.inv_freq[...]
        emb = jnp.concatenate((freqs, freqs), axis=-1)
        cos = jnp.cos(emb)
        sin = jnp.sin(emb)
        return (cos.astype(self.dtype), sin.astype(self.dtype))


def _linear(config, in_features, out_features, rngs):
    return nnx.Linear(
        in_features,
        out_features,
        use_bias=False,
        dtype=config.dtype,
        kernel_init=nnx.initializers.normal(config.initializer_range),
        rngs=rngs,
    )
