"""A causal model that makes K numbers of a text: of its last token, as ...ForSequenceClassification of transformers.

Shape letters: B batch, S sequence, D features, K numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from ...base.contracts import Weights
from ...base.class_names import name_labels
from ...base.tensors import Tensor

# What models call their heads for words, where that is no table of their embedding.
WORDS = ("head", "lm_head", "embed_out", "output")
SCORE = "score"
FILES = ("lm_head.*", "embed_out.*")  # what checkpoints call that head


def drop_words(model: Any) -> None:
    """Take the head for words out of a model, if it has one."""
    for name in WORDS:
        if hasattr(model, name):
            delattr(model, name)


def with_score(model: Any, features: int, labels: int, rngs: nnx.Rngs) -> Any:
    """Return a model with a linear layer `score` of its hidden states, and without a head for words.

    features: D of these. labels: K.
    """
    drop_words(model)
    normal = nnx.initializers.normal(0.02)  # as heads of transformers begin
    layer = nnx.Linear(features, labels, use_bias=False, kernel_init=normal, rngs=rngs)
    setattr(model, SCORE, layer)
    return model


def score_last(model: Any, input_ids_BS: jax.Array, mask_BS: jax.Array) -> jax.Array:
    """Return scores_BK, float32: of the last token of each row. mask_BS: padding is on the right."""
    x_BSD = model.hidden(input_ids_BS)
    last_B = jnp.maximum(mask_BS.sum(axis=1) - 1, 0)
    is_last_BS = jnp.arange(x_BSD.shape[1])[None, :] == last_B[:, None]
    x_BD = jnp.where(is_last_BS[..., None], x_BSD, 0).sum(axis=1)
    scores_BK: jax.Array = model.score(x_BD.astype(jnp.float32))
    return scores_BK


@dataclass(frozen=True)
class ScoreWeights:
    """What files call the parameters of such a model: a Weights.

    body: the same of the model with its head for words. labels: K. names: of these, where they have any.
    """

    body: Weights
    labels: int
    names: Sequence[str] = ()

    @property
    def PREFIX(self) -> str:
        """As that of the body."""
        return self.body.PREFIX

    @property
    def IGNORED(self) -> Sequence[str]:
        """Those of the body, and its head."""
        return (*self.body.IGNORED, *FILES)

    def tensors(self, config: Any) -> Mapping[str, Tensor]:
        """Return path of a parameter -> the tensor that holds it; a checkpoint need not have the score."""
        table = self.body.tensors(config).items()
        score = Tensor(f"{SCORE}.weight", (1, 0), optional=True, classes=True)
        return {p: t for p, t in table if p.split("/")[0] not in WORDS} | {f"{SCORE}/kernel": score}

    def hf_config(self, config: Any) -> dict[str, Any]:
        """Return config.json."""
        document = self.body.hf_config(config)
        (name,) = document["architectures"]
        for end in ("LMHeadModel", "ForCausalLM"):
            name = name.replace(end, "ForSequenceClassification")
        own = {"architectures": [name], "num_labels": self.labels}
        return document | own | (name_labels(self.names) if self.names else {})
