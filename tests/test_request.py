"""What may be asked for, by flags and by redco.toml."""

import re
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redco_new.errors import RedcoError
from redco_new.request.mesh import AXES, RARE, parse_mesh
from redco_new.request.features import FEATURES
from redco_new.request import DTYPES, PRODUCTS, STAGES, Request


def refused(match):
    return pytest.raises(RedcoError, match=re.escape(match))


@pytest.mark.parametrize(
    ("shards", "mesh", "sizes"),
    [
        (None, None, (-1, 1, 1, 1)),
        ("1", None, (-1, 1, 1, 1)),
        ("4", None, (-1, 1, 1, 4)),
        (None, "data=2,fsdp=1,model=4", (2, 1, 1, 4)),
        (None, "model=4,data=2,expert=8", (2, 1, 8, 4)),
        (None, "data=-1,fsdp=8", (-1, 8, 1, 1)),
        ("4", "data=2", (2, 1, 1, 4)),
        ("4", "model=4", (-1, 1, 1, 4)),
    ],
)
def test_mesh(shards, mesh, sizes):
    parsed = parse_mesh(shards, mesh)
    assert tuple(parsed) == tuple(axis for axis in AXES if axis not in RARE)
    assert tuple(parsed.values()) == sizes


@pytest.mark.parametrize("shards", ["0", "-3", "x", "", "4.0", "1_0", " 4", "٤", "1" * 500])
def test_bad_shards(shards):
    with refused(f"--shards: {shards!r} is not a number of shards: 1 or more"):
        parse_mesh(shards, None)


@pytest.mark.parametrize(
    ("mesh", "message"),
    [
        ("", "--mesh: '' is not AXIS=SIZE"),
        ("model", "--mesh: 'model' is not AXIS=SIZE"),
        ("model=", "--mesh: 'model=' is not AXIS=SIZE"),
        ("model=x", "--mesh: 'model=x' is not AXIS=SIZE"),
        ("model=4,", "--mesh: '' is not AXIS=SIZE"),
        (
            "modle=4",
            "--mesh: unknown axis 'modle'; the axes are stage, data, fsdp, expert, context, model",
        ),
        ("model=4,model=4", "--mesh: the axis 'model' is given twice"),
        ("model=0", "--mesh: model=0 is not a size"),
        ("model=-1", "--mesh: model=-1 is not a size"),
        ("data=0", "--mesh: data=0 is not a size"),
        ("data=-2", "--mesh: data=-2 is not a size"),
    ],
)
def test_bad_mesh(mesh, message):
    with refused(message):
        parse_mesh(None, mesh)


def test_shards_that_the_mesh_contradicts():
    with refused("--shards: 4 contradicts model=2 of --mesh; make them equal"):
        parse_mesh("4", "data=2,fsdp=1,model=2")


@pytest.mark.parametrize("dtype", ["float16", "", "BFLOAT16"])
def test_bad_dtype(dtype):
    with refused(f"--dtype: unknown dtype {dtype!r}; choose one of bfloat16, float32"):
        Request.from_flags("a", "gpt-j", dtype=dtype)


@pytest.mark.parametrize("zero", [-1, 2, 3])
def test_bad_zero(zero):
    with refused(f"--zero: {zero} is not a stage of ZeRO that redco has; give 0 or 1; stage 3, "):
        Request.from_flags("a", "gpt-j", zero=zero)


@pytest.mark.parametrize("word", ["", "  ", "a\nb", "\x7f"])
def test_bad_model_and_recipe(word):
    with refused(f"--model: {word!r} is not a name"):
        Request.from_flags("a", word)
    with refused(f"--recipe: {word!r} is not a name"):
        Request.from_flags("a", "gpt-j", recipe=word)


SIZE = st.integers(1, 999_999_999)
WORD = st.text(min_size=1).filter(lambda s: s.isprintable() and s.strip())


SETTINGS = st.fixed_dictionaries(
    {
        "recipe": WORD,
        "dtype": st.sampled_from(DTYPES),
        "products": st.sampled_from(PRODUCTS),
        "zero": st.sampled_from(STAGES),
        "sequence_parallel": st.booleans(),
        "features": st.sets(st.sampled_from([*FEATURES])).map(
            lambda some: tuple(x for x in FEATURES if x in some)
        ),
    }
)


