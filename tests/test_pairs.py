"""The matrix of axes, recipes, adapters, products, families and memory: each pair is refused in words, or has a plan."""

import itertools
import random

import pytest
from redco_new.errors import RedcoError
from redco_new.generate.pairs import PAIRS
from redco_new.generate.read import plan_request
from redco_new.generate.stages import RECIPES
from redco_new.models.families import FAMILIES
from redco_new.render.template import open_template
from redco_new.request import Request

MIXTURE, TEXTS, PICTURES = "mixtral", "t5", "vit"
MATRIX = {
    "mesh": (
        *("data=2", "fsdp=2,model=2", "expert=2,data=2", "expert=2,context=2", "context=2,model=2"),
        *("context=2,fsdp=2", "stage=2,model=2", "stage=2,data=2", "stage=2,expert=2"),
    ),
    "model": ("gpt2", "llama", MIXTURE, TEXTS),
    "recipe": ("", "sft", "dpo", "grpo"),
    "lora": ("off", "rank=4", "rank=4,base=int8", "rank=4,base=nf4"),
    "products": ("compute", "int8", "float8"),
    "optimizer_memory": ("device", "host"),
    "gradients_across": ("compute", "bfloat16"),
    "features": ((), ("muon",)),
    "context_attention": ("heads", "ring"),
    "sequence_parallel": (False, True),
    "zero": (0, 1),
    "dropout": (0.0,),
}


def answer(template, **flags):
    """Return what refuses a request, as (where, what, todo); None where it has a plan."""
    if flags.get("recipe") == "":
        del flags["recipe"]
    try:
        plan_request(Request.from_flags("a", **flags), template)
    except RedcoError as error:
        return error.where, error.what, error.todo
    return None


# Of these two, and whatever else: how the refusal begins, of what, and what it names that does go.
REFUSED = [
    (
        {"mesh": "stage=2,fsdp=2"},
        "--mesh",
        "44.6 GiB of each H100; on stage=8,model=8",
        "--zero 1",
    ),
    ({"mesh": "stage=2,expert=2"}, "--mesh", "has no experts", "leave the axis expert out"),
    ({"mesh": "stage=2,context=2"}, "--mesh", "and not with context=2: a", "--sequence-parallel"),
    *(
        ({"mesh": "stage=2", "recipe": recipe}, "--mesh", f"the recipe {recipe}", "lm or sft")
        for recipe in ("dpo", "grpo", "reward", "distillation")
    ),
    *(
        ({"mesh": "stage=2", "model": model}, "--mesh", f"layers of {model}", "families that go")
        for model in (TEXTS, PICTURES, "gemma3", "bert")
    ),
    ({"mesh": "stage=5"}, "--mesh", "5 stages do not divide 12 layers", "2, 3, 4, 6, 12"),
    ({"mesh": "stage=2", "dropout": 0.1}, "--mesh", "which of its numbers", "--dropout 0"),
    ({"mesh": "stage=2", "lora": "dropout=0.1"}, "--lora", "which of its numbers", "dropout out"),
    ({"mesh": "context=2", "model": PICTURES}, "--mesh", "no positions", "leave the axis"),
    ({"mesh": "context=5"}, "--mesh", "do not divide the heads", "--context-attention ring"),
    ({"mesh": "context=2", "sequence_parallel": True}, "--sequence-parallel", "context=2", "leave"),
    ({"mesh": "expert=2"}, "--mesh", "has no experts", "leave the axis expert out"),
    ({"optimizer_memory": "host", "features": ("muon",)}, "--optimizer-memory", "Muon", "feature"),
    ({"products": "int8", "lora": "rank=4,base=int8"}, "--products", "base=int8", "leave one"),
    ({"products": "int8", "recipe": "grpo"}, "--products", "grpo weighs answers", "leave it out"),
    *(
        ({"lora": "sweep=2", **one}, "--lora: sweep", what, "leave sweep out of --lora")
        for one, what in (
            ({"products": "int8"}, "not tried with products in 8 bits"),
            ({"mesh": "stage=2"}, "not tried with stages"),
            ({"optimizer_memory": "host"}, "not tried with moments on the host"),
            ({"gradients_across": "float32"}, "not tried with gradients added up so"),
            ({"via": "torch"}, "a class of its own"),
        )
    ),
    *(
        ({"lora": "sweep=2", **one}, "--lora: sweep", "trains one adapter, and lm and sft", "leave")
        for one in ({"recipe": "dpo"}, {"model": TEXTS}, {"model": PICTURES})
    ),
    ({"lora": "rank=4", "recipe": "distillation"}, "--lora", "second model", "--recipe"),
    ({"model": TEXTS, "recipe": "dpo"}, "--recipe", "seq2seq", "choose seq2seq"),
    (
        {"gradients_across": "bfloat16", "model": None, "recipe": "contrastive"},
        *("--gradients-across", "no family of redco's", "leave it out"),
    ),
    (
        {"context_attention": "ring", "mesh": "data=2"},
        *("--context-attention ring", "no axis context", "--mesh context=2"),
    ),
    *(
        ({"context_attention": "ring", "mesh": "context=2", **one}, "--context-attention", *words)
        for one, *words in (
            ({"model": TEXTS}, "no causal order", "leave it out"),
            ({"dropout": 0.1}, "does not drop weights", "--dropout 0"),
            ({"model": None, "recipe": "contrastive"}, "no family of redco's", "leave it out"),
        )
    ),
    ({"dropout": 0.1, "model": "llama"}, "--dropout", "without dropout", "those that have it"),
    ({"sequence_length": 64, "model": PICTURES}, "--sequence-length", "no texts", "leave it out"),
    ({"sequence_length": 4096}, "--sequence-length", "a table of 1024", "as many at most"),
    (
        {"model": "llama", "mesh": "context=8", "sequence_length": 1001},
        *("--sequence-length", "8 equal parts of a text", "1000 or 1008"),
    ),
]


