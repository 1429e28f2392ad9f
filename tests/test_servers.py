"""What an export writes is what vLLM and SGLang expect of a folder, row by row; and each row can fail."""

import json

import jax
import jax.numpy as jnp
import pytest
from families.parity import make_pair, saved
from families.reference import reference
from families.test_llama import SMALL
from families.test_lora import Tuned
from recipes.pipelines import pipeline
from redco_runtime.checkpoints import export as module
from redco_runtime.checkpoints.export import export
from redco_runtime.data.tokenizer import load_tokenizer
from safetensors.numpy import load_file, save_file
from servers import rows
from servers.rows import ADAPTERS, CHATS, MODEL, TEXTS, Folder, check
from servers.tensors import FAMILIES, Served, with_braces

from redco_new.models.families import FAMILIES as OURS
from redco_new.request.lora import Lora

ENDED = """{% for m in messages %}{{ m.role }}: {{ m.content }}{% if m.role == "assistant" %}<extra_id_0>{% endif %}
{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"""


def write(pair, folder, **more):
    config = pair.weights.hf_config(pair.config()) | {"dtype": "float32"}
    params = jax.tree.map(jnp.asarray, pair.params)
    export(params, folder, config, table=pair.weights.tensors(pair.config()), **more)
    return folder


# Those that write a text on.
WRITING = {
    name for name, family in OURS.items() if family.architecture.endswith(("LM", "LMHeadModel"))
} - {"bert"}


def test_what_was_read_is_of_families_that_write_on():
    assert FAMILIES.keys() <= WRITING


def in_transformers(pair):
    """What both servers take of a family of which no source was read: they run it in the class of transformers."""
    shapes = {
        with_braces(name): ", ".join(map(str, x.shape)) for name, x in saved(pair.torch).items()
    }
    return Served("transformers/causal.py", "transformers.py", shapes, head={})


@pytest.mark.parametrize("family", sorted(WRITING))
def test_a_model_is_what_servers_expect(family, tmp_path, monkeypatch):
    pair = reference(family).pair(family)
    folder = Folder(write(pair, tmp_path / "out"), family)
    read = FAMILIES.get(family)
    if read:
        check(folder, MODEL)
    if read is None or read.vllm.startswith("transformers/"):
        monkeypatch.setitem(FAMILIES, family, in_transformers(pair))
        check(folder, MODEL)


def test_a_chat_is_what_servers_expect(tmp_path, monkeypatch):
    """By a template of its own, whose answers end with what is not the tokenizer's end."""
    monkeypatch.setattr(module, "FILE_BYTES", 100_000)
    tokens = load_tokenizer("bytes")
    tokens.chat_template = ENDED
    tokens.save_pretrained(tmp_path / "tokens")
    chats = pipeline("sft").encoder(str(tmp_path / "tokens"))
    pair = make_pair("llama", **SMALL | {"vocab_size": 384})
    texts = {"generation": {"eos_token_id": 1}, "ends": chats.ends()}
    folder = write(pair, tmp_path / "out", tokenizer=chats.tokenizer, **texts)
    assert len([*folder.glob("*.safetensors")]) > 1
    check(Folder(folder, "llama"), MODEL + TEXTS + CHATS)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 1}))
    with pytest.raises(AssertionError, match="what ends an answer"):
        check(Folder(folder, "llama"), CHATS)


def test_a_tokenizer_without_a_template_brings_that_of_the_pipeline(tmp_path):
    chats = pipeline("sft").encoder("bytes")
    chats.tokenizer.save_pretrained(tmp_path)
    rows.chats_have_a_template(Folder(tmp_path))
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    text = Folder(tmp_path).tokenizer.apply_chat_template(chat, tokenize=False)
    assert text == "### user\nHi\n### assistant\nHello.</s>\n"


def test_an_adapter_is_what_servers_expect(tmp_path):
    tuned = Tuned("llama", Lora(rank=2, alpha=3.0))
    table, shapes = tuned.weights.tensors(tuned.config), jax.eval_shape(lambda: tuned.parameters)
    tuned.lora.export(tuned.parameters, tmp_path / "a", table=table, shapes=shapes)
    check(Folder(tmp_path / "a", "llama"), ADAPTERS)


def drop(folder, tensors):
    del tensors["model.norm.weight"]


def rename(folder, tensors):
    tensors["model.layers.0.attention.q.weight"] = tensors.pop(
        "model.layers.0.self_attn.q_proj.weight"
    )


def transpose(folder, tensors):
    name = "model.layers.0.mlp.down_proj.weight"
    tensors[name] = tensors[name].T.copy()


def skip_a_layer(folder, tensors):
    for name in [name for name in tensors if ".layers.1." in name]:
        del tensors[name]


def halve_one(folder, tensors):
    tensors["model.norm.weight"] = tensors["model.norm.weight"].astype("float16")


def state(**changes):
    def damage(folder, tensors):
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return damage


@pytest.mark.parametrize(
    "damage, row",
    [
        (drop, "tensors are those"),
        (rename, "tensors are those"),
        (transpose, "tensors are those"),
        (skip_a_layer, "layers are numbered"),
        (halve_one, "`dtype`"),
        (state(dtype="bfloat16"), "`dtype`"),
        (state(model_type="opt", max_position_embeddings="64"), "how long"),
        (state(vocab_size=132), "tensors are those"),
        (state(architectures=["LlamaModel"]), "names one class"),
        (lambda folder, tensors: (folder / "a.bin").write_text(""), "weights are"),
    ],
)
def test_a_folder_that_is_otherwise_is_named(damage, row, tmp_path):
    folder = write(make_pair("llama", **SMALL), tmp_path / "out")
    tensors = load_file(folder / "model.safetensors")
    damage(folder, tensors)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(AssertionError, match=row):
        check(Folder(folder, "llama"), MODEL)
