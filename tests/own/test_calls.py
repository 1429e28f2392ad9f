"""What a call may take besides arrays with B, by TOML and by --example, and what may make a module."""

import re
from pathlib import Path

import numpy as np
import pytest

from generated import find_own

from redco_new.errors import RedcoError
from redco_new.request import Request
from redco_new.request.own_class import Constant, Input, OwnClass

HERE = Path(__file__).parent
ENCODER = """
[model]
words = 32
width = 16

[inputs]
text = {ids = {shape = ["B", 12], dtype = "int32"}, pair = [{shape = ["B", 12]}]}
cache = "None"
mask = {shape = [12], dtype = "bool", value = true}
step = {shape = [], dtype = "int32", value = 3}
scales = {low = 0.5}
"""


def asked(tmp_path, text, model="nets_calls.py:Encoder", recipe="lm", **flags):
    (tmp_path / "net.toml").write_text(text)
    config = str(tmp_path / "net.toml")
    return Request.from_flags("calls", str(HERE / model), config=config, recipe=recipe, **flags)


def found(request):
    assert request.own
    return find_own(request.model, request.recipe, request.own, request.name, Path())


def written(tmp_path, text, given):
    """The model of a class Net in a file, and of a function given() there that makes up its inputs."""
    (tmp_path / "written.py").write_text(f"{text}\n\n\ndef given():\n    {given}\n")
    told = OwnClass(example="written.py:given")
    return find_own("written.py:Net", "regress", told, "my-project", tmp_path)


def test_a_call_by_toml(tmp_path):
    request = asked(tmp_path, ENCODER)
    assert Request.from_toml(request.to_toml()) == request
    inputs = request.own.inputs
    assert (inputs["cache"], inputs["step"]) == (Constant(None), Constant(3, (), "int32"))
    model = found(request)
    assert list(model.inputs) == ["text_ids", "text_pair_0"]
    assert model.source.call == (
        "self.net(text={'ids': text_ids, 'pair': (text_pair_0,)}, cache=None, "
        "mask=np.ones(12, bool), step=np.full((), 3, np.int32), scales={'low': 0.5})"
    )
    assert "import numpy as np" in model.source.imports


def test_a_call_by_example(tmp_path):
    path = str(HERE / "nets_calls.py")
    request = Request.from_flags("calls", f"{path}:Encoder", example=f"{path}:example", recipe="lm")
    model = found(request)
    assert model.inputs["text_ids"] == Input((12,), "int32")
    mask = "import_file(CLASS_FILE).example()[1]['mask']"
    assert f"mask={mask}, step=np.full((), 3, np.int32)" in model.source.call
    assert "'pair': [text_pair_0]" in model.source.call


def test_another_method(tmp_path):
    text = 'method = "encode"\n[model]\nwords = 32\nwidth = 16\n[inputs]\nids = {shape = ["B", 12], dtype = "int32"}\n'
    request = asked(tmp_path, text)
    assert Request.from_toml(request.to_toml()) == request
    assert found(request).source.call == "self.net.encode(ids=ids)"
    text = 'method = "score"\n[model]\nwidth = 8\n[inputs]\nscale = 2.0\nx = {shape = ["B", 4]}\n'
    source = found(asked(tmp_path, text, "nets_calls.py:Head", "classify")).source
    assert source.call == "self.net.score(scale=2.0, x=x)"
    assert 'method="score"' in source.construct[-1]
    with pytest.raises(RedcoError, match=re.escape("method: Head has no scores; give one")):
        text = text.replace('"score"', '"scores"')
        found(asked(tmp_path, text, "nets_calls.py:Head", "classify"))


@pytest.mark.parametrize(
    ("name", "arguments", "source"),
    [
        ("make_head", "width = 8", "make_head(width=config.width)"),
        ("narrow", "", "narrow()"),
        ("made", "", "made"),
    ],
)
def test_what_makes_a_module(tmp_path, name, arguments, source):
    text = f'[model]\n{arguments}\n[inputs]\nflag = "up"\nx = {{shape = ["B", 8]}}\n'
    model = found(asked(tmp_path, text, f"nets_calls.py:{name}", "classify"))
    assert (model.name, model.source.model_class) == ("Head", "HeadModel")
    assert any(
        f"ToNNX(import_file(CLASS_FILE).{source})" in line for line in model.source.construct
    )


def test_a_function_that_makes_a_module_of_nnx(tmp_path):
    text = 'method = "encode"\n[model]\nwords = 9\n[inputs]\nids = {shape = ["B", 12], dtype = "int32"}\n'
    model = found(asked(tmp_path, text, "nets_calls.py:make_encoder"))
    encoder = "import_file(CLASS_FILE).make_encoder(words=config.words, rngs=rngs)"
    assert model.source.construct == (f"self.net = {encoder}",)


