"""A checkpoint of a class of transformers that is no family becomes a project that the recipes of texts train."""

import json

import pytest
from pytorch.decoder_checkpoint import compare_checkpoints, write_checkpoint
from safetensors import safe_open

from generated import run

DEVICES = "--virtual-devices 4"
KIND = "VaultGemmaForCausalLM"  # every second layer sees a window

pytestmark = pytest.mark.slow  # a class is traced and compared, and projects compiled


TEXTS = "".join(json.dumps({"text": f"number {i} of many"}) + "\n" for i in range(99))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The folder of a checkpoint, and of a project of it."""
    folder = tmp_path_factory.mktemp("decoders")
    tokens = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    further = tokens | {"num_hidden_layers": 4, "head_dim": 16, "sliding_window": 24}
    write_checkpoint(KIND, folder / "checkpoint", **further)
    code, out, err = run("redco-new p --model ./checkpoint --mesh data=2,model=2", folder)
    assert code == 0, err
    (folder / "texts.jsonl").write_text(TEXTS)
    return folder


def test_its_model_is_a_decoder_as_a_familys(place):
    model = (place / "p/p/model.py").read_text()
    assert f"class {KIND}(nnx.Module):" in model
    assert "return self._run(input_ids_BS, positions_BS, ToTexts(segments_BS))" in model
    assert "(c.num_key_value_heads, c.head_dim)," in model
    assert (
        "splits=config.num_hidden_layers // 2" in model
        and "            c.num_hidden_layers," in model
    )
    assert "attend(" in model and " 64" not in model.partition(f"class {KIND}(")[2]
    assert model.count("class VaultGemmaAttention") == 1 and "sliding_window=None" in model
    assert "over_layers(self.config.remat, capped=True)" in model  # or it compiles for minutes


def test_weights_go_in_and_out_of_pytorch_by_steps_of_texts_that_share_rows(place):
    """Trained at a rate of 0: its weights come out as they went in. And it writes texts."""
    data = f"--data {place}/texts.jsonl --sequence-length 128 --batch-size 8 --learning-rate 0"
    command = f"python -m p.train --steps 3 {data} {DEVICES} --workdir runs/a"
    code, out, err = run(command, place / "p")
    assert code == 0 and "starting from the weights of" in out and "step 3/3" in out, out + err
    code, out, err = run("python -m p.export --workdir runs/a --out exported", place / "p")
    assert code == 0, err
    assert compare_checkpoints(place / "checkpoint", place / "p/exported") == (0.0, KIND)
    code, out, err = run(
        f"python -m p.predict --workdir runs/a {DEVICES} --prompt number", place / "p"
    )
    assert code == 0, out + err


def test_its_dtype_is_asked_for(place):
    config = place / "p/p/config.py"
    assert f'{KIND}Config(dtype="bfloat16")' in config.read_text()
    code, out, err = run("redco update --dtype float32", place / "p")
    assert code == 0, err
    assert f'{KIND}Config(dtype="float32")' in config.read_text()


def test_experts_are_the_runtimes_under_the_names_of_checkpoints(tmp_path):
    """Trained at a rate of 0: their weights come out as they went in. The first layer has none."""
    kind = "Qwen2MoeForCausalLM"
    small = {"moe_intermediate_size": 48, "shared_expert_intermediate_size": 56, "num_experts": 4}
    small |= {"num_experts_per_tok": 2, "num_hidden_layers": 3, "mlp_only_layers": [0]}
    write_checkpoint(kind, tmp_path / "checkpoint", **small)
    (tmp_path / "texts.jsonl").write_text(TEXTS)
    code, out, err = run("redco-new p --model ./checkpoint --mesh data=2,expert=2", tmp_path)
    assert code == 0, err
    project = tmp_path / "p"
    model = (project / "p/model.py").read_text()
    assert "over_layers(self.config.remat, experts=True)" in model
    assert "return chosen_experts(" in model and "splits=config.num_hidden_layers - 1" in model
    assert (
        "(hidden_states_reshaped, router_indices, router_top_value)" in model
        and "empty_cache(" in model
    )
    assert "mlp.experts.{}.gate_proj.weight" in (project / "p/weights.py").read_text()
    data = "--data ../texts.jsonl --sequence-length 64 --learning-rate 0"
    code, out, err = run(f"python -m p.train --steps 2 {data} {DEVICES} --workdir runs/a", project)
    assert code == 0 and "starting from the weights of" in out and "step 2/2" in out, out + err
    code, out, err = run("python -m p.export --workdir runs/a --out exported", project)
    assert code == 0, err
    assert compare_checkpoints(tmp_path / "checkpoint", project / "exported") == (0.0, kind)


@pytest.mark.parametrize(
    "recipe, lora",
    [("sft", "rank=2,targets=q_proj"), ("dpo", "base=nf4"), ("reward", "off"), ("classify-text", "off")],
)  # fmt: skip
def test_it_is_trained_by_the_recipes_of_texts(place, recipe, lora):
    code, out, err = run(f"redco update --recipe {recipe} --lora {lora}", place / "p")
    assert code == 0, err
    train = f"python -m p.train --preset tiny --steps 2 {DEVICES} --workdir runs/{recipe}"
    code, out, err = run(train, place / "p")
    assert code == 0 and "step 2/2" in out, out + err
    if recipe == "sft":
        code, out, err = run("python -m p.export --workdir runs/sft --out adapter", place / "p")
        assert code == 0, err
        names = {*safe_open(place / "p/adapter/adapter_model.safetensors", "np").keys()}
        layer = "base_model.model.model.layers.2.self_attn.q_proj"
        assert len(names) == 8 and {f"{layer}.lora_A.weight", f"{layer}.lora_B.weight"} < names
