"""Classes imported, made and called with abstract arrays: what is found, and what is refused."""

import inspect
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from generated import find_own, texts
from redco_new.errors import RedcoError
from redco_new.request.own_class import Input, OwnClass, from_toml
from redco_new.request import Request
from redco_new.own.find import find_reference
from redco_new.own.signature import check_arguments
from redco_new.own.source import FLAGS

HERE = Path(__file__).parent
TEXT = {"ids": Input((6,), "int32")}


def refused(match):
    return pytest.raises(RedcoError, match=re.escape(match))


def own(model, recipe, arguments, inputs, **told):
    told = OwnClass(arguments, inputs, **told)
    return find_own(model, recipe, told, "my-project", HERE)


def written(tmp_path, text):
    """A reference to the class Net of a file with that text, from its folder."""
    (tmp_path / "written.py").write_text(text)
    return find_reference("--model", "written.py:Net", tmp_path)


def test_a_linen_class():
    model = own("nets_linen.py:Mixer", "classify", {"width": 8}, {"x": Input((12,))}).abstract
    assert (model.linen, model.mode, model.random, model.stateful) == (True, "train", True, True)
    assert set(model.collections) == {"batch_stats", "counts"}


def test_an_nnx_class():
    model = own("nets_nnx.py:Noisy", "lm", {"words": 9, "width": 8}, TEXT).abstract
    assert (model.linen, model.mode, model.random, model.stateful) == (False, "", True, True)


def test_classes_without_state():
    image = {"image": Input((8, 8, 1))}
    assert not own(
        "nets_nnx.py:SmallCNN", "classify", {"features": (4, 4)}, image
    ).abstract.stateful
    inputs = {"ids": Input((6,), "int32", 9), "mask": Input((6,), "bool")}
    told = ("nets_linen.py:Tagger", "classify", {"words": 9, "width": 8}, inputs)
    assert not own(*told, output="tone").abstract.stateful
    assert own(*told, output="tone").output.source == "['tone']"
    assert own(*told, output="tone").output.shape == (8, 3)


KEYED = """from flax import nnx

class Net(nnx.Module):
    def __init__(self, rngs):
        self.w, self.keys = nnx.Linear(6, 6, rngs=rngs), nnx.data([rngs()])

    def __call__(self, x):
        return self.w(x)
"""


def test_what_a_class_lacks_belongs_into_the_file_that_says_of_it():
    """In a project that is redco.toml, and no file of --config."""
    table = {"model": {"class": "nets_linen.py:Mixer"}, "inputs": {"x": {"shape": ["B", 12]}}}
    told = from_toml("redco.toml", table)
    for own, place in ((told, "redco.toml"), (replace(told, source="--config"), "a file of --c")):
        with refused(f"{own.source}: Mixer needs width; give width = ... in [model] of {place}"):
            find_own("nets_linen.py:Mixer", "classify", own, "my-project", HERE)


class Sizes:
    """What no file of TOML has."""


@pytest.mark.parametrize(
    ("annotation", "what"),
    [(Sizes, "by --example"), ("Sizes", "by --example"), (dict, "in [mo"), ("int", "in [mo")],
)
def test_an_object_that_a_class_lacks_is_asked_for_by_a_function_at_once(annotation, what):
    def net(config):
        """Make a net."""

    net.__annotations__["config"] = annotation
    with pytest.raises(RedcoError) as caught:
        check_arguments("--config", "net", inspect.signature(net), {})
    assert what in caught.value.todo and ("Sizes(...)" in caught.value.todo) == ("-" in what)


def test_a_class_that_holds_a_key(tmp_path):
    (tmp_path / "written.py").write_text(KEYED)
    told = OwnClass({}, {"x": Input((6,))})
    with refused("Net holds a key of jax.random, in keys.0, which checkpoints cannot have"):
        find_own("written.py:Net", "regress", told, "my-project", tmp_path)