NET = "import numpy as np\nfrom flax import nnx\n\n\nclass Net(nnx.Module):\n    def __init__(self, width, *, rngs):\n        self.up = nnx.Linear(width, 2, rngs=rngs)\n\n    def __call__(self, x, {}):\n        return self.up(x)\n"


@pytest.mark.parametrize(
    ("argument", "given", "message"),
    [
        ("y=0", "{'x': np.ones((1, 4))}", "x: an array of float64; give float32"),
        ("y=0", "{'x': np.ones((1, 4), np.int64)}", "x: an array of int64; give int32"),
        ("y", "{'x': np.ones((1, 4), 'f')}", "a call of Net needs y; add y: its shape and dtype"),
        ("y", "{'x': np.ones((1, 4), 'f'), 'y': object()}", "y: a object is no array, number"),
    ],
)
def test_inputs_that_do_not_fit(tmp_path, argument, given, message):
    with pytest.raises(RedcoError, match=re.escape(message)):
        written(tmp_path, NET.format(argument), f"return {{'width': 4}}, {given}")


def test_a_part_with_a_name_of_the_bridge_needs_a_wrapper(tmp_path):
    text = '[inputs]\nx = {shape = ["B", 4]}\n'
    with pytest.raises(
        RedcoError, match="Named has a part 'module', which nnx.bridge.ToNNX"
    ) as error:
        found(asked(tmp_path, text, "nets_calls.py:make_named", "classify"))
    code = str(error.value).split("say:\n\n")[1].replace("\n    ", "\n").removeprefix("    ")
    (tmp_path / "wrapped.py").write_text(code)
    (tmp_path / "nets_calls.py").write_text((HERE / "nets_calls.py").read_text())
    told = OwnClass({}, {"x": Input((4,))})
    assert find_own("wrapped.py:Wrapped", "classify", told, "my-project", tmp_path).abstract.linen


def test_an_output_beside_an_example(tmp_path):
    path = str(HERE / "nets_calls.py")
    (tmp_path / "net.toml").write_text('output = "logits"\nmethod = "encode"\n')
    config = str(tmp_path / "net.toml")
    request = Request.from_flags("a", f"{path}:Encoder", config=config, example=f"{path}:example")
    assert Request.from_toml(request.to_toml()).own == request.own
    assert (request.own.output, request.own.method) == ("logits", "encode")


def test_an_output_without_rows_in_front_needs_a_wrapper(tmp_path):
    text = NET.format("y=0").replace("return self.up(x)", "return self.up(x).T[..., None]")
    with pytest.raises(RedcoError) as caught:
        written(tmp_path, text, "return {'width': 4}, {'x': np.ones((1, 4), 'f')}")
    assert "of 8 rows, Net makes an array (2, 8, 1), and no numbers; give a class" in str(
        caught.value
    )
    assert "return self.net(x=x)" in str(caught.value)


def test_an_output_that_compares_rows_with_each_other(tmp_path):
    text = NET.format("y=0").replace("return self.up(x)", "return self.up(x) @ self.up(x).T")
    with pytest.raises(RedcoError, match="Net makes an array of which two dims are B: ") as caught:
        written(tmp_path, text, "return {'width': 4}, {'x': np.ones((1, 4), 'f')}")
    assert "compare rows in `loss` of pipeline.py" in str(caught.value)
    text = NET.format("y=0").replace("width, 2", "width, 8")
    same = written(tmp_path, text, "return {'width': 8}, {'x': np.ones((1, 8), 'f')}")
    assert same.output.shape == (8, 8)  # as wide as the rows that are traced


def test_a_wrapper_that_is_ready_to_paste(tmp_path):
    with pytest.raises(RedcoError) as caught:
        written(
            tmp_path,
            NET.format("y"),
            "return {'width': 4}, {'x': np.ones((1, 4), 'f'), 'y': object()}",
        )
    code = str(caught.value).split("say:\n\n")[1].replace("\n    ", "\n").removeprefix("    ")
    assert "self.net(x=x, y=...)" in code
    assert len(code.splitlines()) <= 9
    (tmp_path / "wrapped.py").write_text(code)
    told = OwnClass({"width": 4}, {"x": Input((4,))})
    model = find_own("wrapped.py:Wrapped", "regress", told, "my-project", tmp_path)
    assert model.output.shape[1:] == (2,)
    assert np.prod(model.output.shape) > 0
