"""`make family` reproduces each family that is there, as far as it follows from transformers and a neighbour."""

from dataclasses import asdict, replace

import pytest
from families.reference import reference

from family import write
from family.facts import Difference, draft, find_theirs
from family.near import nearest
from redco_new.errors import RedcoError
from redco_new.models.families import FAMILIES
from redco_new.models.find import make_model, find_model
from redco_new.models.hf_config import make_config
from redco_new.render.execute import load_text

BART = {"distance_buckets", "max_distance", "norm_epsilon", "mlp_dim", "head_dim", "decoder_layers"}
# A family -> the one that it is drafted from, else itself; the fields whose keys a person finds, which are marked; those of which
# the equal name is another thing, which a person sees by a key that is read nowhere.
NEIGHBOURS = {
    "bart": ("t5", BART, set()),
    "gemma2": ("gemma3", set(), set()),
    "gemma3": ("gemma2", set(), set()),
    "gpt-j": ("gpt2", set(), set()),
    "gpt-neox": ("gpt2", {"layer_norm_epsilon"}, set()),
    "gpt2": ("gpt-j", {"rotary_dim"}, set()),
    "llama": ("qwen3", set(), set()),
    "mistral": ("llama", set(), set()),
    "mixtral": ("qwen3-moe", {"mlp_dim"}, {"num_experts"}),
    "opt": ("gpt2", {"layer_norm_epsilon"}, set()),
    "phi-3": ("llama", set(), set()),
    "qwen2": ("llama", set(), set()),
    "qwen3": ("qwen2", set(), set()),
    "qwen3-moe": ("mixtral", set(), {"mlp_dim", "num_experts"}),
    "t5": ("bart", {"max_positions", "decoder_layers", "mlp_dim", "start_id"}, set()),
    "olmo2": ("llama", set(), set()),
}


def class_of(family):
    return find_theirs(family.model_type, family).kind.__name__


@pytest.mark.parametrize("name", FAMILIES)
def test_what_follows_of_a_neighbour(name):
    """Its defaults, architecture and class are those that are there; so are its keys, but for the table's."""
    family, (like, without, others) = FAMILIES[name], NEIGHBOURS.get(name, (name, set(), set()))
    new = draft(name, like, class_of(family))
    assert new.theirs.defaults == family.defaults
    assert new.theirs.kind.model_type == family.model_type
    assert new.theirs.architecture == family.architecture
    assert new.model_class.lower() == family.model_class.lower()
    assert {*new.without} == without
    both = new.keys.keys() & family.keys.keys()
    assert {field for field in both if new.keys[field] != family.keys[field]} == others


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_written_of_a_family_as_its_own_neighbour(name):
    """Is the same family: its fields, and what it reads of each size; it needs no other templates."""
    family = FAMILIES[name]
    new = draft(name, name, class_of(family))
    assert new.difference == Difference({}, {}, {}) and not new.without and not new.more
    written = load_text(f"{name}.py", write.print_facts(new)).FAMILY
    same = {
        x: getattr(family, x) for x in ("title", "model_class", "sizes", "read", "shrink", "quirks")
    }
    assert replace(written, **same) == family
    for size, preset in family.sizes.items():
        config = make_config(family.model_type, {**family.defaults, **preset.config})
        model = make_model(written, f"{family.title} {size}", config, preset.tokenizer, 4)
        expected = find_model(name, size, 4)
        for part in ("full", "tiny"):
            assert asdict(getattr(model, part)) == asdict(getattr(expected, part)), size
        assert model.hf == expected.hf


@pytest.mark.parametrize("name", FAMILIES)
def test_parameters_are_those_of_the_reference(name):
    family, theirs = FAMILIES[name], find_theirs(FAMILIES[name].model_type, FAMILIES[name])
    parameters = reference(name).parameters
    assert {x: theirs.count(family.sizes[x].config) for x in parameters} == parameters


