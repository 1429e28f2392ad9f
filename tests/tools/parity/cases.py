"""What is compared: each recipe that has a peer, with the rows and the settings that both sides get.

It is read by Python of both environments, and imports nothing of either.
"""

import random
from dataclasses import dataclass, field
from typing import Any

import rows

STEPS = 40
DECODER = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
DECODER |= {"num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": False}
QWEN3 = DECODER | {"head_dim": 8}
GPT2 = {"n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 128}
GPT2 |= dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
BERT = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
BERT |= {
    "max_position_embeddings": 128,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
T5 = {"d_model": 32, "d_ff": 48, "d_kv": 8, "num_heads": 4, "num_layers": 2, "dropout_rate": 0.0}
BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
}
BART |= {
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "max_position_embeddings": 128,
    "dropout": 0.0,
}
VIT = {"image_size": 16, "patch_size": 4, "hidden_size": 32, "intermediate_size": 48}
VIT |= {"num_hidden_layers": 2, "num_attention_heads": 4}
CLASSES = {"id2label": {0: "bad", 1: "good", 2: "odd"}, "label2id": {"bad": 0, "good": 1, "odd": 2}}


@dataclass(frozen=True)
class Case:
    """A recipe beside its peer.

    recipe: of ours, with `create`, flags of redco-new, and `flags`, those of train.
    peer: what is said of it. by: the function of peers.py that trains it, with `options` of its own.
    architecture, sizes: the class of transformers whose random weights both begin with, and its configuration.
    rows: the function of rows.py that makes them, of which each step has all: the order of either does not matter.
    micro: micro-batches of ours, and of the peer where `peer` says so.
    scale: of the terms of a loss in which they cancel, and of which differences then are.
    """

    name: str
    recipe: str
    architecture: str
    sizes: dict[str, Any]
    peer: str
    by: str
    rows: str
    remark: str = ""
    create: dict[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    micro: int = 1
    scale: float = 0.0
    rate: float = 1e-3
    schedule: str = "linear"


PADDED = ("--packing", "off")
KL = "`use_bias_correction_kl=False`: TRL multiplies the divergence by the ratio. The embedding of padding as with mlm"
ZERO = (
    "The mean over answers is 0 where the policy has not moved: differences are of an advantage, 1"
)
NAMED = ("--labels", "bad", "good", "odd")
CASES = (
    Case(
        "lm",
        "lm",
        "LlamaForCausalLM",
        DECODER,
        "TRL SFTTrainer, packing, padding-free",
        "sft",
        "texts",
        options={"packing": True},
        schedule="cosine",
    ),
    Case(
        "lm, 4 micro-batches",
        "lm",
        "Qwen3ForCausalLM",
        QWEN3,
        "TRL SFTTrainer, packing, accumulation of 4",
        "sft",
        "texts",
        options={"packing": True},
        micro=4,
    ),
    Case(
        "lm, padded",
        "lm",
        "GPT2LMHeadModel",
        GPT2,
        "Trainer, accumulation of 4",
        "causal",
        "short_texts",
        "First labels are -100: Trainer counts those of gpt2, which nothing predicts",
        flags=PADDED,
        micro=4,
        schedule="cosine",
    ),
    Case(
        "sft, chats",
        "sft",
        "LlamaForCausalLM",
        DECODER,
        "TRL SFTTrainer, assistant_only_loss, packing",
        "sft",
        "chats",
        options={"packing": True, "assistant_only_loss": True},
    ),
    Case(
        "sft, completions",
        "sft",
        "LlamaForCausalLM",
        DECODER,
        "TRL SFTTrainer, accumulation of 2",
        "sft",
        "completions",
        flags=PADDED,
        micro=2,
    ),
    Case(
        "sft, LoRA",
        "sft",
        "LlamaForCausalLM",
        DECODER,
        "TRL SFTTrainer with PEFT",
        "sft",
        "completions",
        create={"lora": "rank=8,alpha=16"},
        flags=PADDED,
        options={"adapter": {"r": 8, "lora_alpha": 16}},
    ),
    Case(
        "sft, rsLoRA",
        "sft",
        "LlamaForCausalLM",
        DECODER,
        "TRL SFTTrainer with PEFT, use_rslora",
        "sft",
        "completions",
        create={"lora": "rank=8,alpha=16,rslora=true"},
        flags=PADDED,
        options={"adapter": {"r": 8, "lora_alpha": 16, "use_rslora": True}},
    ),
    Case(
        "dpo",
        "dpo",
        "LlamaForCausalLM",
        DECODER,
        "TRL DPOTrainer, sigmoid",
        "dpo",
        "pairs",
        rate=1e-4,
    ),
    Case(
        "preference, ipo",
        "preference",
        "LlamaForCausalLM",
        DECODER,
        "TRL DPOTrainer, ipo",
        "ipo",
        "pairs",
        create={"loss": "ipo"},
        rate=1e-4,
    ),
    Case(
        "preference, kto",
        "preference",
        "LlamaForCausalLM",
        DECODER,
        "TRL KTOTrainer",
        "kto",
        "opinions",
        "All rows ask the same, so that the order of a batch does not matter",
        create={"loss": "kto"},
        rate=1e-4,
    ),
    Case(
        "preference, orpo",
        "preference",
        "LlamaForCausalLM",
        DECODER,
        "TRL ORPOTrainer",
        "orpo",
        "pairs",
        create={"loss": "orpo"},
        rate=1e-4,
    ),
    Case(
        "preference, simpo",
        "preference",
        "LlamaForCausalLM",
        DECODER,
        "TRL CPOTrainer, simpo",
        "simpo",
        "pairs",
        create={"loss": "simpo"},
        rate=1e-4,
    ),
    Case(
        "reward",
        "reward",
        "Qwen3ForSequenceClassification",
        QWEN3 | {"num_labels": 1, "pad_token_id": 0},
        "TRL RewardTrainer",
        "reward",
        "pairs",
        rate=1e-4,
    ),
    Case(
        "classify-text",
        "classify-text",
        "BertForSequenceClassification",
        BERT | CLASSES,
        "Trainer",
        "classify",
        "labelled",
        flags=NAMED,
    ),
    Case(
        "classify-tokens",
        "classify-tokens",
        "BertForTokenClassification",
        BERT | CLASSES,
        "Trainer, the whole batch, as of run_ner.py",
        "tag",
        "tagged",
        "Trainer's accumulation of n has n times the loss and gradients",
        flags=NAMED,
        micro=2,
    ),
    Case(
        "seq2seq, t5",
        "seq2seq",
        "T5ForConditionalGeneration",
        T5 | {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1},
        "Trainer, the whole batch",
        "seq2seq",
        "translations",
        "Trainer's accumulation of n has n times the loss and gradients",
        micro=2,
        rate=3e-4,
    ),
    Case(
        "seq2seq, bart",
        "seq2seq",
        "BartForConditionalGeneration",
        BART
        | {"decoder_start_token_id": 1, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 4}
        | {"forced_eos_token_id": 1},
        "Trainer",
        "seq2seq",
        "translations",
    ),
    Case(
        "mlm",
        "mlm",
        "BertForMaskedLM",
        BERT,
        "Trainer, with our masks",
        "masked",
        "short_texts",
        "Which tokens are hidden is drawn otherwise, in both as BERT has it. The embedding of padding learns in the peer too, where it is drawn as a word",
        flags=PADDED,
    ),
    *(
        Case(
            "grpo" if kind == "dapo" else f"grpo, {kind}",
            "grpo",
            "LlamaForCausalLM",
            DECODER,
            f"TRL GRPOTrainer, {kind}, its loss on our answers",
            "grpo",
            "sums",
            {"dapo": KL, "grpo": ZERO, "gspo": ZERO}.get(kind, ""),
            flags=("--kl", "0.04", "--group", "4", "--new-tokens", "16", "--round-steps", "2")
            + ("--guided", "false", "--loss", kind),
            options={"kind": kind},
            scale=1.0 if kind in ("grpo", "gspo") else 0.0,
            rate=1e-4,
        )
        for kind in ("dapo", "grpo", "bnpo", "dr-grpo", "gspo")
    ),
    Case(
        "image",
        "image",
        "ViTForImageClassification",
        VIT | CLASSES,
        "Trainer, ViTImageProcessorPil",
        "image",
        "pictures",
        "The class token and the positions decay in Trainer, and not with us, as in timm and big_vision: here with neither",
        create={"features": "tables"},
        flags=("--class-names", "bad", "good", "odd"),
        rate=3e-4,
    ),
    Case(
        "distillation",
        "distillation",
        "LlamaForCausalLM",
        DECODER,
        "torch: T^2 KL(teacher, student), mean over tokens",
        "distil",
        "short_texts",
        flags=(*PADDED, "--num-layers", "2", "--teacher-share", "0.7", "--temperature", "2"),
        options={"share": 0.7, "temperature": 2.0},
    ),
)


def rows_of(case: Case) -> list[dict[str, Any]]:
    """Return the rows of a case, the same for ever."""
    return list(getattr(rows, case.rows)(random.Random(case.rows)))
