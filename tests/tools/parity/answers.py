"""Answers that our policy drew, as TRL's GRPOTrainer has its own. Of the environment .parity."""

import numpy as np
import torch


def answers(batch: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """Return answers of ours as TRL has them: prompts begin with padding, answers end with it."""
    rows = []
    for question in range(len(batch["input_ids"])):
        for one in range(len(batch["input_ids"][0])):
            ids, said = batch["input_ids"][question, one], batch["answered"][question, one]
            first, after = said.argmax(), said.argmax() + said.sum()
            old, frozen = (batch[x][question, one] for x in ("log_prob", "reference"))
            rows.append(
                (
                    ids[:first],
                    ids[first:after],
                    old[first - 1 : after - 1],
                    frozen[first - 1 : after - 1],
                )
            )
    pad = torch.nn.utils.rnn.pad_sequence

    def stacked(column: int, side: str = "right") -> torch.Tensor:
        parts = [torch.tensor(row[column].astype(np.float32)) for row in rows]
        return pad(parts, batch_first=True, padding_side=side)

    def filled(column: int, side: str = "right") -> torch.Tensor:
        ones = [torch.ones(len(row[column]), dtype=torch.long) for row in rows]
        return pad(ones, batch_first=True, padding_side=side)

    mask = filled(1)
    return {
        "prompt_ids": stacked(0, "left").long(),
        "prompt_mask": filled(0, "left"),
        "completion_ids": stacked(1).long(),
        "completion_mask": mask,
        "old_per_token_logps": stacked(2),
        "ref_per_token_logps": stacked(3),
        "advantages": torch.tensor(batch["advantage"].reshape(-1)),
        "num_items_in_batch": mask.sum(),
    }