def test_a_test_is_a_reference():
    new = draft("gpt2", "gpt-j", "GPT2Config")
    (one,) = load_text("test_gpt2.py", write.print_test(new)).REFERENCES.values()
    assert one.check is reference("gpt-j").check and one.parameters == {"base": 124_439_808}
    assert (
        one.small["n_embd"] == reference("gpt-j").small["n_embd"] and "rotary_dim" not in one.small
    )


def test_templates_are_written_where_tensors_differ():
    new = draft("olmo", "llama", "Olmo2Config")
    files = {path.name: text for path, text in write.print_files(new).items()}
    same = {
        path.name: x for path, x in write.print_files(draft("g", "llama", "GraniteConfig")).items()
    }
    assert "TODO" in same["model.py.jinja"] and "TODO" not in same["weights.py.jinja"]
    assert [*files] == ["olmo.py", "model.py.jinja", "weights.py.jinja", "test_olmo.py"]
    assert "it has not: model.layers.{}.input_layernorm.weight" in files["weights.py.jinja"]
    assert "TODO: mlp_bias, which is read below, is no key of this class" in files["olmo.py"]
    assert (
        "TODO: gguf='olmo2' of llama.cpp" in files["olmo.py"]
        and "gguf=Gguf" not in files["olmo.py"]
    )


def test_a_mark_says_what_is_known():
    """Where PyTorch's model uses a key, what a macro is, and why the neighbour's `read` refuses the class."""
    files = {
        path.name: text
        for path, text in write.print_files(draft("g", "llama", "GraniteConfig")).items()
    }
    assert "`logits = logits / self.config.logits_scaling`" in files["g.py"]
    assert "ibm-granite/granite-3.0-8b-base" in files["g.py"]
    assert "transformers/models/granite/modular_granite.py" in files["model.py.jinja"]
    assert "decoder.jinja: `norm()`" in files["model.py.jinja"]


def test_what_a_neighbour_refuses_is_said():
    new = draft("s", "qwen2", "Starcoder2Config")
    text = write.print_facts(new)
    assert "this class is refused: hidden_act is 'gelu_pytorch_tanh'" in text
    assert "norm_epsilon may be it" in text and "norm_epsilon is read nowhere" not in text


def test_layers_of_a_pattern_are_one_of_them_times():
    text = write.print_facts(draft("o", "olmo2", "Olmo3Config"))
    defaults = load_text("o.py", text.partition("# TODO")[0]).DEFAULTS
    assert defaults["layer_types"] == (["sliding_attention"] * 3 + ["full_attention"]) * 8
    assert text.count("sliding_attention") < 8


@pytest.mark.slow
def test_the_nearest_come_first():
    """That of which no tensor differs, and of these that which reads more keys."""
    first, second, *_ = nearest("granite", "GraniteConfig")
    assert first.startswith("LIKE=llama: 0 tensors differ; keys not read: attention_multiplier, ")
    assert second.startswith("LIKE=mistral: 0 tensors")


def test_no_mark_is_left():
    files = [
        *write.FACTS.glob("*.py"),
        *write.TEMPLATES.rglob("*.*"),
        *write.TESTS.glob("test_*.py"),
    ]
    assert len(files) > 60
    for path in files:
        text = path.read_text()
        assert path.name == "test_new_family.py" or write.MARK not in text, f"{path}: decide it"


@pytest.mark.parametrize(
    ("like", "hf", "message"),
    [
        ("lama", "Olmo2Config", "LIKE: there is no family lama; name one of bart, "),
        ("llama", "Olmo22Config", "HF: transformers has no Olmo22Config; give a folder"),
        ("llama", "ViTConfig", "LIKE: transformers has no vit for the task of LlamaForCausalLM"),
        ("llama", "./nowhere", "HF: "),
    ],
)
def test_what_is_refused(like, hf, message):
    with pytest.raises(RedcoError) as error:
        draft("one", like, hf)
    assert str(error.value).startswith(message)


def test_names_and_files_that_are_there_are_refused():
    with pytest.raises(RedcoError, match="^NAME: '../one' is no name of a family"):
        draft("../one", "llama", "LlamaConfig")
    with pytest.raises(RedcoError, match="is there already"):
        write.main({"name": "llama", "like": "llama", "hf": "LlamaConfig"})