@pytest.fixture(scope="module")
def template():
    with open_template() as found:
        yield found


@pytest.mark.parametrize(("flags", "where", "what", "todo"), REFUSED, ids=lambda one: str(one)[:60])
def test_what_does_not_go_together_is_said_with_what_does(template, flags, where, what, todo):
    plain = {"model": "gpt2", "dropout": 0.0} if flags.get("model", "gpt2") == "gpt2" else {}
    said = answer(template, **plain | flags)
    assert said is not None and said[0].startswith(where) and what in said[1] and todo in said[2]


def test_each_pair_of_the_table_is_in_the_matrix():
    requests = [Request.from_flags("a", **{"model": "gpt2", **flags}) for flags, *_ in REFUSED[7:]]
    for pair in PAIRS:
        assert any(pair.both(one) for one in requests), pair.where


def impossible(row):
    """Tell whether a row of the matrix has two that REFUSED says do not go together."""
    axes = {part.partition("=")[0] for part in row["mesh"].split(",")}
    family, recipe = FAMILIES[row["model"]], row["recipe"] or "lm"
    return (
        "stage" in axes
        and not (family.alike and recipe in RECIPES)
        or "expert" in axes
        and row["model"] != MIXTURE
        or row["sequence_parallel"]
        and ("context" in axes or "model" not in axes)
        or row["context_attention"] == "ring"
        and ("context" not in axes or row["model"] == TEXTS)
        or row["optimizer_memory"] == "host"
        and row["features"]
        or row["products"] != "compute"
        and ("base" in row["lora"] or recipe == "grpo")
        or row["model"] == TEXTS
        and row["recipe"]
    )


def rows(seed=0):
    """Return rows of the matrix that have all pairs of its values but those that are impossible."""
    draw, names = random.Random(seed), [*MATRIX]

    def pairs(row):
        return {frozenset(two) for two in itertools.combinations(row.items(), 2)}

    possible = [
        row
        for values in itertools.product(*MATRIX.values())
        if not impossible(row := dict(zip(names, values, strict=True)))
    ]
    left, chosen = set().union(*map(pairs, possible)), []
    while left:
        some = draw.sample(possible, min(100, len(possible)))
        best = max(some, key=lambda row: len(pairs(row) & left))
        if pairs(best) & left:
            chosen.append(best)
            left -= pairs(best)
    return chosen


@pytest.mark.slow
def test_all_other_pairs_have_a_plan(template):
    for row in rows():
        plain = {"dropout"} if row["model"] in ("llama", MIXTURE) else set()
        flags = {name: value for name, value in row.items() if name not in plain}
        assert answer(template, **flags) is None, row