@given(
    model=WORD.filter(lambda s: ":" not in s),
    sizes=st.tuples(*[SIZE] * len(AXES[1:])),
    settings=SETTINGS,
)
def test_toml_gives_the_request_back(model, sizes, settings):
    mesh = ",".join(f"{axis}={size}" for axis, size in zip(AXES[1:], sizes, strict=True))
    request = Request.from_flags("my-project", model, mesh=mesh, **settings)
    assert Request.from_toml(request.to_toml()) == request
    assert request.to_dict() == tomllib.loads(request.to_toml())


@pytest.mark.parametrize("axis", ["fsdp", "context"])
def test_stages_go_with_data_expert_and_model(axis):
    assert parse_mesh(None, "stage=4,data=2,expert=2,model=2")["stage"] == 4
    with refused(f"--mesh: stage=4 goes with data, expert and model, and not with {axis}=2"):
        parse_mesh(None, f"stage=4,{axis}=2")


def test_toml_defaults_are_those_of_the_flags():
    short = Request.from_toml('name = "a"\nmodel = "gpt-j"\n')
    assert short == Request.from_flags("a", "gpt-j")


def test_products_stand_in_redco_toml_where_they_are_asked_for():
    asked = Request.from_flags("a", "gpt-j", products="float8")
    assert 'products = "float8"' in asked.to_toml() and asked.with_flags() == asked
    assert "products" not in asked.with_flags(products="compute").to_toml()
    with refused("--products: unknown products 'fp8'; choose one of compute, float8, int8"):
        Request.from_flags("a", "gpt-j", products="fp8")


GOOD = Request.from_flags("a", "gpt-j", shards="4", recipe="lm").to_toml()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", "redco.toml: not TOML: "),
        ('model = "gpt-j"', "redco.toml: the key 'name' is missing; add name = \"...\""),
        ('name = "a"', "redco.toml: the key 'model' is missing"),
        (
            "shards = 4\n" + GOOD,
            "redco.toml: unknown key 'shards'; the keys are checkpoint, context_attention, copyright, dropout, dtype, features, gradients_across, launch, license, lora, loss,",
        ),
        (GOOD.replace('"a"', '"class"'), "redco.toml: name: 'class' is a Python keyword"),
        (GOOD.replace('"a"', '"../a"'), "redco.toml: name: '../a' is not a project name"),
        (GOOD.replace('"a"', "1"), "redco.toml: name: 1 is not a name"),
        (GOOD.replace('"gpt-j"', "[]"), "redco.toml: model: [] is not a name"),
        (GOOD.replace('"lm"', "{}"), "redco.toml: recipe: {} is not a name"),
        (GOOD.replace('"bfloat16"', "[1]"), "redco.toml: dtype: unknown dtype [1]"),
        (GOOD.replace("model = 4", "model = 0"), "redco.toml: mesh: model=0 is not a size"),
        (GOOD.replace("model = 4", "model = true"), "redco.toml: mesh: model=True is not a size"),
        (GOOD.replace("model = 4", "model = 4.0"), "redco.toml: mesh: model=4.0 is not a size"),
        (GOOD.replace("model = 4", "modle = 4"), "redco.toml: mesh: unknown axis 'modle'"),
        (GOOD.replace("zero = 0", "zero = true"), "redco.toml: zero: True is not a stage of ZeRO"),
        (GOOD.replace("zero = 0", "zero = 1.0"), "redco.toml: zero: 1.0 is not a stage of ZeRO"),
        (
            GOOD.replace("sequence_parallel = false", "sequence_parallel = 1"),
            "redco.toml: sequence_parallel: 1 is neither true nor false; give one of them",
        ),
        ('mesh = 4\nname = "a"\nmodel = "b"', "redco.toml: mesh: 4 is not a table"),
    ],
)
def test_bad_toml(text, message):
    with refused(message):
        Request.from_toml(text)