def test_a_function_gives_arguments_and_inputs():
    found = own("example.py:Plain", "classify", {}, {}, example="example.py:plain")
    assert found.inputs == {"x": Input((6,))}
    assert "**arguments" in "".join(found.source.construct)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "Noisy needs words, width; give words = ..."),
        ({"words": 9, "width": 8, "wdith": 8}, "Noisy takes no wdith; did you mean width?"),
        ({"words": 9, "width": 8, "if": 8}, "'if' is no name of an argument"),
        ({"words": 9, "width": 8, "x=1)#": 8}, "'x=1)#' is no name of an argument"),
    ],
)
def test_arguments_that_do_not_fit(arguments, message):
    with refused(message):
        own("nets_nnx.py:Noisy", "lm", arguments, TEXT)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "the inputs of Noisy are not known; give [inputs]"),
        ({"idx": Input((6,), "int32")}, "a call of Noisy takes no idx; did you mean ids?"),
        ({"ids": Input((6,))}, "Noisy cannot be traced: ValueError: Input type must be an integer"),
    ],
)
def test_inputs_that_do_not_fit(inputs, message):
    with refused(message):
        own("nets_nnx.py:Noisy", "lm", {"words": 9, "width": 8}, inputs)


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("clasify", "there is no recipe 'clasify' of a class of your own; choose one of classify"),
        ("classify", "makes an array (8, 6, 9), and no logits of shape (B, classes)"),
        ("seq2seq", "Noisy has 1 inputs of ids"),
    ],
)
def test_recipes_that_do_not_fit(recipe, message):
    with refused(message):
        own("nets_nnx.py:Noisy", recipe, {"words": 9, "width": 8}, TEXT)


def test_ids_of_unknown_number():
    with refused("[inputs] x: how many ids x may have is not known; add below = 1000"):
        own("nets_linen.py:Mixer", "classify", {"width": 8}, {"x": Input((12,), "int32")})


def test_an_output_that_is_not_there():
    inputs = {"ids": Input((6,), "int32", 9), "mask": Input((6,), "bool")}
    with refused(
        "output: 'mood' is not logits of shape (B, classes): of 8 rows, Tagger makes tone"
    ):
        own("nets_linen.py:Tagger", "classify", {"words": 9, "width": 8}, inputs, output="mood")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class Net:\n    x = 1 +\n", "written.py:2: invalid syntax: `x = 1 +`; mend that line"),
        ("import absent_module\n", "'absent_module'; pip install absent_module where redco-new is"),
        ("exit(3)\n", "written.py:1 in <module>: `exit(3)`: it cannot be imported: SystemExit: 3"),
        ("from . import other\n", "written.py:1 in <module>: `from . import other`"),
        ("class Nets:\n    pass\n", "--model: written.py has no Net; did you mean Nets?"),
        ("", "--model: written.py has no Net; define it there"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, text, message):
    with refused(message):
        written(tmp_path, text)


def test_modules():
    assert find_reference("--model", "flax.nnx:Linear", HERE).file == ""
    with refused(
        "--model: no module absent_module; pip install absent_module where redco-new is; or give a file"
    ):
        find_reference("--model", "absent_module.nets:Net", HERE)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 3", "example() gives no pair of dicts"),
        (
            "return {'dims': {'in': 3, 'hidden': 3, 'out': 3}}, {'x': 3}",
            "no array of the call of Pair",
        ),
        ("return {}[0]", "`return {}[0]`: example cannot be traced: KeyError: 0"),
    ],
)
def test_functions_that_give_no_example(tmp_path, body, message):
    shutil.copy(HERE / "nets_nnx.py", tmp_path)
    (tmp_path / "given.py").write_text(f"def example():\n    {body}\n")
    told = OwnClass(example="given.py:example")
    with refused(message):
        find_own("nets_nnx.py:Pair", "regress", told, "my-project", tmp_path)


def test_an_argument_cannot_take_the_name_of_another_flag(tmp_path, monkeypatch):
    monkeypatch.chdir(HERE)
    (tmp_path / "pair.toml").write_text(
        'output = 0\n[model]\ndims = {in = 6, hidden = 8, out = 2}\n[inputs]\nx = {shape = ["B", 6]}\n'
    )
    request = Request.from_flags(
        "flagged", "nets_nnx.py:Pair", config=str(tmp_path / "pair.toml"), recipe="regress"
    )
    files, _, _ = texts(request)
    fields = set(re.findall(r"^    (\w+): [^=\n]+ = ", files["flagged/config.py"], re.MULTILINE))
    options = set(
        re.findall(r'add(?:_argument)?\("--([a-z-]+)"', files["flagged/runtime/loop/command.py"])
    )
    options.remove("best")  # of predict and export, which have no flags of the model
    sections = {"model", "data", "optimizer", "train"}
    assert FLAGS == (fields - sections) | {name.replace("-", "_") for name in options} | {
        "help",
        "schedule",
        "profile",  # a feature has it
    }
