"""An adapter of PEFT as a start: its base, and what does not fit the model, each a message of its own."""

import json

import jax
import numpy as np
import pytest
from redco_runtime.checkpoints.lora.lora import Lora
from redco_runtime.checkpoints.lora.peft import base_of, read_adapter
from redco_runtime.base.messages import UserError
from redco_runtime.base.tensors import Tensor
from safetensors.numpy import save_file

LORA = Lora(2, 4.0)
CONFIG = {"peft_type": "LORA", "r": 2, "lora_alpha": 4.0, "base_model_name_or_path": "base"}
# q and k are the rows of one tensor, 4 and 2 of them; of 3 features that come in.
TABLE = {
    "h/q/kernel": Tensor("h.{}.qk.weight", (1, 0), (0, 0, 4)),
    "h/k/kernel": Tensor("h.{}.qk.weight", (1, 0), (0, 4, 6)),
}
SIZES = {"h/q/lora_a": (2, 3, 2), "h/q/lora_b": (2, 2, 4), "h/k/lora_a": (2, 3, 2)}
SIZES |= {"h/k/lora_b": (2, 2, 2)}
MODULE = "base_model.model.h.{}.qk.lora_{}.weight"


def draw(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


TENSORS = {
    MODULE.format(i, end): draw(*shape)
    for i in range(2)
    for end, shape in (("A", (2, 3)), ("B", (6, 2)))
}


def write(folder, tensors=TENSORS, **changes):
    save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps(CONFIG | changes))
    return folder


def read(folder, lora=LORA):
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    like = {p: jax.ShapeDtypeStruct(x, np.float32, sharding=place) for p, x in SIZES.items()}
    return read_adapter(folder, lora, TABLE, like, like, {})


def test_layers_that_peft_has_as_one_share_its_features(tmp_path):
    arrays = read(write(tmp_path))
    for layer, rows in (("q", slice(0, 4)), ("k", slice(4, 6))):
        for i in range(2):
            a, b = (TENSORS[MODULE.format(i, end)] for end in "AB")
            np.testing.assert_array_equal(arrays[f"h/{layer}/lora_a"][i], a.T)
            np.testing.assert_array_equal(arrays[f"h/{layer}/lora_b"][i], b[rows].T)
    assert base_of(str(tmp_path)) == "base"
    assert base_of("some/model") == "some/model" and base_of(None) == ""


@pytest.mark.parametrize(
    "changes, what",
    [
        ({"r": 8}, "of rank 8, and the model's is 2: give --lora-rank 8"),
        (
            {"lora_alpha": 16},
            "alpha 16 / the rank .* 8, and the model's 2 times: give --lora-alpha 16",
        ),
        (
            {"lora_alpha": 4, "use_rslora": True},
            "alpha 4 / the root of the rank .* give --lora-alpha 4 --use-rslora true",
        ),
        ({"use_dora": True}, "is one of DoRA, .* redco update --lora dora=true"),
        ({"alpha_pattern": {"qk": 8}}, "qk adds 4 times its products, and other layers 2"),
        ({"rank_pattern": {"qk": "a"}}, "has no numbers above 0"),
        ({"lora_alpha": None}, "lora_alpha of adapter_config.json is None, and no number"),
        ({"peft_type": "IA3"}, "of kind IA3, and not LORA"),
        (
            {"tensors": {**TENSORS, "base_model.model.head.lora_A.weight": draw(2, 3)}},
            "head.lora_A",
        ),
        ({"tensors": dict([*TENSORS.items()][:2])}, "lacks .*h.1.qk.lora_A.weight"),
        ({"tensors": {k: x[:, :1] for k, x in TENSORS.items()}}, "there, .* here"),
    ],
)
def test_what_does_not_fit_is_named(changes, what, tmp_path):
    with pytest.raises(UserError, match=what):
        read(write(tmp_path, **changes))


def test_alpha_of_rslora_is_that_times_the_root_of_the_rank(tmp_path):
    folder = write(tmp_path, lora_alpha=4, use_rslora=True)
    assert read(folder, Lora(2, 5.6568542)).keys() == read(folder, Lora(2, 4 * 2**0.5)).keys()
    assert read(folder, Lora(2, 4, use_rslora=True)).keys() == SIZES.keys()
    with pytest.raises(UserError, match="give --lora-alpha 4 --use-rslora true"):
        read(folder, Lora(2, 5.6569))


def test_what_is_trained_in_full_beside_it_is_read(tmp_path, monkeypatch):
    """PEFT's modules_to_save; where an adapter has none, the head stays as the model begins."""
    monkeypatch.setitem(TABLE, "score/kernel", Tensor("score.weight", (1, 0)))
    monkeypatch.setitem(SIZES, "score/kernel", (3, 1))
    score = draw(1, 3)
    arrays = read(write(tmp_path, TENSORS | {"base_model.model.score.weight": score}))
    np.testing.assert_array_equal(arrays["score/kernel"], score.T)
    assert read(write(tmp_path)).keys() == SIZES.keys() - {"score/kernel"}
    with pytest.raises(UserError, match=r"\(3, 2\) there, \(3, 1\) here, for score/kernel"):
        read(write(tmp_path, {"base_model.model.score.weight": draw(2, 3)}))


@pytest.mark.parametrize("base", ["../../etc", "a/../../b", 5, None])
def test_a_base_that_leads_out_of_its_folder_or_is_none(base, tmp_path):
    folder = write(tmp_path, base_model_name_or_path=base)
    with pytest.raises(UserError, match="write the whole path of the folder"):
        base_of(str(folder))


def test_an_adapter_without_features_is_refused():
    with pytest.raises(UserError, match="--lora-rank: 0 is no rank: give a number above 0"):
        Lora(0, 4.0)
