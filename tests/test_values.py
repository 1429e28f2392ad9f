"""Values enter templates through one door: what a file says is printed as a literal, or refused."""

import ast
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

import pytest

from redco_new.errors import RedcoError
from redco_new.generate import read
from redco_new.generate.files import project_context
from redco_new.generate.plan import plan_program
from redco_new.models.families import FAMILIES
from redco_new.models.find import find_model
from redco_new.models.recorded import recall, record
from redco_new.render.template import open_template
from redco_new.render.values import Code, Plain, Text, admit, is_name, is_words, words
from redco_new.request import Request, own_class

HOSTILE = 'x"""; __import__("os").system("touch X")\\ \n\'\'\'; """y'
CALL = "__import__('os').system('touch X') or 8.0"
FREE = (Text, Plain)  # may hold anything: `python` prints them


def own_request():
    """A class of a user's, with what its --config says."""
    inputs = {"image": {"shape": ["B", 8, 8, 1], "dtype": "float32"}}
    own = own_class.parse("--config", {"model": {"features": [4, 4]}, "inputs": inputs}, "")
    model = own_class.relative_to(Path(), f"{Path(__file__).parent}/own/nets_nnx.py:SmallCNN")
    mesh = {"data": -1, "fsdp": 1, "expert": 1, "model": 1}
    return Request("my-project", model, mesh, recipe="classify", own=own)


REQUESTS = {
    "llama": lambda: Request.from_flags("my-project", "llama", shards="2", lora="rank=8"),
    "maml": lambda: Request.from_flags("my-project", recipe="maml", shards="1"),
    "own": own_request,
}
# A family of each other template: what varies in these is in the folder of its model alone.
TEMPLATES = {family.template: name for name, family in FAMILIES.items()}


@pytest.fixture(scope="module", params=[*REQUESTS, *TEMPLATES.values()])
def contexts(request):
    """Every context that is printed for a project, or for the model of a family, by its template's folder."""
    printed = {}
    with open_template() as template:
        if request.param not in REQUESTS:
            model = find_model(request.param, "", 2)
            return {f"models/{model.family.template}": model.context("my_project")}

        class Recorder:
            read = template.read

            def print_folder(self, folder, context):
                printed[folder] = context
                return template.print_folder(folder, context)

        asked = REQUESTS[request.param]()
        design = read.read_model(asked, Recorder())
        program = design.program()
        printed[template.project] = project_context(design, program, plan_program(asked, program))
    return printed


def poison(context: Any) -> Any:
    """Return a context whose every text that `python` prints is hostile, and a text in each plain data."""
    hints = get_type_hints(type(context), include_extras=True)
    changes = {}
    for field in fields(context):
        value, hint = getattr(context, field.name), hints[field.name]
        if hint is Text:
            changes[field.name] = HOSTILE
        elif hint is Plain and isinstance(value, Mapping):
            changes[field.name] = {**value, HOSTILE: [HOSTILE, 1.5, None]}
        elif get_origin(hint) is not Annotated and is_dataclass(value):
            changes[field.name] = poison(value)
    return replace(context, **changes)


def test_hostile_texts_change_nothing_but_literals(contexts):
    class Blank(ast.NodeTransformer):
        def visit_Constant(self, node):
            return ast.Constant(0)

        def visit_Dict(self, node):
            return ast.Constant(0) if all(isinstance(k, ast.Constant) for k in node.keys) else node

    def shape(texts):
        return {
            p: ast.dump(Blank().visit(ast.parse(t))) for p, t in texts.items() if p[-3:] == ".py"
        }

    changed = 0
    with open_template() as template:
        for folder, context in contexts.items():
            hostile = poison(context)
            changed += hostile != context
            printed = template.print_folder(folder, hostile)
            assert shape(printed) == shape(template.print_folder(folder, context)), folder
    assert changed >= 1


