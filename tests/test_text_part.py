"""A checkpoint that reads more than texts: the part that writes them becomes a project, and goes out as what transformers calls it apart."""

import json

import numpy as np
import pytest
from redco_runtime.base.messages import UserError
from redco_runtime.base.hf_files import open_checkpoint
from safetensors.numpy import save_file

from generated import run
from redco_new.models.find import find_model
from redco_new.models.hf_config import names_within, text_keys

TEXT = {
    "model_type": "llama", "vocab_size": 64, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip
WHOLE = {
    "model_type": "llava",
    "architectures": ["LlavaForConditionalGeneration"],
    "text_config": TEXT,
    "vision_config": {"model_type": "clip_vision_model"},
    "eos_token_id": 5,
    "tie_word_embeddings": False,
}
NAMES = ("model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight", "lm_head.weight")
# How checkpoints have been written: by transformers before 4.52, since then, and by those of one class.
LAYOUTS = {
    "before": lambda name: f"language_model.{name}",
    "since": lambda name: name.replace("model.", "model.language_model."),
    "idefics": lambda name: name.replace("model.", "model.text_model."),
}


def write(
    folder, config=WHOLE, names=(*NAMES, "model.vision_tower.vision_model.post_layernorm.weight")
):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(
        {name: np.full(2, i, "float32") for i, name in enumerate(names)},
        folder / "model.safetensors",
    )
    return folder


def test_the_model_is_the_part_that_writes_texts(tmp_path):
    model = find_model(str(write(tmp_path / "c")), "", 1)
    assert model.family.name == "llama" and model.full.sizes["embed_dim"] == 16
    assert model.hf["architectures"] == ["LlamaForCausalLM"] and model.hf["eos_token_id"] == 5
    assert model.source["model_type"] == "llava"  # a project records what its checkpoint has
    assert model.within == {"model.": "model.language_model."}


@pytest.mark.parametrize(
    "changes",
    [
        {"text_config": None},
        {"text_config": {"model_type": "bart"}},  # whose decoder is half of a model
        {"text_config": {"model_type": "qwen2_vl_text"}},  # which transformers has no class of
        {"model_type": "cohere2_vision"},  # whose logits are not scaled as the part's are
        {"architectures": ["LlamaForCausalLM"]},
    ],
)
def test_what_has_no_such_part_is_the_whole(changes):
    assert text_keys(WHOLE | changes) == WHOLE | changes and names_within(WHOLE | changes) == {}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tensors_are_called_as_the_part_alone_calls_them(tmp_path, layout):
    names = [LAYOUTS[layout](name) for name in NAMES]
    folder = write(tmp_path / "c", names=[*names, "model.vision_tower.vision_model.norm.weight"])
    stored = open_checkpoint(folder, TEXT)
    assert [*stored.shapes] == sorted(NAMES)
    for i, name in enumerate(NAMES):
        assert stored.read(name, ()).tolist() == [i, i]


def test_a_part_of_other_sizes_is_named(tmp_path):
    with pytest.raises(UserError, match="hidden_size: there 16, here 32"):
        open_checkpoint(write(tmp_path / "c"), TEXT | {"hidden_size": 32})


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing")  # peft asks transformers for it
@pytest.mark.slow  # a checkpoint is made, a project compiled, and its adapter compared by PEFT
def test_weights_go_in_and_an_adapter_goes_onto_the_whole(tmp_path):
    import peft
    import torch
    import transformers

    from pytorch.decoder_checkpoint import SIZES, write_tokenizer

    cls, folder = transformers.Gemma3ForConditionalGeneration, tmp_path / "checkpoint"
    vision = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    vision |= {"image_size": 28, "patch_size": 14}
    sizes = SIZES | {"head_dim": 16, "query_pre_attn_scalar": 16, "num_hidden_layers": 2}
    config = cls.config_class(text_config=sizes, vision_config=vision, mm_tokens_per_image=4)
    torch.manual_seed(0)
    cls(config).save_pretrained(folder)
    write_tokenizer(folder)
    code, out, err = run("redco-new p --model ./checkpoint --shards 2 --lora rank=4", tmp_path)
    assert code == 0 and "the part that writes them is trained alone" in out, out + err
    train = "python -m p.train --virtual-devices 2 --dtype float32 --sequence-length 64 --learning-rate 0.1"
    for command in (
        f"{train} --steps 2 --workdir runs/a",
        "python -m p.export --workdir runs/a --out adapter",
        "python -m p.export --workdir runs/a --out merged --merge",
        f"{train} --steps 0 --init adapter --workdir runs/b",
    ):
        code, out, err = run(command, tmp_path / "p")
        assert code == 0, out + err
    batch = {"input_ids": torch.arange(5, 37).reshape(2, 16)}
    batch["attention_mask"] = torch.ones_like(batch["input_ids"])
    whole = cls.from_pretrained(folder, dtype=torch.float32).eval()
    alone = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "p/merged", dtype=torch.float32
    )
    assert type(alone).__name__ == "Gemma3ForCausalLM"
    with torch.no_grad():
        before, after = whole(**batch).logits, alone.eval()(**batch).logits
        adapted = (
            peft.PeftModel.from_pretrained(whole, tmp_path / "p/adapter").eval()(**batch).logits
        )
    assert (before - after).abs().max() > 0.1 and (adapted - after).abs().max() < 1e-4
