"""--hardware NAME[:SHAPE], and the table of machines behind it."""

import pytest

from redco_new.errors import RedcoError
from redco_fit.hardware import HARDWARE, SHARE
from redco_fit.target import parse_target


@pytest.mark.parametrize(
    ("text", "name", "hosts", "per_host"),
    [
        ("h100", "h100:1", 1, 1),
        ("h100:8", "h100:8", 1, 8),
        ("h100:64", "h100:8x8", 8, 8),
        ("a100-40g:2x4", "a100-40g:2x4", 2, 4),
        ("v5p:64", "v5p:4x4x4", 16, 4),
        ("v5e:2x4", "v5e:2x4", 2, 4),
        ("7x:2x2x1", "7x:2x2x1", 1, 8),
    ],
)
def test_a_shape_is_hosts_and_devices_or_the_sides_of_a_slice(text, name, hosts, per_host):
    target = parse_target(text)
    assert (target.name, target.hosts, target.per_host) == (name, hosts, per_host)
    assert parse_target(target.name) == target
    assert target.devices == hosts * per_host


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("h1000", "no hardware is called 'h1000'; choose one of v4, v5e"),
        ("h100:", "'' is no shape"),
        ("h100:0", "'0' is no shape"),
        ("h100:1x2x3", "has 3 sides, and h100 has 2"),
        ("v5p:2x2", "has 2 sides, and v5p has 3"),
        ("v5e:3", "no slice of v5e has 3 chips; give one of 1, 4, 8"),
        ("h100:9999999x9", "more devices than any machine"),
    ],
)
def test_what_no_machine_is_is_named(text, says):
    with pytest.raises(RedcoError, match="^--hardware: ") as error:
        parse_target(text)
    assert says in str(error.value)


def test_a_slice_that_no_hosts_make_up_has_the_nearest_larger_one():
    assert parse_target("v5e:3x3").buildable.name == "v5e:4x4"
    assert parse_target("v5e:4x4").buildable.name == "v5e:4x4"
    assert parse_target("v4:1x1x1").buildable.name == "v4:1x1x1"


def test_the_share_of_a_gpu_that_a_run_takes_is_that_of_its_environment(monkeypatch):
    h100, v5p = HARDWARE["h100"], HARDWARE["v5p"]
    assert h100.usable == int(0.75 * h100.memory)
    monkeypatch.setenv(SHARE, "0.9")
    assert h100.usable == int(0.9 * h100.memory)
    assert v5p.usable == v5p.memory


def test_every_machine_has_its_figures():
    for one in HARDWARE.values():
        assert one.memory > 10 * 10**9 and 1e11 < one.bandwidth < 1e13
        assert one.flops["float32"] <= one.flops["bfloat16"] and one.host_link < 1e12


def test_what_no_device_multiplies_in_is_refused_by_name():
    for name, products in (
        ("h100", "float8"),
        ("l40s", "float8"),
        ("v5e", "int8"),
        ("v4", "compute"),
    ):
        parse_target(name).check_products(products)
    for name, products in (
        ("a100-80g", "float8"),
        ("v5p", "float8"),
        ("v4", "int8"),
        ("h100", "int8"),
    ):
        with pytest.raises(RedcoError) as error:
            parse_target(name).check_products(products)
        assert f"--products {products}: {HARDWARE[name].kind} has no such products" in str(
            error.value
        )
