"""Write tests/recipes/grpo_trl.json: what TRL's GRPOTrainer makes of the probabilities of some answers, by each loss.

Runs where TRL is: .parity/bin/python tests/tools/parity/grpo_losses.py
"""

import json
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import trl
from trl import GRPOConfig, GRPOTrainer

OUT = Path(__file__).parents[2] / "recipes" / "grpo_trl.json"
KINDS = {  # our loss -> TRL's loss_type, importance_sampling_level, (epsilon, epsilon_high)
    "dapo": ("dapo", "token", (0.2, 0.2)),
    "bnpo": ("bnpo", "token", (0.2, 0.2)),
    "grpo": ("grpo", "token", (0.2, 0.2)),
    "dr-grpo": ("dr_grpo", "token", (0.2, 0.2)),
    "gspo": ("grpo", "sequence", (3e-4, 4e-4)),
}
KL, ANSWERS, TOKENS = 0.04, 6, 5


def drawn():
    """Return the numbers that a loss is of: probabilities of tokens, and how much better each answer is."""
    draw = np.random.default_rng(0)
    new = draw.normal(-2, 1, (ANSWERS, TOKENS))
    numbers = {"new": new, "reference": new + draw.normal(0, 0.3, new.shape)}
    # Of some answers the ratio stays near 1, which gspo does not clip.
    apart = np.array([0.3, 1e-4, 0.3, 1e-4, 0.05, 0.3])[:, None]
    numbers["old"] = new + draw.normal(0, 1, new.shape) * apart
    numbers["advantage"] = draw.normal(size=ANSWERS)
    lengths = np.array([5, 3, 1, 4, 5, 2])
    numbers["mask"] = (np.arange(TOKENS) < lengths[:, None]).astype(float)
    return {name: value.astype(np.float32) for name, value in numbers.items()}


def loss(numbers, kind):
    """Return TRL's loss of an evaluation, of one batch."""
    loss_type, level, (low, high) = KINDS[kind]
    own = {name: torch.tensor(value) for name, value in numbers.items()}
    logps = (own["new"], torch.zeros_like(own["new"]), None)
    arguments = GRPOConfig(
        output_dir="/tmp", use_bias_correction_kl=False, use_cpu=True, bf16=False
    )
    trainer = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *args, **options: logps,
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        importance_sampling_level=level,
        loss_type=loss_type,
        beta=KL,
        epsilon_low=low,
        epsilon_high=high,
        args=arguments,
        use_vllm=False,
        model=SimpleNamespace(training=False),
        max_completion_length=TOKENS,
        accelerator=SimpleNamespace(
            num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x
        ),
        current_gradient_accumulation_steps=1,
        _entropy_bonus_enabled=False,
        _metrics=defaultdict(lambda: defaultdict(list)),
    )
    ids = torch.zeros(ANSWERS, TOKENS, dtype=torch.long)
    inputs = {"prompt_ids": ids, "prompt_mask": ids, "completion_ids": ids}
    inputs |= {"completion_mask": own["mask"], "advantages": own["advantage"]}
    inputs |= {"old_per_token_logps": own["old"], "ref_per_token_logps": own["reference"]}
    inputs |= {"num_items_in_batch": own["mask"].sum()}
    return float(GRPOTrainer._compute_loss(trainer, None, inputs))


if __name__ == "__main__":
    numbers = drawn()
    written = {"trl": trl.__version__, "kl": KL, "new_tokens": TOKENS}
    written["losses"] = {kind: loss(numbers, kind) for kind in KINDS}
    OUT.write_text(json.dumps(written | {k: x.tolist() for k, x in numbers.items()}) + "\n")
