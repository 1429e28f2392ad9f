"""The recipe distillation: the dtype of a teacher."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
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
