"""A model as one file for llama.cpp. That llama.cpp computes the same of it is tests/tools/serve's."""

import argparse
import json
from unittest.mock import MagicMock

import jax.numpy as jnp
import numpy as np
import pytest
import tokenizers
from gguf import GGUFReader
from transformers import PreTrainedTokenizerFast

from redco_runtime.base.messages import UserError
from redco_runtime.base.tensors import Tensor
from redco_runtime.checkpoints.export import export, safetensors_alone
from redco_runtime.checkpoints.gguf import changes
from redco_runtime.checkpoints.gguf.metadata import metadata, rope_factors
from redco_runtime.checkpoints.gguf.vocabulary import CUTS, vocabulary
from redco_runtime.checkpoints.gguf.write import add_vocabulary, gguf
from redco_runtime.data.tokenizer import load_tokenizer

CONFIG = {
    "vocab_size": 384,
    "hidden_size": 64,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000},
}
TABLE = {
    "embed": Tensor("model.embed_tokens.weight"),
    "ln": Tensor("model.norm.weight"),
    "q": Tensor("model.layers.{}.self_attn.q_proj.weight", (1, 0)),
    "router": Tensor("model.layers.{}.block_sparse_moe.gate.weight", (1, 0)),
    "up": Tensor("model.layers.{}.block_sparse_moe.experts.{}.w3.weight", (1, 0)),
}


@pytest.fixture
def params():
    shapes = {"embed": (384, 64), "ln": (64,), "q": (1, 64, 64), "router": (1, 64, 3)}
    shapes |= {"up": (1, 3, 64, 40)}
    random = np.random.default_rng(0)
    return {k: jnp.bfloat16(random.normal(size=x)) for k, x in shapes.items()}


def write(params, folder, kind="gguf", config=CONFIG, tokenizer=None, change=changes.interleaved):
    parse = gguf("llama", change)
    tokenizer = tokenizer or load_tokenizer("bytes")
    export(params, folder, config, table=TABLE, tokenizer=tokenizer, write=parse(kind))
    return GGUFReader(next(folder.iterdir()))


def test_tensors_have_names_types_and_order_of_llama_cpp(tmp_path, params):
    tensors = {x.name: x for x in write(params, tmp_path / "out").tensors}
    types = {name: x.tensor_type.name for name, x in tensors.items()}
    assert types == {
        "token_embd.weight": "F16",
        "output_norm.weight": "F32",
        "blk.0.attn_q.weight": "F16",
        "blk.0.ffn_gate_inp.weight": "F32",
        "blk.0.ffn_up_exps.weight": "F16",
    }
    stacked = np.float32(params["up"][0]).transpose(0, 2, 1)
    assert np.array_equal(tensors["blk.0.ffn_up_exps.weight"].data, np.float16(stacked))
    q = np.float16(params["q"][0]).T.reshape(2, 2, 16, 64)
    assert np.array_equal(tensors["blk.0.attn_q.weight"].data[1], q[0, 1, 0])
    assert np.array_equal(tensors["blk.0.attn_q.weight"].data[2], q[0, 0, 1])


def test_blocks_of_32_are_rounded_to_eighths(tmp_path, params):
    from gguf.quants import dequantize

    tensors = {x.name: x for x in write(params, tmp_path / "out", "gguf-q8_0").tensors}
    part = tensors["token_embd.weight"]
    assert part.tensor_type.name == "Q8_0"
    own, read = np.float32(params["embed"]), dequantize(part.data, part.tensor_type)
    assert 0 < np.abs(own - read).max() < np.abs(own).max() / 127


def test_a_number_that_float16_lacks_is_refused(tmp_path, params):
    params["embed"] = params["embed"].at[3, 3].set(1e5)
    with pytest.raises(UserError, match="token_embd.weight has numbers that no float16 holds"):
        write(params, tmp_path / "out")
    assert not [*tmp_path.iterdir()]


def test_changes():
    value = np.arange(24.0).reshape(12, 2)
    config = {"num_attention_heads": 2}
    fused = "layers.0.attention.query_key_value.weight"
    assert changes.parts_apart(fused, value, config)[:, 0].tolist() == [
        *(0, 2, 12, 14, 4, 6, 16, 18, 8, 10, 20, 22)
    ]
    assert np.array_equal(changes.transposed("h.0.attn.c_attn.weight", value, {}), value.T)
    assert np.array_equal(changes.transposed("wte.weight", value, {}), value)
    assert np.array_equal(changes.parts_apart("layers.0.dense.weight", value, config), value)
    assert np.array_equal(changes.unchanged(fused, value, config), value)
    assert np.array_equal(changes.plus_one("layers.0.q_norm.weight", value, {}), value + 1)
    assert np.array_equal(changes.plus_one("model.embed_tokens.weight", value, {}), value)


