import os
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P

from redco_runtime.base.messages import UserError
from redco_runtime.layout.mesh import (
    _over_slices,
    check_divides,
    count_parts,
    make_mesh,
    parse_axes,
    use_virtual_devices,
)

AXES = ("data", "fsdp", "model")


def test_minus_one_takes_the_devices_that_are_left():
    assert dict(make_mesh({"data": -1, "fsdp": 1, "model": 2}).shape) == {
        "data": 2,
        "fsdp": 1,
        "model": 2,
    }


def test_data_goes_over_the_network_between_slices():
    slices = [
        SimpleNamespace(
            slice_index=i // 4, id=i, process_index=i, device_kind="cpu", platform="cpu"
        )
        for i in range(8)
    ]
    sizes = {"data": 2, "fsdp": 1, "model": 4}
    ours = _over_slices(sizes, 2, slices)
    assert ours.shape == (2, 1, 4)
    assert [{device.slice_index for device in row.flat} for row in ours] == [{0}, {1}]
    ours = _over_slices({"data": 1, "fsdp": 4, "model": 2}, 2, slices)
    assert [{device.slice_index for device in row.flat} for row in ours[0]] == [{0}, {0}, {1}, {1}]
    with pytest.raises(UserError, match="2 slices or hosts, and data 1, model 3 do not divide"):
        _over_slices({"data": 1, "model": 3}, 2, slices)


@pytest.mark.parametrize(
    ("sizes", "across"),
    [
        ({"stage": 2, "data": 4, "model": 2}, {"stage": 2, "data": 2, "model": 1}),
        ({"stage": 4, "data": 2, "model": 2}, {"stage": 4, "data": 1, "model": 1}),
        ({"data": 2, "fsdp": 2, "model": 4}, {"data": 2, "fsdp": 2, "model": 1}),
    ],
    ids=str,
)
def test_stages_then_data_go_over_slow_links(sizes, across):
    """Four hosts of four: along an axis, a device meets those of so many others."""
    one = {"device_kind": "cpu", "platform": "cpu"}
    hosts = [SimpleNamespace(slice_index=i // 4, id=i, process_index=i, **one) for i in range(16)]
    ours = _over_slices(sizes, 4, hosts)
    for dim, axis in enumerate(sizes):
        along = [device.slice_index for device in np.moveaxis(ours, dim, 0)[:, 0, 0]]
        assert len({*along}) == across[axis], axis


def test_virtual_devices_have_two_threads_each_and_all_cores_theirs(monkeypatch):
    monkeypatch.setattr(jax.config, "update", lambda *_: None)
    for cores, said, wanted in ((2, None, "16"), (64, None, "64"), (2, "5", "5")):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        monkeypatch.delenv("PJRT_NPROC", raising=False)
        if said:
            monkeypatch.setenv("PJRT_NPROC", said)
        use_virtual_devices(8)
        assert os.environ["PJRT_NPROC"] == wanted


def test_given_devices_only():
    mesh = make_mesh(dict.fromkeys(AXES, 1), jax.devices()[2:3])
    assert mesh.devices.ravel().tolist() == jax.devices()[2:3]


@pytest.mark.parametrize(
    "axes",
    [
        {"data": 1, "fsdp": 1, "model": 2},
        {"data": -1, "fsdp": 1, "model": 3},
        {"data": -1, "fsdp": 1, "model": 8},
    ],
)
def test_a_mesh_that_does_not_fit_says_what_to_do(axes):
    with pytest.raises(UserError) as error:
        make_mesh(axes)
    assert "4 cpu device(s) are here" in str(error.value)
    assert f"--virtual-devices {axes['model']}" in str(error.value)
    assert "--mesh data=4,fsdp=1,model=1" in str(error.value)


def test_axes_that_are_not_named_have_size_one():
    assert parse_axes("data=2", AXES) == {"data": 2, "fsdp": 1, "model": 1}
    assert parse_axes("data=-1,model=2", AXES) == {"data": -1, "fsdp": 1, "model": 2}


@pytest.mark.parametrize("text", ["", "data", "data=", "data=0", "data=-2", "row=2", "data=x"])
def test_bad_axes(text):
    with pytest.raises(UserError, match="--mesh: .* is not an axis and its size: give some of"):
        parse_axes(text, AXES)


@pytest.mark.parametrize(
    ("spec", "parts"), [(P(), 1), (P(None), 1), (P("data"), 2), (P(("data", "model")), 4)]
)
def test_parts_of_the_rows(spec, parts):
    mesh = make_mesh({"data": 2, "fsdp": 1, "model": 2})
    assert count_parts(NamedSharding(mesh, spec)) == parts


def test_what_the_devices_cannot_split_is_named():
    table = {"sequence_length": ("fsdp", "model")}
    with jax.set_mesh(make_mesh({"data": 1, "fsdp": 2, "model": 2})):
        check_divides(SimpleNamespace(sequence_length=8), table)
        with pytest.raises(
            UserError, match="sequence_length 10 does not divide by 4, .*: make it 12"
        ):
            check_divides(SimpleNamespace(sequence_length=10), table)
        # As a ring has it, which cuts a text for each device in two.
        with pytest.raises(UserError, match="divide by 8, twice the devices .*: make it 16"):
            check_divides(SimpleNamespace(sequence_length=12), table, pieces=2)
    with jax.set_mesh(make_mesh({"data": 4, "fsdp": 1, "model": 1})):
        check_divides(SimpleNamespace(sequence_length=11), table, pieces=2)
