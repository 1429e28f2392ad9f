"""An encoder that classifies texts, or their tokens: as Bert...ForSequenceClassification of transformers, and ...ForTokenClassification.

Shape letters: B batch, S sequence, D features, C classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from ...base.contracts import Weights
from ...base.class_names import name_labels
from ...base.tensors import Tensor
from .scores import SCORE, WORDS, drop_words

FILES = "cls.*"  # what checkpoints call the head for hidden tokens
NORMAL = nnx.initializers.normal(0.02)  # as heads of transformers begin


def with_classifier(
    model: Any,
    features: int,
    classes: int,
    rngs: nnx.Rngs,
    pooled: bool = False,
    drop: nnx.Module | None = None,
) -> Any:
    """Return a model with a linear layer `score` in the place of its head for hidden tokens.

    features: D. classes: C. pooled: whether a layer `pooler` comes before it. drop: what drops of its input.
    """
    drop_words(model)
    model.drop_score = drop
    if pooled:
        model.pooler = nnx.Linear(features, features, kernel_init=NORMAL, rngs=rngs)
    setattr(model, SCORE, nnx.Linear(features, classes, kernel_init=NORMAL, rngs=rngs))
    return model


def classify_texts(model: Any, input_ids_BS: jax.Array, mask_BS: jax.Array) -> jax.Array:
    """Return logits_BC, float32: of the first token of each row, through the pooler."""
    x_BD = model.hidden(input_ids_BS, mask_BS)[:, 0].astype(jnp.float32)
    return _score(model, jnp.tanh(model.pooler(x_BD)))


def classify_tokens(model: Any, input_ids_BS: jax.Array, mask_BS: jax.Array) -> jax.Array:
    """Return logits_BSC, float32, of each token."""
    return _score(model, model.hidden(input_ids_BS, mask_BS).astype(jnp.float32))


def _score(model: Any, x_BD: jax.Array) -> jax.Array:
    # A model by a with_head of one's own need not have it.
    drop = getattr(model, "drop_score", None)
    logits_BC: jax.Array = model.score(drop(x_BD) if drop else x_BD)
    return logits_BC


@dataclass(frozen=True)
class ClassifierWeights:
    """What files call the parameters of such a model: a Weights.

    body: the same of the model with its own head. labels: names of the classes. pooled: as of `with_classifier`.
    """

    body: Weights
    labels: Sequence[str]
    pooled: bool = False

    @property
    def PREFIX(self) -> str:
        """As that of the body."""
        return self.body.PREFIX

    @property
    def IGNORED(self) -> Sequence[str]:
        """Those of the body and its head; the pooler where there is none."""
        own = f"{self.PREFIX}pooler.*"
        return (*(name for name in self.body.IGNORED if name != own or not self.pooled), FILES)

    def tensors(self, config: Any) -> Mapping[str, Tensor]:
        """Return path of a parameter -> the tensor that holds it; a checkpoint need not have those of the head."""
        table = self.body.tensors(config).items()
        own = {p: t for p, t in table if p.split("/")[0] not in WORDS}
        names = {SCORE: "classifier"}
        names |= {"pooler": f"{self.PREFIX}pooler.dense"} if self.pooled else {}
        for path, name in names.items():
            kernel = Tensor(f"{name}.weight", (1, 0), optional=True, classes=path == SCORE)
            own[f"{path}/kernel"] = kernel
            own[f"{path}/bias"] = replace(kernel, name=f"{name}.bias", order=())
        return own

    def hf_config(self, config: Any) -> dict[str, Any]:
        """Return config.json."""
        document = self.body.hf_config(config)
        kind = "ForSequenceClassification" if self.pooled else "ForTokenClassification"
        (name,) = document["architectures"]
        own = {"architectures": [name.replace("ForMaskedLM", kind)]}
        return document | own | name_labels(self.labels)
