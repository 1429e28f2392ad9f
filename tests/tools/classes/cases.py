"""The classes: where each comes from, and what it learns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

EXAMPLES = Path(__file__).with_name("examples")


@dataclass(frozen=True)
class Case:
    """A class that was not written for this project.

    name: of its file in examples/, which has `example`, small enough to train, and `large`, to compile
    package: on the registry
    cls: as --model takes it
    recipe: as --recipe takes it
    reason: why it sends more than the plan by hand, "" if it does not
    """

    name: str
    package: str
    cls: str
    recipe: str
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


HUGGING_FACE = "transformers.models.{0}.modeling_flax_{0}:Flax{1}"

CASES = (
    Case("gpt2", "transformers", HUGGING_FACE.format("gpt2", "GPT2LMHeadModule"), "lm"),
    Case("llama", "transformers", HUGGING_FACE.format("llama", "LlamaForCausalLMModule"), "lm"),
    Case(
        "bart",
        "transformers",
        HUGGING_FACE.format("bart", "BartForConditionalGenerationModule"),
        "seq2seq",
    ),
    Case(
        "bert",
        "transformers",
        HUGGING_FACE.format("bert", "BertForSequenceClassificationModule"),
        "classify",
        "24 kB more: the pooler is split too, which holds 26 % and not 27 %",
    ),
    Case(
        "vit",
        "transformers",
        HUGGING_FACE.format("vit", "ViTForImageClassificationModule"),
        "classify",
        "0.1 MB more: the classifier is split too, which holds 28 % and not 31 %",
    ),
    Case(
        "unet",
        "diffusers",
        "diffusers.models.unets.unet_2d_condition_flax:FlaxUNet2DConditionModel",
        "regress",
    ),
    Case(
        "vae",
        "diffusers",
        "diffusers.models.vae_flax:FlaxAutoencoderKL",
        "regress",
        "splits the convolutions that upsample, whose work the plan by hand repeats on each device",
    ),
    Case("qwen3", "google-tunix", "tunix.models.qwen3.model:Qwen3", "lm"),
    Case("qwen3_moe", "google-tunix", "tunix.models.qwen3.model:Qwen3", "lm"),
    Case("gemma", "google-tunix", "tunix.models.gemma.model:Gemma", "lm"),
    Case("griffin", "recurrentgemma", "recurrentgemma.jax.griffin:Griffin", "lm"),
    Case(
        "dit",
        "flaxdiff",
        "flaxdiff.models.simple_dit:SimpleDiT",
        "regress",
        "4 % more, for a quarter of the parameters: by hand the modulation is whole, and 70 % are held",
    ),
    Case(
        "unet_simple",
        "flaxdiff",
        "flaxdiff.models.simple_unet:Unet",
        "regress",
        "splits the convolutions between the levels, whose work the plan by hand repeats on each device",
    ),
    Case(
        "dit_nnx",
        "avitai-artifex",
        "artifex.generative_models.models.backbones.dit:DiffusionTransformer",
        "regress",
        "7 % more, for a quarter of the parameters: by hand the modulation is whole, and 54 % are held",
    ),
    Case("mamba2", "mamba2-jax", "mamba2_jax:Mamba2ForCausalLM", "lm"),
    Case("nano", "nano-moe-jax", "nano_moe.model:NanoMoE", "lm"),
    Case("dantinox", "dantinox", "dantinox.core.model:Transformer", "lm"),
    Case("s5", "long-range-models", f"{EXAMPLES}/s5.py:Wrapped", "lm"),
    Case("critic", "sbx-rl", f"{EXAMPLES}/critic.py:Wrapped", "regress"),
    Case("resnet", "flaxmodels", "flaxmodels.resnet.resnet:ResNet", "classify"),
    Case(
        "vit_fsdp",
        "vitax",
        "vitax.models.vit:VisionTransformer",
        "classify",
        "0.1 MB more: the classifier is split too",
    ),
)
