"""What export writes of a family is what transformers wrote, and --init reads it: bit for bit."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import transformers
from families.parity import pair
from families.test_experts import MIXTRAL, QWEN
from families.test_gemma import GEMMA
from families.test_llama import FORMS, SMALL
from families.test_phi3 import PHI
from redco_runtime.export import export
from redco_runtime.load import load

T5 = {"d_model": 48, "d_kv": 8, "d_ff": 80, "num_layers": 2, "num_heads": 4, "vocab_size": 131} | {
    "decoder_start_token_id": 0
}
BART = {
    "d_model": 48,
    "vocab_size": 131,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 80,
    "decoder_ffn_dim": 80,
    "max_position_embeddings": 64,
}
BERT = {key: value for key, value in SMALL.items() if key != "num_key_value_heads"}
VIT = {key: value for key, value in BERT.items() if key not in ("vocab_size",)}
CASES = {
    "llama": ("llama", SMALL | FORMS["tied_llama3"]),
    "gpt2": ("gpt2", {"n_embd": 48, "n_layer": 2, "n_head": 4, "vocab_size": 131}),
    "phi-3": ("phi-3", PHI),
    "gemma3": ("gemma3", GEMMA | {"num_hidden_layers": 3}),
    "mixtral": ("mixtral", SMALL | MIXTRAL),
    "qwen3-moe": ("qwen3-moe", SMALL | QWEN),
    "t5": ("t5", T5),
    "bart": ("bart", BART),
    "bert": ("bert", BERT),
    "vit": ("vit", VIT | {"image_size": 32, "patch_size": 8, "num_labels": 5}),
}


@pytest.mark.parametrize("case", CASES)
def test_export(case, tmp_path):
    family, config = CASES[case]
    found = pair(family, **config)
    export(
        jax.tree.map(jnp.asarray, found.params),
        tmp_path / "out",
        found.weights.hf_config(found.config()) | {"dtype": "float32"},
        table=found.weights.tensors(found.config()),
    )
    kind = getattr(transformers, found.model.family.architecture)
    again, report = kind.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    expected = found.torch.state_dict()
    assert again.state_dict().keys() == expected.keys()
    for name, tensor in again.state_dict().items():
        assert torch.equal(tensor, expected[name]), name
    params, kept = loaded(found, tmp_path / "out")
    assert not kept
    jax.tree.map(np.testing.assert_array_equal, params, found.params)


def loaded(found, folder):
    """What `train --init folder` starts from, on one device, and what keeps its initial value."""
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    like = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, "float32", sharding=place), found.params
    )
    steps = SimpleNamespace(state=SimpleNamespace(params=like), shapes=like)
    config = SimpleNamespace(model=found.config(), train=SimpleNamespace(seed=0))
    return load(str(folder), steps, config, found.weights)
