"""Steps that others have published: the model, the machine, the mesh, and the tokens a second or FLOP/s of a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from redco_new.models.families.llama import _llama
from redco_new.models.family import Size

NOTHING, ALL = "nothing_saveable", "all"
QKV = "heads_BSNH,kv_BSKH"  # what the runtime calls what MaxText calls query_proj, key_proj, value_proj
OUT = "heads_BSNH,kv_BSKH,mid_BSD"  # and with out_proj
MINIMAL = "heads_BSNH,kv_BSKH,mid_BSD,u_BSF"  # MaxText's minimal: all products but attention's
# torchtitan's selective checkpointing makes every second product again: of these two of three, by far the largest two.
SELECTIVE = "attention,heads_BSNH,kv_BSKH,mid_BSD"

# What sources say of their machines, where redco's table of hardware has others.
A3 = {"host_link": 100e9}  # cloud.google.com/compute/docs/gpus: 800 Gb/s a host of A3 High
# "96GB HBM2e with 2.4 TB/sec", "500W power limit", "actual peak is between SXM and NVL": the middle of 989 and 835.
GRAND_TETON = {"bandwidth": 2.4e12, "flops": {"bfloat16": 912e12, "float32": 456e12}}

TITAN = "pytorch/torchtitan b5bcd76, benchmarks/"
MAXTEXT = "AI-Hypercomputer/maxtext e591f30, src/maxtext/configs/"
RECIPES = "AI-Hypercomputer/tpu-recipes c8cfe2f, training/trillium/"
MEGATRON = "NVIDIA/Megatron-LM d98e8a6, README.md"
FOUNDRY = "mosaicml/llm-foundry 8c8dd48, scripts/train/benchmarking/README.md"


def _maxtext(scale: int) -> Size:
    """Return MaxText's default model of `scale` billion parameters (get_individual_scales, base.yml)."""
    thirds, rest = divmod(scale.bit_length() - 1, 3)
    embed, heads = 2 ** (thirds + (rest > 1)), 2 ** (thirds + (rest > 0))
    config = _llama(16 * 2**thirds, 2048 * embed, 7168 * heads, 16 * heads, 2048)
    return Size({**config, "head_dim": 128}, "meta-llama/Llama-2-7b-hf")


def _gpt(layers: int, embed: int, heads: int, vocab: int, positions: int) -> Size:
    config = {"n_layer": layers, "n_embd": embed, "n_head": heads, "vocab_size": vocab}
    return Size({**config, "n_positions": positions}, "openai-community/gpt2")


# Sizes that no family of redco has a name for.
LLAMA_SIZES = {f"maxtext-{n}b": _maxtext(n) for n in (16, 32, 64, 128, 256, 512, 1024)}
GPT_SIZES = {
    "megatron-7.1b": _gpt(30, 4096, 32, 131072, 4096),
    "megatron-16b": _gpt(32, 6144, 48, 131072, 4096),
    "megatron-32b": _gpt(48, 7168, 56, 131072, 4096),
    "mpt-30b": _gpt(48, 7168, 56, 50368, 2048),
    "mpt-70b": _gpt(80, 8192, 64, 50368, 2048),
}


@dataclass(frozen=True)
class Row:
    """A published step.

    rows: examples of a step over all devices, of `length` tokens.  remat: as config.py has it, or ALL.
    tokens: a second and device.  tflops: of a device in the place of tokens, that count attention with all pairs of positions.
    machine: fields of the hardware that the source says otherwise.  source: repository and commit, file.
    """

    model: str
    size: str
    hardware: str
    mesh: str
    rows: int
    length: int
    remat: str
    source: str
    tokens: float = 0.0
    tflops: float = 0.0
    sequence_parallel: bool = False
    zero: int = 0
    machine: Mapping[str, Any] = field(default_factory=dict)


def _v5e(scale: int, mesh: str, each: int, remat: str, tflops: float) -> Row:
    source = f"{MAXTEXT}tpu/v5e/README.md"
    return Row(
        "llama",
        f"maxtext-{scale}b",
        "v5e:256",
        mesh,
        256 * each,
        2048,
        remat,
        source,
        tflops=tflops,
    )


def _v5p(scale: int, chips: int, model: int, each: int, remat: str, tflops: float) -> Row:
    mesh, source = f"fsdp={chips // model},model={model}", f"{MAXTEXT}tpu/v5p/README.md"
    size, rows = f"maxtext-{scale}b", chips * each
    return Row("llama", size, f"v5p:{chips}", mesh, rows, 2048, remat, source, tflops=tflops)


