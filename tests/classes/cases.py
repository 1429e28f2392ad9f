"""The classes: where each comes from, what it learns, and how an expert would split it by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from compiled.hand import dims

EXAMPLES = Path(__file__).with_name("examples")


@dataclass(frozen=True)
class Case:
    """A class that was not written for this project.

    name: of its file in examples/, which has `example`, small enough to train, and `large`, to compile
    package: on the registry
    cls: as --model takes it
    recipe: as --recipe takes it
    hand: end of a parameter's path -> the dim that tensor parallelism splits by hand
    reason: why it does not hold what it should, "" if it does
    """

    name: str
    package: str
    cls: str
    recipe: str
    hand: dict[str, int] = field(default_factory=dict)
    reason: str = ""

    @property
    def file(self) -> Path:
        """Where `example` is."""
        return EXAMPLES / f"{self.name}.py"

    @property
    def lines(self) -> int:
        """How many lines its user writes: the file without `large`, blank lines and its docstring."""
        written = self.file.read_text().split("\ndef large")[0]
        return sum(bool(line.strip()) for line in written.splitlines()) - 1


# Kernels of Flax are (in, out): the second dim is that of columns. Those of attention in Flax's own
# MultiHeadAttention are (D, N, H) for q, k and v, (N, H, D) for the output.
ATTENTION = dims(
    second="query/kernel key/kernel value/kernel",
    first="query/bias key/bias value/bias out/kernel",
)
BART = dims(
    first="shared/embedding out_proj/kernel fc2/kernel q_proj/bias k_proj/bias v_proj/bias fc1/bias",
    second="q_proj/kernel k_proj/kernel v_proj/kernel fc1/kernel",
)
BERT = dims(
    first="word_embeddings/embedding attention/output/dense/kernel output/dense/kernel "
    "query/bias key/bias value/bias intermediate/dense/bias",
    second="query/kernel key/kernel value/kernel intermediate/dense/kernel",
)
GEMMA = dims(
    first="input_embedding q_einsum/w attn_vec_einsum/w down_proj/kernel",
    second="gate_proj/kernel up_proj/kernel",
)
GPT2 = dims(
    first="wte/embedding attn/c_proj/kernel c_fc/bias mlp/c_proj/kernel c_attn/bias",
    second="c_attn/kernel c_fc/kernel",
)
LLAMA = dims(
    first="embed_tokens/embedding o_proj/kernel down_proj/kernel",
    second="q_proj/kernel k_proj/kernel v_proj/kernel gate_proj/kernel up_proj/kernel lm_head/kernel",
)
QWEN3 = dims(
    first="input_embedding o_proj/w down_proj/kernel",
    second="q_proj/w k_proj/w v_proj/w gate_proj/kernel up_proj/kernel lm_head/w",
)
UNET = dims(
    first="to_out_0/kernel net_2/kernel",
    second="to_q/kernel to_k/kernel to_v/kernel net_0/proj/kernel",
)

CASES = (
    Case(
        "gpt2",
        "transformers",
        "transformers.models.gpt2.modeling_flax_gpt2:FlaxGPT2LMHeadModule",
        "lm",
        GPT2,
    ),
    Case(
        "bart",
        "transformers",
        "transformers.models.bart.modeling_flax_bart:FlaxBartForConditionalGenerationModule",
        "seq2seq",
        BART,
    ),
    Case(
        "bert",
        "transformers",
        "transformers.models.bert.modeling_flax_bert:FlaxBertForSequenceClassificationModule",
        "classify",
        BERT,
    ),
    Case(
        "llama",
        "transformers",
        "transformers.models.llama.modeling_flax_llama:FlaxLlamaForCausalLMModule",
        "lm",
        LLAMA,
    ),
    Case(
        "vit",
        "transformers",
        "transformers.models.vit.modeling_flax_vit:FlaxViTForImageClassificationModule",
        "classify",
        BERT,
    ),
    Case(
        "unet",
        "diffusers",
        "diffusers.models.unets.unet_2d_condition_flax:FlaxUNet2DConditionModel",
        "regress",
        UNET,
    ),
    Case("vae", "diffusers", "diffusers.models.vae_flax:FlaxAutoencoderKL", "regress"),
    Case("qwen3", "google-tunix", "tunix.models.qwen3.model:Qwen3", "lm", QWEN3),
    Case("qwen3_moe", "google-tunix", "tunix.models.qwen3.model:Qwen3", "lm", QWEN3),
    Case("gemma", "google-tunix", "tunix.models.gemma.model:Gemma", "lm", GEMMA),
    Case("griffin", "recurrentgemma", "recurrentgemma.jax.griffin:Griffin", "lm"),
    Case("dit", "flaxdiff", "flaxdiff.models.simple_dit:SimpleDiT", "regress"),
    Case("unet_simple", "flaxdiff", "flaxdiff.models.simple_unet:Unet", "regress"),
    Case(
        "dit_nnx",
        "avitai-artifex",
        "artifex.generative_models.models.backbones.dit:DiffusionTransformer",
        "regress",
    ),
    Case("mamba2", "mamba2-jax", "mamba2_jax:Mamba2ForCausalLM", "lm"),
    Case("nano", "nano-moe-jax", "nano_moe.model:NanoMoE", "lm"),
    Case("dantinox", "dantinox", "dantinox.core.model:Transformer", "lm"),
    Case("s5", "long-range-models", "long_range_models:SequenceModel", "lm"),
    Case("critic", "sbx-rl", "sbx.common.policies:SimbaVectorCritic", "regress"),
    Case("resnet", "flaxmodels", "flaxmodels.resnet.resnet:ResNet", "classify"),
    Case("vit_fsdp", "vitax", "vitax.models.vit:VisionTransformer", "classify"),
)
