"""The recipe distillation: the dtype of a teacher, which drops nothing."""

from dataclasses import dataclass
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from recipes.pipelines import pipeline


@dataclass(frozen=True)
class Sizes:
    dtype: str = "bfloat16"


@pytest.mark.parametrize(("said", "dtype"), [("", "float32"), ("bfloat16", "bfloat16")])
def test_a_teacher_computes_in_the_dtype_of_its_student_unless_one_is_said(said, dtype):
    distillation, train = pipeline("distillation"), SimpleNamespace(teacher="t", teacher_share=0.5)
    config = SimpleNamespace(
        model=Sizes("float32"),
        teacher=Sizes(said),
        train=SimpleNamespace(**vars(train), temperature=2),
    )
    models = distillation.Models(lambda sizes, rngs: sizes.dtype, config, rngs=None)
    assert (models.student, models.teacher) == ("float32", dtype)
    assert distillation.starts(config, None)["teacher"] == ("t", Sizes(dtype))


class Table(nnx.Module):
    """The logits of a token follow from the one before, some of which it drops."""

    def __init__(self, sizes, rngs):
        self.table_VV = nnx.Param(jax.random.normal(rngs.params(), (8, 8)))
        self.drop = nnx.Dropout(0.5, rngs=rngs)

    def hidden(self, ids_BS, segments_BS):
        return self.drop(jax.nn.one_hot(ids_BS, 8))

    def logits(self, x_BSD):
        return x_BSD @ self.table_VV[...]


def test_the_student_alone_drops():
    distillation = pipeline("distillation")
    train = SimpleNamespace(teacher="t", teacher_share=0.5, temperature=2.0)
    config = SimpleNamespace(model=Sizes(), teacher=Sizes(), train=train)
    models = distillation.Models(Table, config, rngs=nnx.Rngs(0))
    models.train()
    batch = {"input_ids": jnp.ones((1, 4), int), "mask": jnp.ones((1, 4), bool)}
    distillation.loss(models, batch, None)
    assert models.teacher.drop.deterministic and not models.student.drop.deterministic