def _v6e(
    size: str, folder: str, chips: int, each: int, remat: str, tokens: float, length: int = 8192
) -> Row:
    source = f"{RECIPES}{folder}"
    return Row(
        "llama", size, f"v6e:{chips}", f"fsdp={chips}", chips * each, length, remat, source, tokens
    )


def _a3(hosts: int, tflops: float) -> Row:
    mesh, source = f"data={hosts},fsdp=8", f"{MAXTEXT}gpu/a3/llama_2_7b/README.md"
    remat, rows = f"attention,{MINIMAL}", 32 * hosts
    return Row(
        "llama",
        "7b",
        f"h100:{8 * hosts}",
        mesh,
        rows,
        4096,
        remat,
        source,
        tflops=tflops,
        machine=A3,
    )


def _titan(
    size: str, mesh: str, devices: int, rows: int, remat: str, file: str, tokens: float
) -> Row:
    source, parallel = f"{TITAN}{file}", "model" in mesh
    hardware = f"h100:{devices}"
    return Row(
        "llama",
        size,
        hardware,
        mesh,
        rows,
        8192,
        remat,
        source,
        tokens,
        0.0,
        parallel,
        0,
        GRAND_TETON,
    )


def _megatron(size: str, model: int, tflops: float) -> Row:
    mesh = f"data=48,model={model}"
    return Row(
        "gpt2", size, f"h100:{48 * model}", mesh, 192, 4096, ALL, MEGATRON, 0.0, tflops, True, 1
    )


def _mpt(size: str, devices: int, tokens: float) -> Row:
    rows, mesh = 8 * devices, f"fsdp={devices}"
    return Row("gpt2", size, f"h100:{devices}", mesh, rows, 2048, NOTHING, FOUNDRY, tokens)


ROWS = (
    _titan("3.1-8b", "fsdp=128", 128, 256, SELECTIVE, "llama3_h100_202412_torchtitan.md", 6514),
    _titan(
        "3.1-8b",
        "fsdp=8,model=8",
        64,
        96,
        SELECTIVE,
        "asyncTP_llama3_h100_2025-06_torchtitan.md",
        4378,
    ),
    _titan(
        "3.1-70b",
        "fsdp=32,model=8",
        256,
        512,
        NOTHING,
        "asyncTP_llama3_h100_2025-06_torchtitan.md",
        597.3,
    ),
    _a3(8, 409),
    _a3(16, 375),
    _megatron("megatron-7.1b", 2, 465.9),
    _megatron("megatron-16b", 4, 489.1),
    _megatron("megatron-32b", 8, 459.6),
    _mpt("mpt-30b", 128, 2199),
    _mpt("mpt-30b", 512, 2115),
    _mpt("mpt-70b", 128, 1058),
    _mpt("mpt-70b", 512, 1007),
    _v5e(16, "fsdp=256", 6, NOTHING, 120),
    _v5e(32, "fsdp=256", 4, NOTHING, 132),
    _v5e(64, "fsdp=256", 2, NOTHING, 118),
    _v5e(128, "fsdp=16,model=16", 1, QKV, 110),
    _v5p(32, 64, 4, 6, MINIMAL, 328),
    _v5p(64, 64, 4, 3, MINIMAL, 323),
    _v5p(128, 128, 8, 1, MINIMAL, 315),
    _v5p(128, 256, 8, 1, MINIMAL, 316),
    _v5p(256, 512, 8, 1, MINIMAL, 308),
    _v5p(512, 512, 8, 2, NOTHING, 294),
    _v5p(1024, 1024, 16, 2, NOTHING, 254),
    _v5p(1024, 2048, 16, 2, NOTHING, 297),
    _v6e("3.1-8b", "Llama3.1-8B-MaxText/v6e-64", 64, 5, OUT, 7247.111),
    _v6e("3.1-8b", "Llama3.1-8B-MaxText/v6e-128", 128, 4, OUT, 7119.648),
    _v6e("3.1-8b", "Llama3.1-8B-MaxText/v6e-256", 256, 4, OUT, 7207.336),
    _v6e("3.1-70b", "Llama3.1-70B-MaxText/v6e-64", 64, 2, QKV, 876.736),
    _v6e("3.1-70b", "Llama3.1-70B-MaxText/v6e-128", 128, 4, QKV, 941.976),
    _v6e("3.1-70b", "Llama3.1-70B-MaxText/v6e-256", 256, 5, QKV, 960.248),
    _v6e("70b", "Llama2-70B-MaxText", 256, 3, QKV, 905.021, 4096),
)
