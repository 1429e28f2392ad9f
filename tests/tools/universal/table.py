"""Which causal language models of transformers, and which other classes of its, become projects: each is printed at small size, and compared with PyTorch.

make table NAME=universal                      every sixth first, then the others; what results.jsonl has is not run again
make table NAME=universal ROWS="mamba bloom"   these, again
make table NAME=universal ROWS=write           the table alone, of results.jsonl

A class that several entries have is run once. One class after the other, each in a process of its own, at the lowest priority; a run that is stopped goes on where it was.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from others import OTHERS, small_others
from together import TOGETHER

HERE = Path(__file__).parent
RESULTS, TABLE = HERE / "results.jsonl", HERE / "table.md"
LONGEST = 150  # CPU seconds of a class
WORDS, LENGTH = 384, 32
# Sizes of a small model, where a config has these keys.
SMALL = {
    "vocab_size": WORDS, "hidden_size": 64, "n_embd": 64, "d_model": 64, "intermediate_size": 128, "ffn_dim": 128,
    "decoder_ffn_dim": 128, "n_inner": 128, "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2,
    "decoder_layers": 2, "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "decoder_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 128, "n_positions": 128,
    "moe_intermediate_size": 48, "shared_expert_intermediate_size": 48, "num_experts": 4, "num_local_experts": 4,
    "n_routed_experts": 4, "num_experts_per_tok": 2, "sliding_window": 16, "keep_window_size": 16, "state_size": 8, "q_lora_rank": 24,
    "kv_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "n_group": 1, "topk_group": 1, "num_expert_group": 1,
    "index_n_heads": 16, "index_head_dim": 16, "index_topk": 8, "is_decoder": True, "rotary_dim": 8,
    "dim_model": 64, "dim_head": 16, "dim_ff": 128, "emb_dim": 64, "n_words": WORDS, "max_len": 128, "ffn_hidden_size": 128,
    "expert_ffn_hidden_size": 48, "num_experts_per_token": 2, "num_kv_shared_layers": 0, "dff": 128,
    "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": WORDS, "attention_types": [[["global", "local"], 1]],
    "axial_pos_embds_dim": [24, 40], "axial_pos_shape": [4, 8], "pronunciation_vocab_size": 50, "shape_vocab_size": 60,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
    "layer_types": ["full_attention"] * 2, "default_language": "en_XX", "mamba_num_heads": 8, "mamba_head_dim": 16, "num_hash_layers": 0, "n_shared_experts": 1,
}  # fmt: skip
# By some configs, of which classes need them.
UNSET = """num_key_value_heads num_experts_per_tok head_dim num_experts n_routed_experts n_shared_experts
    layer_types default_language""".split()
# What configs call how many layers there are.
COUNTS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
# Entries with more layers, of the kinds that their own config gives them: how many.
DEEP = {
    "smollm3": 8, "gemma3_text": 14, "cohere2": 8, "olmo3": 9, "exaone4": 8, "glm4_moe": 5, "ernie4_5_moe": 4,
    "gpt_oss": 6, "qwen3_next": 8, "qwen3_5_text": 8, "llama4_text": 8, "lfm2": 6, "deepseek_v3": 5,
}  # fmt: skip
HEAD = """# Causal language models of transformers, printed

`make table NAME=universal` wrote this: classes of {version}, at small size ({sizes}).
Of {entries} entries {run} were run: {printed} are printed, {cached} of them with texts that share a row and a cache, and {refused}
refused. Errors are the largest difference from PyTorch over the largest value, in float32; bfloat16: how many times PyTorch's
own error there it is. Seconds are of the CPU, at most {longest} of a class.

| model type | class | lines | CPU s | logits | gradients | bfloat16 | decoding | refused, and why |
|---|---|---|---|---|---|---|---|---|
"""
DEEP_HEAD = """
## With more layers, of their own kinds

What comes back in one order is a period of layers in a loop; what stands before and after is apart.

