"""A checkpoint: where it is, what is said of one that is not whole, and of another model's."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from redco_runtime.base.messages import UserError
from redco_runtime.base.hf_files import Stored, check_config, find, open_tensors

GPT_J = {
    "model_type": "gptj",
    "vocab_size": 97,
    "n_embd": 48,
    "n_layer": 3,
    "n_head": 4,
    "n_inner": 192,
    "rotary_dim": 8,
    "n_positions": 64,
}
LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
}


def write(folder, config=GPT_J):
    folder.mkdir(exist_ok=True)
    save_file({"a": np.arange(24.0).reshape(4, 6)}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def opened(source):
    path = find(str(source))
    return Stored(path, open_tensors(path))


def fault(source):
    with pytest.raises(UserError) as caught:
        opened(source)
    return str(caught.value)


def test_it_reads_a_slice(tmp_path):
    stored = opened(write(tmp_path))
    assert stored.shapes == {"a": (4, 6)}
    assert stored.read("a", (slice(1, 2), slice(2, 4))).tolist() == [[8, 9]]


def test_a_folder_that_is_not_there(tmp_path):
    found = fault(tmp_path / "none")
    assert found.startswith(f"--init: {tmp_path}/none is not there, and Hugging Face does not")
    assert "\n" not in found


def test_an_id_is_downloaded_as_far_as_it_is_read(tmp_path, monkeypatch):
    import huggingface_hub

    def download(name, allow_patterns):
        assert name == "org/name"
        files = ["model-00001-of-00002.safetensors", "model.safetensors.index.json", "config.json"]
        unread = ["pytorch_model.bin", "consolidated.safetensors", "onnx/model.safetensors"]
        kept = huggingface_hub.utils.filter_repo_objects(
            files + unread, allow_patterns=allow_patterns
        )
        assert list(kept) == files
        return str(write(tmp_path))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert find("org/name") == tmp_path


def test_pickles_are_refused_by_name(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    found = fault(tmp_path)
    assert "pytorch_model.bin is a pickle" in found and "save_pretrained" in found


def test_a_folder_without_tensors(tmp_path):
    assert "has no model.safetensors and no model.safetensors.index.json;" in fault(tmp_path)


@pytest.mark.parametrize("size", [0, 7, 60, -1])
def test_a_file_that_is_cut_short(size, tmp_path):
    path = write(tmp_path) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    assert fault(tmp_path).startswith(f"--init: {path} is damaged or missing: ")


def test_an_index_that_names_a_missing_file(tmp_path):
    index = {"weight_map": {"a": "model-00001-of-00001.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert f"{tmp_path}/model-00001-of-00001.safetensors is damaged or missing" in fault(tmp_path)


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/b", "..", "", None, 5])
def test_an_index_that_leads_out_of_its_folder(name, tmp_path):
    index = {"weight_map": {"a": name}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert f"has a tensor in {name!r}, which is no file beside it" in fault(tmp_path)


@pytest.mark.parametrize("text", ["{", "[1]", "[" * 100_000, '{"weight_map": 5}'])
def test_an_index_that_is_none(text, tmp_path):
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(text)
    assert fault(tmp_path).startswith(f"--init: {path} ")


def differences(tmp_path, theirs, ours):
    """The lines that say what config.json has otherwise."""
    with pytest.raises(UserError) as caught:
        check_config(write(tmp_path, theirs), ours)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"--init: {tmp_path} is not the model of config.py:"
    assert lines[-1].startswith("Choose the --preset")
    return lines[1:-1]


@pytest.mark.parametrize(
    "theirs",
    [
        GPT_J,
        GPT_J | {"n_inner": None},
        GPT_J | {"torch_dtype": "float16", "bos_token_id": 7, "resid_pdrop": 0.1, "rotary": True},
        {k: v for k, v in GPT_J.items() if k != "n_inner"} | {"tie_word_embeddings": False},
    ],
)
def test_the_config_of_the_same_model(theirs, tmp_path, capsys):
    check_config(write(tmp_path, theirs), GPT_J)
    assert capsys.readouterr().err == ""


def test_old_keys_are_read_as_transformers_reads_them(tmp_path):
    old = {k: v for k, v in LLAMA.items() if k != "rope_parameters"} | {"rope_theta": 500000.0}
    check_config(write(tmp_path, old), LLAMA)
    wrong = differences(tmp_path, old | {"rope_theta": 10000.0}, LLAMA)
    assert len(wrong) == 1 and wrong[0].startswith("  rope_parameters: there {")


def test_sizes_and_kinds_that_differ_are_named(tmp_path):
    theirs = GPT_J | {"n_layer": 28, "activation_function": "relu", "tie_word_embeddings": True}
    assert set(differences(tmp_path, theirs, GPT_J)) == {
        "  n_layer: there 28, here 3",
        "  activation_function: there relu, here gelu_new",
        "  tie_word_embeddings: there True, here False",
    }


def test_another_kind_of_model(tmp_path):
    assert differences(tmp_path, LLAMA, GPT_J) == ["  model_type: there llama, here gptj"]
    assert differences(tmp_path, {}, GPT_J) == ["  model_type: there None, here gptj"]


@pytest.mark.parametrize("text", ["", "{", "[1]", None])
def test_a_config_that_is_none(text, tmp_path):
    path = write(tmp_path) / "config.json"
    path.unlink()
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match="config.json cannot be read"):
        check_config(tmp_path, GPT_J)


def test_a_config_that_transformers_refuses(tmp_path):
    folder = write(tmp_path, GPT_J | {"n_layer": "three"})
    with pytest.raises(UserError, match=f"transformers cannot read the config of {tmp_path}: .*"):
        check_config(folder, GPT_J)
