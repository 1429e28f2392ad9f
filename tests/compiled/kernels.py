"""The train step of a project compiled for a target, with the kernels of attention or without.

    python -m compiled.kernels h100 FOLDER kernels|formula ...

prints a line of JSON for each of the last, the formula last: kernels: the custom calls of attention.  squares: arrays
of S x S.  sent: {kind: [operations, bytes]} of its collectives.  around: the sources of those that
a kernel brings.  Runs in the environment of targets.py.
"""

import importlib
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from compiled.targets import DEVICES, target_of
from compiled.train_step import compile_train
from redco_fit.compiled.hlo import collectives
from redco_fit.compiled.instructions import shapes

S, ROWS = 1024, 2
# No size but S is 1024. Heads of 128 features, as most have, two of them for each of keys and values.
SIZES = {"embed_dim": 512, "mlp_dim": 768, "num_heads": 4, "num_kv_heads": 2, "head_dim": 128}
SIZES |= {"vocab_size": 640, "num_layers": 2}
# Not that of a look-up, which adds up rows, nor the sum of a product that XLA has joined with it.
AROUND = re.compile(r"shard_map(?!.*(/gather|dot_general\)?)$)")
KERNEL = re.compile(r'custom_call_target="(__cudnn\$fmha\w+|tpu_custom_call)"')


def describe(text: str, n: int) -> dict[str, Any]:
    """What main() prints of a compiled program."""
    sent: dict[str, list[int]] = {}
    every = collectives(text, n)
    for one in every:
        count, size = sent.get(one.kind, (0, 0))
        sent[one.kind] = [count + one.runs, size + one.runs * one.bytes]
    squares = {str(shape) for shape in shapes(text) if shape.count(S) > 1}
    return {
        "kernels": Counter(KERNEL.findall(text)),
        "squares": sorted(squares),
        "sent": sent,
        "around": [one.source for one in every if AROUND.search(one.source)],
    }


def main() -> None:
    target, folder, *ways = sys.argv[1:]
    sys.path.insert(0, folder)
    package = Path(folder).name.replace("-", "_")
    attention = importlib.import_module(f"{package}.runtime.nn.attention")
    for way in ways:
        if way == "formula":
            attention.KERNELS = {}
        axes = {"fsdp": 2, "model": 2}
        step = compile_train(Path(folder), target_of(target), axes, ROWS, S, SIZES)
        print(json.dumps(describe(step.text, DEVICES)), flush=True)


if __name__ == "__main__":
    main()