def leaves(context: Any):
    """Yield (holder, field) of each field of a context whose values the door checks."""
    hints = get_type_hints(type(context), include_extras=True)
    for field in fields(context):
        hint = hints[field.name]
        if is_dataclass(getattr(context, field.name)) and get_origin(hint) is not Annotated:
            yield from leaves(getattr(context, field.name))
        elif hint not in (Code, *FREE) and not is_checked_elsewhere(hint):
            yield context, field.name


def is_checked_elsewhere(hint: Any) -> bool:
    return (
        get_origin(hint) is Annotated
        and isinstance(hint.__metadata__[0], tuple)
        and (hint.__metadata__[0][0](object()))
    )


def test_a_field_that_is_not_what_it_declares_is_refused(contexts):
    tried = 0
    for folder, context in contexts.items():
        for holder, name in leaves(context):
            tried += 1
            for wrong in (HOSTILE, float("nan"), object(), [object()]):
                with pytest.raises(RedcoError):
                    admit(replace(holder, **{name: wrong}), folder)
    assert tried > (50 if len(contexts) > 1 else 5)


def test_names_and_words():
    assert is_name("a.b_1") and not any(
        map(is_name, ("a b", "", "1a", "a.", "import", "f()", None))
    )
    assert not any(map(is_words, ('"', "\\", "\n", "\r", "\u2028", "\x85", "\x00", 1)))
    assert words('x"""\n\\é') == "x_____é"
    assert is_words(words(HOSTILE))


def keys_of(name):
    """Return the config.json of the default size of a family."""
    family = FAMILIES[name]
    kind = {"model_type": family.model_type, "architectures": [family.architecture]}
    return family.defaults | next(iter(family.sizes.values())).config | kind


def rope(name, **changes):
    return {"rope_parameters": keys_of(name)["rope_parameters"] | changes}


WRONG = [
    ("llama", {"rope_theta": CALL, "rope_parameters": None}),
    ("gpt-neox", {"rotary_emb_base": CALL, "rope_parameters": None}),
    *[(name, rope(name, rope_theta=CALL)) for name in ("llama", "gemma2", "phi-3", "mixtral")],
    *[(name, rope(name, factor=CALL, rope_type="linear")) for name in ("llama", "mixtral")],
    ("llama", {"rope_scaling": {"type": "linear", "factor": CALL}}),
    ("llama", {"rope_scaling": {"type": "zzz", "factor": 2.0}}),
    ("llama", {"rope_scaling": "zzz"}),
    ("llama", rope("llama", rope_theta=1e400)),
    ("llama", rope("llama", rope_theta=0)),
    ("llama", rope("llama", rope_theta=[1e4])),
    ("llama", rope("llama", rope_type=5)),
    ("llama", rope("llama", rope_type="linear", factor=None)),
    ("llama", rope("llama", rope_type="llama3")),
    ("phi-3", rope("phi-3", rope_type="longrope", short_factor=[CALL], long_factor=[1.0])),
    ("gpt-neox", rope("gpt-neox", partial_rotary_factor=CALL)),
    ("gemma3", {"rope_parameters": {"full_attention": {"rope_theta": CALL}}}),
    *[("llama", {"hidden_size": v}) for v in ("64", None, 1e400, 0, -1, True, [], 1.5, CALL)],
    *[("llama", {"num_hidden_layers": v}) for v in (-1, 0, "2", 2.5, None)],
    *[("llama", {"num_attention_heads": v}) for v in (0, -4, "8", 7)],
    *[("llama", {"num_key_value_heads": v}) for v in (3, -1, 0, CALL)],
    *[("llama", {"head_dim": v}) for v in (7, 0, -2, "64")],
    *[("llama", {"rms_norm_eps": v}) for v in (1e400, -1e-6, CALL, None)],
    *[("llama", {"hidden_act": v}) for v in (CALL, None, 5, [])],
    ("llama", {"vocab_size": 1e400}),
    ("llama", {"max_position_embeddings": -5}),
    *[("gpt2", {"n_head": v}) for v in (0, 7, CALL)],
    ("gpt2", {"activation_function": CALL}),
    ("t5", {"dense_act_fn": [CALL]}),
    ("t5", {"d_kv": CALL}),
    ("t5", {"pad_token_id": CALL}),
    ("bart", {"decoder_layers": CALL}),
    ("bert", {"type_vocab_size": -2}),
    ("vit", {"image_size": CALL}),
    ("gemma2", {"final_logit_softcapping": CALL}),
    ("qwen3-moe", {"num_experts": 0}),
    ("llama", rope("llama", rope_type="dynamic", factor=CALL)),
    ("llama", rope("llama", rope_type="dynamic", factor=float("inf"))),
    ("qwen3-moe", {"num_experts": 4, "num_experts_per_tok": 8}),
    ("qwen3", rope("qwen3", rope_type="yarn", factor=CALL, original_max_position_embeddings=64)),
    ("qwen2", {"num_hidden_layers": 10**9}),
    ("mixtral", {"sliding_window": CALL}),
    ("llama", {"model_type": ["llama"]}),
    *[("llama", {"quantization_config": {"quant_method": v}}) for v in ("gptq", "awq", "fp8", 5)],
    ("llama", {"quantization_config": "gptq"}),
]


