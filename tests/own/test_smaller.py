"""The preset tiny of a class: the user's arguments, or sizes that are looked for."""

import re
from pathlib import Path

import pytest

from generated import find_own, texts

from redco_new.errors import RedcoError
from redco_new.request import Request
from redco_new.request.own_class import Input, OwnClass

HERE = Path(__file__).parent
IDS, IMAGE = {"ids": Input((512,), "int32")}, {"image": Input((64, 64, 3))}


def own(name, recipe, shards=4, **said):
    model = f"nets_large.py:{name}"
    return find_own(model, recipe, OwnClass(**said), "my-project", HERE, shards)


def test_layers_words_and_widths():
    deep = own("Deep", "lm", inputs=IDS)
    # 512 positions are as many as the ids of an example; heads stay, and get 8 numbers each.
    assert deep.tiny.changes == {"layers": 2, "words": 384, "width": 64}
    assert deep.contents["ids"].below == 384  # which the full model has too
    assert deep.source.tiny == deep.tiny.changes
    assert "words: int = 32000" in deep.source.config_fields


def test_hundreds_of_layers_are_layers():
    changes = own("Stack", "regress", inputs={"x": Input((96,))}).tiny.changes
    assert changes == {"layers": 2}


def test_a_dataclass_of_sizes():
    fused = own("Fused", "lm", example="nets_large.py:fused")
    # Odd, as the full one is by 4; one width alone is refused by the dataclass itself.
    sizes = {"n_layer": 2, "vocab_size": 385, "n_embd": 96, "head_dim": 8}
    assert fused.tiny.changes == {"config": sizes}
    assert fused.source.tiny == {"tiny": True}
    text = "replace(arguments['config'], n_layer=2, vocab_size=385, n_embd=96, head_dim=8)"
    assert f"arguments['config'] = {text}" in "".join(fused.source.construct)


def test_heads_are_no_layers_that_cannot_be_split():
    assert own("Headed", "regress", inputs={"x": Input((512,))}).tiny.changes == {"heads": 4}


def test_a_tiny_model_has_no_parameter_that_the_full_one_has_not():
    """Narrower blocks have a connection behind the stem, of which sharding.py would have no spec."""
    inputs = {"image": Input((8, 8, 3))}
    model = "nets_linen.py:residual"
    net = find_own(model, "classify", OwnClass(inputs=inputs), "my-project", HERE, 2)
    assert not net.tiny.changes and any("layers_2/skip" in x for x in net.abstract.paths)
    said = OwnClass(inputs=inputs, tiny={"widths": (64, 128)})
    with pytest.raises(RedcoError, match="has .*layers_1/skip/.*, and the full model has not"):
        find_own(model, "classify", said, "my-project", HERE, 2)


def test_several_sizes_in_one():
    wide = own("Wide", "classify", inputs=IMAGE)
    assert wide.tiny.changes == {"depths": (1, 1, 1), "widths": (8, 16, 64)}


def test_what_the_user_says():
    wide = own("Wide", "classify", inputs=IMAGE, tiny={"depths": (1, 1, 1)})
    assert wide.source.tiny == {"depths": (1, 1, 1)}
    wide = own("Wide", "classify", example="nets_large.py:wide")
    assert wide.tiny.by_function and wide.source.tiny == {"tiny": True}
    assert "arguments, _ = import_file(CLASS_FILE).wide(tiny=config.tiny)" in wide.source.construct


@pytest.mark.parametrize(
    ("tiny", "message"),
    [
        ({"widths": (8, 8)}, "Wide cannot be traced: ValueError: zip() argument 2 is longer"),
        ({"classes": 10}, "[model.tiny]: Wide gives (8, 10), and the full model (8, 1000)"),
        ({"width": 10}, "[model.tiny]: [model]: Wide takes no width; did you mean widths?"),
    ],
)
def test_a_preset_that_does_not_work(tiny, message):
    with pytest.raises(RedcoError, match=re.escape(message)):
        own("Wide", "classify", inputs=IMAGE, tiny=tiny)


def test_a_preset_that_does_not_divide(tmp_path):
    text = "[model]\nclasses = 1000\n[model.tiny]\nwidths = [8, 16, 30]\n"
    (tmp_path / "wide.toml").write_text(f'{text}[inputs]\nimage = {{shape = ["B", 32, 32, 3]}}\n')
    flags = {"config": str(tmp_path / "wide.toml"), "recipe": "classify", "shards": "4"}
    request = Request.from_flags("wide", str(HERE / "nets_large.py:Wide"), **flags)
    with pytest.raises(RedcoError, match="is 30, which the full model splits in 4; give sizes"):
        texts(request)


def test_a_small_class_stays_as_it_is():
    narrow = {"widths": (8, 16), "depths": (1, 1)}
    assert own("Wide", "classify", arguments=narrow, inputs=IMAGE).tiny.changes == {}
