"""Checkpoints of classes of transformers that write no texts, and are no family, become projects of the recipes of what they are for."""

import pytest
from pytorch.decoder_checkpoint import compare_checkpoints, write_checkpoint

from generated import run

DEVICES = "--virtual-devices 4"
IMAGES = {"image_size": 32, "patch_size": 8, "num_hidden_layers": 2}
PAIRS = dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4)
PAIRS |= dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 96)
PAIRS |= dict.fromkeys(
    ("encoder_layers", "decoder_layers", "pad_token_id", "decoder_start_token_id"), 2
)
PAIRS |= {"d_model": 64, "eos_token_id": 1, "forced_eos_token_id": 1}
# class: (further sizes of its config, its recipe, a line of model.py)
CLASSES = {
    "RobertaForMaskedLM": (
        {"pad_token_id": 2},  # that of the tokenizer, after which positions begin
        "mlm",
        "def hidden(self, input_ids_BS: jax.Array, mask_BS: jax.Array)",
    ),
    "BartForConditionalGeneration": (
        PAIRS,
        "seq2seq",
        "def encode(self, input_ids_BS: jax.Array, mask_BS",
    ),
    "DeiTForImageClassification": (IMAGES, "image", "def __call__(self, pixels_BHWC: jax.Array)"),
}

pytestmark = pytest.mark.slow  # a class is traced and compared, and projects compiled


@pytest.mark.parametrize("name", CLASSES)
def test_weights_go_in_and_out_of_pytorch_and_it_learns(tmp_path, name):
    further, recipe, line = CLASSES[name]
    write_checkpoint(name, tmp_path / "checkpoint", **further)
    code, out, err = run("redco-new p --model ./checkpoint --mesh data=2,model=2", tmp_path)
    assert code == 0, err
    project = tmp_path / "p"
    assert line in (project / "p/model.py").read_text()
    train = f"python -m p.train --steps 0 {DEVICES} --workdir runs/a"
    if recipe == "image":
        train += " --preset full --class-names a b"
    for command in (train, "python -m p.export --workdir runs/a --out exported"):
        code, out, err = run(command, project)
        assert code == 0, out + err
    gap = compare_checkpoints(tmp_path / "checkpoint", project / "exported")
    assert gap == (0.0, name)
    command = f"python -m p.train --preset tiny --steps 2 {DEVICES} --workdir runs/t"
    code, out, err = run(command, project)
    assert code == 0 and "step 2/2" in out, out + err


def test_a_decoder_that_foresees_several_tokens_is_trained_as_its_forward_is_called(tmp_path):
    layers = dict.fromkeys(("num_encoder_layers", "num_decoder_layers"), 1)
    heads = dict.fromkeys(("num_encoder_attention_heads", "num_decoder_attention_heads"), 4)
    sizes = {
        "decoder_ffn_dim": 96,
        "is_decoder": True,
        "add_cross_attention": False,
        "pad_token_id": 2,
    }
    write_checkpoint("ProphetNetForCausalLM", tmp_path / "checkpoint", **sizes, **layers, **heads)
    code, out, err = run("redco-new p --model ./checkpoint --shards 2", tmp_path)
    assert code == 0 and "it is called as its forward, and trained by lm" in out, out + err
    train = "python -m p.train --preset tiny --steps 2 --virtual-devices 2 --workdir runs/t"
    code, out, err = run(train, tmp_path / "p")
    assert code == 0 and "step 2/2" in out, out + err


@pytest.mark.parametrize(
    "model, recipe, message",
    [
        ("RobertaForMaskedLM", "lm", "RobertaForMaskedLM is trained by the recipes mlm"),
        ("RobertaForMaskedLM", "classify-text", "puts a head on RobertaForMaskedLM"),
        ("ViTForImageClassification", "mlm", "is trained by the recipe image"),
    ],
)
def test_a_recipe_that_does_not_fit_is_refused_before_anything_is_printed(
    tmp_path, model, recipe, message
):
    (tmp_path / "c.toml").write_text("[model]\nhidden_size = 64\n")
    create = f"redco-new p --model transformers:{model} --config c.toml --recipe {recipe}"
    code, out, err = run(create, tmp_path)
    assert code == 2 and message in err and err.count("\n") == 1, err


def test_heads_that_cannot_share_keys_are_refused_by_their_numbers(tmp_path):
    (tmp_path / "c.toml").write_text(
        "[model]\nhidden_size = 96\nnum_attention_heads = 6\nnum_key_value_heads = 4\n"
    )
    model = "--model transformers:Qwen2MoeForCausalLM --config c.toml"
    code, _, err = run(f"redco-new p {model} --shards 2", tmp_path)
    assert code == 2 and "--model: 6 heads of queries cannot share 4 of keys; give it" in err
    assert not (tmp_path / "p").exists()