def test_metadata_is_of_config_json(tmp_path, params):
    fields = write(params, tmp_path / "out").fields
    said = {name: field.contents() for name, field in fields.items()}
    assert said["llama.attention.head_count_kv"] == 1 and said["llama.rope.freq_base"] == 10000.0
    assert said["llama.attention.key_length"] == 32 and said["llama.context_length"] == 128
    assert said["tokenizer.ggml.eos_token_id"] == 1 and not said["tokenizer.ggml.add_bos_token"]


def test_what_else_ends_a_text_has_names_of_its_own():
    writer = MagicMock()
    add_vocabulary(writer, load_tokenizer("bytes"), 384, {"eos_token_id": [1, 7, 9]})
    ids = dict(call.args for call in writer.add_uint32.call_args_list)
    ends = {"eos": 1, "eot": 7, "eom": 9}
    assert ids.items() >= {f"tokenizer.ggml.{end}_token_id": x for end, x in ends.items()}.items()


def test_rotations_are_of_far_layers_and_of_near_ones():
    far, near = {"rope_theta": 1e6, "rope_type": "linear", "factor": 8.0}, {"rope_theta": 1e4}
    rope = {"full_attention": far, "sliding_attention": near}
    said = metadata(CONFIG | {"rope_parameters": rope, "query_pre_attn_scalar": 32}, "gemma3")
    assert (said["rope.freq_base"], said["rope.freq_base_swa"]) == (1e6, 1e4)
    assert (said["rope.scaling.type"], said["rope.scaling.factor"]) == ("linear", 8.0)
    plain = metadata(CONFIG, "llama")
    assert "rope.freq_base_swa" not in plain and "rope.scaling.type" not in plain
    half = CONFIG["rope_parameters"] | {"partial_rotary_factor": 0.5}
    assert metadata(CONFIG | {"rope_parameters": half}, "llama")["rope.dimension_count"] == 16


def test_slowed_rotations_and_a_template_of_chats_are_in_the_file(tmp_path, params):
    rope = {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0}
    rope |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    tokenizer = load_tokenizer("bytes")
    tokenizer.chat_template = "{{ messages }}"
    config = CONFIG | {"rope_parameters": rope}
    read = write(params, tmp_path / "out", config=config, tokenizer=tokenizer)
    (factors,) = (x.data for x in read.tensors if x.name == "rope_freqs.weight")
    assert np.array_equal(factors, rope_factors(config))
    assert read.fields["tokenizer.chat_template"].contents() == "{{ messages }}"


def test_a_tensor_that_llama_cpp_lacks_is_refused(tmp_path, params):
    with pytest.raises(UserError, match="llama.cpp has no model.mine.weight in llama"):
        table = TABLE | {"ln": Tensor("model.mine.weight")}
        tokenizer = load_tokenizer("bytes")
        write_ = gguf("llama", changes.unchanged)("gguf")
        export(params, tmp_path / "out", CONFIG, table=table, tokenizer=tokenizer, write=write_)
    with pytest.raises(UserError, match="--format"):
        write_ = gguf("llama", changes.unchanged)("gguf")
        export(params, tmp_path / "out", CONFIG, table=TABLE, write=write_)
    assert not [*tmp_path.iterdir()]


def test_a_window_of_all_layers_bounds_the_context():
    assert metadata(CONFIG | {"sliding_window": 64}, "llama")["context_length"] == 64
    kinds = ["sliding_attention", "full_attention"]
    several = CONFIG | {"sliding_window": 64, "layer_types": kinds}
    assert metadata(several, "llama")["attention.sliding_window_pattern"] == [True, False]


def test_a_scale_of_queries_that_llama_cpp_cannot_be_told_is_refused():
    assert metadata(CONFIG | {"query_pre_attn_scalar": 32}, "gemma2")
    with pytest.raises(UserError, match="root of 32, and this model by that of 64"):
        metadata(CONFIG | {"query_pre_attn_scalar": 64}, "gemma2")
    # In its largest Gemma 2, as in Google's, by the features of a head, were all features in them.
    largest = CONFIG | {"num_hidden_layers": 46, "hidden_size": 96, "head_dim": 32}
    assert metadata(largest | {"query_pre_attn_scalar": 48}, "gemma2")
    with pytest.raises(UserError, match="root of 48, and this model by that of 32"):
        metadata(largest | {"query_pre_attn_scalar": 32}, "gemma2")


def test_slowed_rotations_are_those_of_transformers():
    import torch
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rope = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0}
    rope |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    config = CONFIG | {"head_dim": 32, "rope_parameters": rope}
    theirs, _ = ROPE_INIT_FUNCTIONS["llama3"](LlamaConfig(**config), torch.device("cpu"))
    plain = 10000.0 ** -(np.arange(0, 32, 2) / 32)
    assert np.allclose(plain / rope_factors(config), theirs.numpy(), rtol=1e-5)
    narrow = config | {"head_dim": 16}
    assert len(rope_factors(narrow)) == 8
    by_heads = config | {"head_dim": None, "hidden_size": 96, "num_attention_heads": 6}
    assert len(rope_factors(by_heads)) == 8
    assert rope_factors(CONFIG) is None


