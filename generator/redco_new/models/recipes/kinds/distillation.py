"""A student that learns what a teacher makes of each token."""

from redco_new.models.branches import Branch, half_the_layers, students_dtype
from redco_new.models.family import CAUSAL
from redco_new.models.recipes.defaults import Setting, MANUAL, TINY_TEXT, text_example
from redco_new.models.recipes.recipe import Figure, Recipe, Words

RECIPE = Recipe(
    name="distillation",
    title="a student learns what a teacher, which is frozen, makes of each token",
    source="32 rows of the language reference of Python; the teacher, all of it",
    model="gpt2",
    figure=Figure("loss", most=3.3, baseline="4.06: the student without a teacher"),
    needs=CAUSAL,
    words=Words(
        learns=f"a teacher {MANUAL}, and then a student on a few rows of it",
        loss="the loss, of the teacher and then of the student",
        sample="a sample of text",
        prompt='"The "',
        predicts="continues a prompt",
        data="`--data 'texts/*.jsonl'`, or change `examples` in `pipeline.py`",
    ),
    example=text_example,
    tiny=TINY_TEXT
    | {
        "data": TINY_TEXT["data"] | {"first": 32},
        "train": TINY_TEXT["train"] | {"steps": 150, "teacher_steps": 200, "teacher_share": 1.0},
    },
    train=(
        Setting(
            "teacher", "", "a run or weights, by path or id of the hub; none: one is trained first"
        ),
        Setting("teacher_steps", 10_000, "optimizer steps of that one"),
        Setting(
            "teacher_share", 0.9, "of the loss; the rest is that of the text. 0: the student alone"
        ),
        Setting("temperature", 2.0, "by which logits of both are divided where they are compared"),
    ),
    branches=(
        Branch("student", sizes=half_the_layers),
        Branch("teacher", "teacher", sizes=students_dtype, frozen=True),
    ),
    teacher=True,
    perplexity=True,
    prompt_fields=("text", "prompt"),
    writes=True,
    order=25,
)
