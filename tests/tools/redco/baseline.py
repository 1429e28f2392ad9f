"""Redco's side: Hugging Face's FlaxGPTJ trained by Redco's own Deployer and Trainer.fit.

As in Redco's language modeling example, but without MultiSteps, which would cost Redco one more
copy of the gradients for nothing. The specs and the step are Redco's; nothing of it is patched.
Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json

import jax
import numpy as np
import optax
from recorder import Recorder
from redco import Deployer, Trainer
from sizes import CLIP_NORM, LEARNING_RATE, SHARDS, WEIGHT_DECAY, Sizes, tokens
from transformers import FlaxGPTJForCausalLM, GPTJConfig


class TimedDeployer(Deployer):
    """Redco's Deployer with a stopwatch around the one method that runs a step."""

    def __init__(self, recorder: Recorder, **options):
        super().__init__(**options)
        self._recorder = recorder
        self._last = None

    def run_model_step(self, step_fn, input_args):
        step = super().run_model_step
        outputs = self._recorder.call(step, lambda out: out[1]["loss"], step_fn, input_args)
        rng, _, batch = input_args
        self._last = (step_fn, (rng, outputs[0], batch))
        return outputs

    def compiled_step(self) -> jax.stages.Compiled:
        """The program of the latest step, out of JAX's cache."""
        step_fn, arguments = self._last
        with self.mesh:
            return step_fn.lower(*arguments).compile()


def collate_fn(examples):
    tokens_BS = np.stack([example["tokens"] for example in examples])
    return {"input_ids": tokens_BS[:, :-1], "labels": tokens_BS[:, 1:]}


def loss_fn(rng, state, params, batch, is_training):
    labels = batch.pop("labels")
    logits = state.apply_fn(**batch, params=params, dropout_rng=rng, train=is_training)[0]
    return optax.softmax_cross_entropy_with_integer_labels(logits=logits, labels=labels).mean()


def _trainer(deployer: Deployer, sizes: Sizes) -> Trainer:
    config = GPTJConfig(
        vocab_size=sizes.V,
        n_positions=sizes.S,
        n_embd=sizes.D,
        n_inner=sizes.F,
        n_head=sizes.N,
        n_layer=sizes.L,
        rotary_dim=sizes.rotary,
    )
    model = FlaxGPTJForCausalLM(config, _do_init=False)
    params = model.init_weights(jax.random.PRNGKey(0), (1, 1))
    optimizer = optax.chain(
        optax.clip_by_global_norm(CLIP_NORM),
        optax.adamw(LEARNING_RATE, weight_decay=WEIGHT_DECAY),
    )
    return Trainer(
        deployer=deployer,
        collate_fn=collate_fn,
        apply_fn=model,
        loss_fn=loss_fn,
        params=params,
        optimizer=optimizer,
        params_sharding_rules=deployer.get_sharding_rules(params),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    Sizes.add_flags(parser)
    sizes = Sizes.of(parser.parse_args())
    recorder = Recorder(sizes)
    deployer = TimedDeployer(recorder, jax_seed=0, n_model_shards=SHARDS, verbose=False)
    trainer = _trainer(deployer, sizes)
    # Redco takes one more token a sequence, since its collate_fn shifts the labels.
    examples = [{"tokens": row} for row in tokens(sizes, sizes.S + 1)]
    trainer.fit(train_examples=examples, per_device_batch_size=sizes.B, n_epochs=1)
    parameters = sum(leaf.size for leaf in jax.tree.leaves(trainer.state.params))
    print(json.dumps(recorder.report("redco", parameters, deployer.compiled_step())))


if __name__ == "__main__":
    main()