| model type and layers | class | lines | CPU s | logits | gradients | bfloat16 | decoding | refused, and why |
|---|---|---|---|---|---|---|---|---|
"""
OTHER_HEAD = """
## Others

Of {entries} classes of other kinds {run} were run, and {printed} are printed. Those of text that hide words, of sources and targets, and of images
have the methods that `mlm`, `seq2seq` and `image` call; the others are called as their forward.

| reads | class | lines | CPU s | logits | gradients | bfloat16 | | refused, and why |
|---|---|---|---|---|---|---|---|---|
"""


def main(rows: list[str]) -> None:
    """Run classes that were not run yet, or those that are asked for, and write the table."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as NAMES

    entries = dict(NAMES)
    results = _read()
    deep = {f"{name}, {layers}": name for name, layers in DEEP.items()}
    order = [*list(entries)[::6], *(x for i, x in enumerate(entries) if i % 6), *OTHERS, *deep]
    chosen = rows or [x for x in order if x not in results]
    for model_type in [] if rows == ["write"] else chosen:
        name = str(entries.get(deep.get(model_type, model_type), model_type))
        there = (
            []
            if rows or model_type in deep
            else [row for row in results.values() if row["class"] == name]
        )
        row = there[0] if there else _run(name, DEEP.get(deep.get(model_type, ""), 0))
        results[model_type] = row
        with RESULTS.open("a") as out:
            out.write(json.dumps({"model_type": model_type, **row}) + "\n")
        print(model_type, row, flush=True)
        _write(entries, results)
    _write(entries, results)


def _read() -> dict[str, dict[str, Any]]:
    """Return model type -> its last result."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    rows = [json.loads(line) for line in lines]
    return {row.pop("model_type"): row for row in rows}


def _run(name: str, layers: int) -> dict[str, Any]:
    """Return what becomes of a class, in a process of its own. layers: 0 for two"""
    command = [sys.executable, __file__, "--one", name, str(layers)]
    env = os.environ | {"JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode == -signal.SIGXCPU:
        return {"class": name, "refused": f"takes more than {LONGEST} s"}
    last = (done.stdout.splitlines() or [""])[-1]
    if done.returncode or not last.startswith("{"):
        why = (done.stderr.splitlines() or ["?"])[-1]
        return {"class": name, "refused": f"fails, unsaid: {why[:160]}"}
    return {"class": name, **json.loads(last)}


def print_one(name: str, layers: int = 0) -> dict[str, Any]:
    """Return what becomes of one class: figures, or why it is refused. layers: 0 for two"""
    import jax
    import transformers

    from redco_new.errors import RedcoError
    from redco_new.own.call import Call
    from redco_new.own.find import find_reference
    from redco_new.pytorch.kinds import class_inputs
    from redco_new.pytorch.make import print_class
    from redco_new.request.own_class import Input

    transformers.logging.set_verbosity_error()
    jax.config.update("jax_numpy_rank_promotion", "allow")
    start = time.process_time()
    try:
        reference = find_reference("--model", f"transformers:{name}", HERE)
        arguments = small_arguments(reference.value.config_class)
        if layers:
            lists = {k for k, x in arguments.items() if isinstance(x, list)}
            counts = dict.fromkeys({*COUNTS} & arguments.keys(), layers)
            arguments = {k: x for k, x in arguments.items() if k not in lists} | counts
        arguments |= next((x for begin, x in TOGETHER.items() if name.startswith(begin)), {})
        inputs = {"input_ids": Input((LENGTH,), "int32", WORDS)}
        if name in OTHERS:
            arguments = small_others(reference.value, arguments)
            inputs = class_inputs(reference.value, arguments, LENGTH)
        call = Call(inputs)
        printed = print_class(reference, "small", arguments, call)
    except RedcoError as error:
        why = re.sub(r"\S*/site-packages/", "", str(error))
        return {"seconds": round(time.process_time() - start), "refused": why}
    decoding = "cache" if "empty_cache" in printed.source else "anew" if printed.hub else "none"
    decoding = "" if name in OTHERS else decoding
    return {
        "lines": len(printed.source.splitlines()),
        "seconds": round(time.process_time() - start),
        "logits": printed.gate.outputs,
        "gradients": printed.gate.gradients,
        "rounded": printed.gate.rounded and round(printed.gate.rounded, 1),
        "decoding": decoding,
    }


def small_arguments(config_class: Any) -> dict[str, Any]:
    """Return the sizes of a small model, of a config's keys that have a value; the same of configs within it."""
    fields = vars(config_class())
    there = {key for key, value in fields.items() if value is not None or key in UNSET}
    chosen = {
        k: x for k, x in SMALL.items() if k in there and (fields[k] != 1 or "expert" in k)
    }  # 1 is an off
    if fields.get("layer_types"):
        chosen.pop("layer_types", None)  # which the config itself computes
    if "qk_rope_head_dim" in chosen:  # latent attention: as many keys as queries
        chosen.pop("head_dim", None)
        chosen["num_key_value_heads"] = SMALL["num_attention_heads"]
    if "expand" in chosen | fields and "num_heads" in fields:  # of a state space, which is wider
        chosen["num_heads"] = fields["expand"] * SMALL["hidden_size"] // SMALL["head_dim"]
    layers = next((fields[key] for key in COUNTS if key in chosen), 0)
    return {
        **chosen,
        **{k: _of_layers(x) for k, x in fields.items() if isinstance(x, list) and len(x) == layers},
        **{k: small_arguments(type(x)) for k, x in fields.items() if hasattr(x, "model_type")},
    }