@pytest.mark.parametrize(("name", "changes"), WRONG, ids=lambda value: str(value)[:60])
def test_a_wrong_config_json_is_one_line(name, changes, tmp_path):
    keys = {k: v for k, v in (keys_of(name) | changes).items() if k != "rope_parameters" or v}
    (tmp_path / "config.json").write_text(json.dumps(keys))
    with pytest.raises(RedcoError) as refused, open_template() as template:
        find_model(str(tmp_path), "", 1).print_files(template, "my_project")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"model_type": ' * 50_000, "[]", "", "\x00", "5"])
def test_what_is_no_config_json_is_one_line(text, tmp_path):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(RedcoError) as refused:
        find_model(str(tmp_path), "", 1)
    assert "\n" not in str(refused.value)


def test_a_quantized_checkpoint_is_refused_by_name(tmp_path):
    keys = keys_of("llama") | {"quantization_config": {"quant_method": "awq", "bits": 4}}
    (tmp_path / "config.json").write_text(json.dumps(keys))
    with pytest.raises(RedcoError, match=r"quantized \(awq\)"):
        find_model(str(tmp_path), "", 1)


def test_the_name_of_a_folder_stays_in_the_docstring(tmp_path):
    folder = tmp_path / 'x"""; __import__("os").system("touch X"); """y'
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(keys_of("llama")))
    with open_template() as template:
        text = find_model(str(folder), "", 1).print_files(template, "my_project")["model.py"]
    first = ast.parse(text).body[0]
    assert "x___; __import__(_os_)" in first.value.value


def test_experts_without_a_size_of_heads_are_as_transformers_has_them(tmp_path):
    keys = {k: v for k, v in keys_of("qwen3-moe").items() if k != "head_dim"}
    (tmp_path / "config.json").write_text(json.dumps(keys))
    sizes = find_model(str(tmp_path), "", 1).full.sizes
    assert sizes["head_dim"] == keys["hidden_size"] // keys["num_attention_heads"]


def test_a_record_with_code_is_not_printed(tmp_path):
    key = ("llama", "", 1, tmp_path)
    recorded = record(find_model(*key), *key)
    for old, new in (
        ("'rope_theta': 10000.0", f"'rope_theta': {CALL!r}"),
        ("'rope': 'default'", f"'rope': {CALL!r}"),
        ("'mlp_dim'", repr(f"mlp_dim: int = {CALL}; x")),
    ):
        assert old in recorded["found"]
        found = recorded | {"found": recorded["found"].replace(old, new)}
        with pytest.raises(RedcoError), open_template() as template:
            recall(found, *key).print_files(template, "my_project")
