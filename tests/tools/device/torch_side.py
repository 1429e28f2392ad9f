"""The same train step in PyTorch: transformers' Llama 3.2 1B, torch.compile, AdamW, bfloat16 autocast.

    python torch_side.py --rows B --length S [--checkpointing]

Prints one JSON object, by the names of ours.py.
"""

from __future__ import annotations

import argparse
import json
import time
from statistics import median
from typing import Any

import torch
import transformers

WARM_UP = 3
CONFIG = {
    "vocab_size": 128256,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "tie_word_embeddings": True,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "use_cache": False,
}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the record of a run of a few steps; float32 parameters and moments, as ours."""
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    config = transformers.LlamaConfig(**CONFIG, attn_implementation="sdpa")
    model = transformers.LlamaForCausalLM(config).cuda().train()
    if arguments.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    ids = torch.randint(0, CONFIG["vocab_size"], (arguments.rows, arguments.length), device="cuda")

    def loss_of(ids):
        with torch.autocast("cuda", torch.bfloat16):
            return model(input_ids=ids, labels=ids).loss

    compiled = torch.compile(loss_of) if arguments.compile else loss_of
    seconds, losses = [], []
    for _ in range(WARM_UP + arguments.steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        loss = compiled(ids)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    second = median(seconds[WARM_UP:])
    return {
        "project": "torch",
        **{
            name: getattr(arguments, name)
            for name in ("rows", "length", "checkpointing", "compile")
        },
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "seconds": second,
        "tokens_per_second": arguments.rows * arguments.length / second,
        "peak_bytes": torch.cuda.max_memory_allocated(),
        "compile_seconds": seconds[0],
        "losses": [losses[0], losses[-1]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--length", type=int, required=True)
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--steps", type=int, default=20)
    print(json.dumps(measure(parser.parse_args())))


if __name__ == "__main__":
    main()