def _of_layers(values: list[Any]) -> list[Any]:
    """Return what two layers have of a list with a value for each: two kinds, where there are as many."""
    kinds = [x for i, x in enumerate(values) if x not in values[:i]]
    if kinds == ["linear_attention"]:  # by default, where checkpoints have both
        kinds.append("full_attention")
    return (kinds * 2)[:2]


def _write(entries: dict[str, Any], results: dict[str, dict[str, Any]]) -> None:
    """Write the table of what was run."""
    import transformers

    rows = {x: results[x] for x in entries if x in results}
    printed = [row for row in rows.values() if "refused" not in row]
    head = HEAD.format(
        version=f"transformers {transformers.__version__}",
        sizes=f"{WORDS} words, 64 features, 2 layers, {LENGTH} tokens",
        entries=len(entries),
        run=len(rows),
        printed=len(printed),
        cached=sum(row["decoding"] == "cache" for row in printed),
        refused=len(rows) - len(printed),
        longest=LONGEST,
    )
    deep = {x: results[x] for x in (f"{name}, {n}" for name, n in DEEP.items()) if x in results}
    others = {x: results[x] for x in OTHERS if x in results}
    several = OTHER_HEAD.format(
        entries=len(OTHERS),
        run=len(others),
        printed=sum("refused" not in row for row in others.values()),
    )
    lines = [_line(x, row) for x, row in rows.items()]
    more = [_line(x, row) for x, row in deep.items()]
    kinds = [_line(OTHERS[x], row) for x, row in others.items()]
    TABLE.write_text(head + "".join([*lines, DEEP_HEAD, *more, several, *kinds]))


def _line(model_type: str, row: dict[str, Any]) -> str:
    """Return a row of the table."""
    errors = [f"{row[key]:.0e}" if key in row else "" for key in ("logits", "gradients")]
    why = " ".join(row.get("refused", "").split()).replace("|", "\\|")
    cells = [model_type, f"`{row['class']}`", row.get("lines", ""), row.get("seconds", "")]
    return f"| {' | '.join(map(str, [*cells, *errors, row.get('rounded') or '', row.get('decoding', ''), why]))} |\n"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST + 9))
        print(json.dumps(print_one(sys.argv[2], int(sys.argv[3]))))
    else:
        os.nice(19)
        main(sys.argv[1:])
