"""A tiny checkpoint of a class of transformers, with a tokenizer; and two checkpoints compared."""

import pydoc_data.topics

import torch
import transformers
from tokenizers import ByteLevelBPETokenizer

SIZES = {
    "vocab_size": 384, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
}  # fmt: skip
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>"}


def write_checkpoint(name, folder, **further):
    """Write a checkpoint of a class with SIZES, drawn at random."""
    torch.manual_seed(0)
    cls = getattr(transformers, name)
    fields = vars(cls.config_class())
    known = {key: value for key, value in SIZES.items() if key in fields}
    cls(cls.config_class(**known | further)).save_pretrained(folder)
    write_tokenizer(folder)


def write_tokenizer(folder):
    """Write a tokenizer of SIZES's words."""
    words = ByteLevelBPETokenizer()
    texts = [*pydoc_data.topics.topics.values()][:40]
    words.train_from_iterator(texts, vocab_size=384, special_tokens=[*SPECIAL.values()])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words._tokenizer, **SPECIAL)
    tokenizer.save_pretrained(folder)


def compare_checkpoints(one, other):
    """(how far the logits of two checkpoints are from each other, the class of the second)."""
    config = transformers.AutoConfig.from_pretrained(one)
    cls, random = getattr(transformers, config.architectures[0]), torch.Generator().manual_seed(0)
    models = [cls.from_pretrained(x).eval() for x in (one, other)]
    batch = {"input_ids": torch.randint(5, 300, (2, 40), generator=random)}
    if cls.main_input_name == "pixel_values":
        side = config.image_size
        batch = {"pixel_values": torch.randn((2, 3, side, side), generator=random)}
    if config.is_encoder_decoder:
        batch["decoder_input_ids"] = batch["input_ids"][:, :9]
    with torch.no_grad():
        logits = [model(**batch).logits for model in models]
    return (logits[0] - logits[1]).abs().max().item(), type(models[1]).__name__