def fast(model, cut=None, normalizer=None, **special):
    own = tokenizers.Tokenizer(model)
    own.pre_tokenizer, own.normalizer = cut, normalizer
    return PreTrainedTokenizerFast(tokenizer_object=own, **special)


def byte_level(pattern="", whole=False):
    letters = {x: i for i, x in enumerate(sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()))}
    model = tokenizers.models.BPE(letters | {"ab": 256}, [("a", "b")], ignore_merges=whole)
    level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not pattern)
    if not pattern:
        return fast(model, level)
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    return fast(model, tokenizers.pre_tokenizers.Sequence([split, level]))


@pytest.mark.parametrize("cut", CUTS, ids=CUTS.values())
def test_how_a_text_is_cut_has_the_name_of_llama_cpp(cut):
    words = vocabulary(byte_level(*cut), 260)
    assert (words.model, words.cut, words.merges) == ("gpt2", CUTS[cut], ["a b"])
    assert words.tokens[256:] == ["ab", "[PAD257]", "[PAD258]", "[PAD259]"]


def test_the_names_of_cuts_are_those_of_published_tokenizers():
    from transformers import Qwen2Tokenizer

    spec = json.loads(Qwen2Tokenizer().backend_tokenizer.to_str())
    pattern = spec["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    assert CUTS[pattern, False] == "qwen2"
    # Those of which llama.cpp leaves a word whole that is a token, by its own table.
    assert {name for (_, whole), name in CUTS.items() if whole} == {"llama-bpe", "tekken"}


def test_merges_of_sentencepiece_are_scores():
    tokens = ["<unk>", "<0x41>", "\u2581", "a", "b", "ab", "\u2581ab"]
    model = tokenizers.models.BPE(
        {token: i for i, token in enumerate(tokens)},
        [("a", "b"), ("\u2581", "ab")],
        byte_fallback=True,
        unk_token="<unk>",
    )
    tokenizer = fast(model, normalizer=tokenizers.normalizers.Prepend("\u2581"))
    words = vocabulary(tokenizer, 7)
    assert (words.model, words.prefix, words.scores[5:]) == ("llama", True, [0.0, -1.0])
    assert words.kinds == [2, 6, 1, 1, 1, 1, 1]
    tokenizer.add_special_tokens({"additional_special_tokens": ["<end>"]})
    tokenizer.add_tokens(["<call>"])
    assert vocabulary(tokenizer, 9).kinds[7:] == [3, 4]  # what only steers, and what people see


def test_merges_that_no_scores_give_are_refused():
    tokens = ["<unk>", "\u2581", "a", "b", "c", "ab", "bc", "abc", "ca"]
    first, again, other = ("ab", "c"), ("a", "bc"), ("c", "a")

    def words(*merges):
        ids = {token: i for i, token in enumerate(tokens)}
        every = [("a", "b"), ("b", "c"), *merges]
        model = tokenizers.models.BPE(ids, every, byte_fallback=True, unk_token="<unk>")
        normalizer = tokenizers.normalizers.Prepend("\u2581")
        return vocabulary(fast(model, normalizer=normalizer), len(tokens))

    assert words(first, again, other).scores[5:] == [0, -1, -2, -4]
    with pytest.raises(UserError, match="no scores of tokens give the merges of 'abc'"):
        words(first, other, again)


def test_a_tokenizer_that_llama_cpp_lacks_is_refused():
    with pytest.raises(UserError, match="tokenizer Unigram: export as safetensors"):
        vocabulary(fast(tokenizers.models.Unigram([("a", 0.0)])), 4)
    with pytest.raises(UserError, match="cut by Split ByteLevel"):
        vocabulary(byte_level("[a-z]+"), 260)
    other = byte_level()
    level = other.backend_tokenizer.pre_tokenizer
    steps = [tokenizers.pre_tokenizers.Digits(), level]
    other.backend_tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(steps)
    with pytest.raises(UserError, match="cut by Digits ByteLevel"):
        vocabulary(other, 260)
    with pytest.raises(UserError, match="an id 256, and the model 100 of them"):
        vocabulary(byte_level(), 100)


def test_formats(monkeypatch):
    parse = gguf("llama", changes.unchanged)
    assert parse("safetensors") is safetensors_alone("")("safetensors") is None
    with pytest.raises(argparse.ArgumentTypeError, match="choose one of safetensors, gguf, gguf-q"):
        parse("onnx")
    with pytest.raises(argparse.ArgumentTypeError, match="gguf: llama.cpp does not open GPT-J"):
        safetensors_alone("llama.cpp does not open GPT-J")("gguf")
    monkeypatch.setattr("redco_runtime.checkpoints.gguf.write.find_spec", lambda name: None)
    with pytest.raises(argparse.ArgumentTypeError, match="gguf is written by .* pip install gguf"):
        parse("gguf")
