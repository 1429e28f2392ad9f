"""The recipe dpo: pairs in the formats that people have, what is none, and its loss by the plain formula."""

import json
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from recipes.pipelines import pipeline

from redco_new.generate.plan import plan_program
from redco_new.generate.read import read_model
from redco_new.render.template import open_template
from redco_new.request import Request
from redco_runtime.data.chats.encoding import ChatEncoder
from redco_runtime.data.chats.pairs import pack_pairs, pair_examples, split_pair
from redco_runtime.data.chats.reading import with_system
from redco_runtime.base.messages import UserError
from redco_runtime.data.tokenizer import load_tokenizer

dpo = pipeline("dpo")
ASK = {"role": "user", "content": "Hi"}
SYSTEM = {"role": "system", "content": "Be short."}
GOOD, BAD = ({"role": "assistant", "content": text} for text in ("Hello.", "What?"))
ROWS = [
    {"prompt": "Hi", "chosen": "Hello.", "rejected": "What?"},
    {"prompt": [ASK], "chosen": [GOOD], "rejected": [BAD]},
    {"chosen": [ASK, GOOD], "rejected": [ASK, BAD]},
]
TOKENS = load_tokenizer("bytes")


def encoder():
    return ChatEncoder(TOKENS)


@pytest.fixture
def examples(tmp_path):
    """examples(text, **settings): the rows of a file of pairs."""

    def examples(text, **changes):
        (tmp_path / "pairs.jsonl").write_text(text)
        fields = {"data": (str(tmp_path / "pairs.jsonl"),), "held_out_data": (), "held_out": 0.0}
        fields |= {"skip_bad_rows": 0, "sequence_length": 48}
        fields["token_folder"] = str(tmp_path / "tokens")
        return pair_examples(SimpleNamespace(**fields | changes), encoder(), 384)

    return examples


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_pairs_are_the_same_in_all_formats(examples):
    train, _ = examples(lines(*ROWS))
    pairs = [split_pair(train[i]) for i in range(3)]
    for pair in pairs:
        texts = [
            TOKENS.decode(ids[mask])
            for ids, mask in zip(pair["input_ids"], pair["mask"], strict=True)
        ]
        assert [text.split("### assistant\n")[1][:5] for text in texts] == ["Hello", "What?"]
        learned = pair["input_ids"][pair["learned"]]
        assert TOKENS.decode(learned) == "Hello.</s>What?</s>"
    assert pairs[0]["input_ids"].shape == (2, 48)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ([1], "is no object"),
        ({"prompt": "Hi", "chosen": "a"}, "has prompt, chosen, and a pair has 'chosen' and"),
        ({"prompt": "Hi", "chosen": "a", "rejected": "a"}, "the same chosen and rejected"),
        ({"prompt": "Hi", "chosen": "a", "rejected": 3}, "whose content is no text"),
        ({"chosen": [ASK], "rejected": [ASK, BAD]}, "has no answer of the assistant"),
        ({"prompt": "Hi", "chosen": "a", "rejected": "b" * 50}, "tokens in what is rejected, more"),
    ],
)
def test_what_is_no_pair_is_named_with_its_line(examples, row, why):
    with pytest.raises(UserError) as error:
        examples(lines(*ROWS, row))
    assert "pairs.jsonl, line 4 " in str(error.value) and why in str(error.value)
    train, _ = examples(lines(*ROWS, row), skip_bad_rows=1)
    assert len(train) == 3


def test_a_system_message_comes_before_what_is_asked(capsys):
    config = SimpleNamespace(
        data=SimpleNamespace(tokenizer="bytes", sequence_length=64), model=None
    )
    for system, chat in ((None, [ASK]), ("Be short.", [SYSTEM, ASK])):
        (row,) = dpo.prompts(config, with_system(["Hi"], system))
        pair = split_pair(row)
        np.testing.assert_array_equal(pair["input_ids"][0][pair["mask"][0]], encoder().ask(chat))
        assert row["said"].shape == (128,) and not pair["mask"][1].any()
    (row,) = dpo.prompts(config, ["Hi" * 30])
    assert "its last 64 tokens are read, of 84" in capsys.readouterr().out


class Bigrams:
    """A model of one table: the logits of a token follow from the one before."""

    def __init__(self, seed):
        self.table_VV = jax.random.normal(jax.random.key(seed), (384, 384))

    def eval(self):
        """It never drops."""

    def hidden(self, ids_RS):
        return jax.nn.one_hot(ids_RS, 384)

    def logits(self, x_RSD):
        return x_RSD @ self.table_VV

    def score(self, ids, learned):
        """The plain log-likelihood of what is learned of a chat."""
        log_SV = jax.nn.log_softmax(self.table_VV[ids])
        return sum(float(log_SV[i - 1, ids[i]]) for i in range(1, len(ids)) if learned[i])


def test_the_loss_is_the_formula():
    settings = SimpleNamespace(sequence_length=48, held_out=0.0)
    chats = [([ASK, GOOD], [ASK, BAD]), ([ASK, BAD], [GOOD])]
    train, _ = pack_pairs(chats, settings, encoder())
    batch = dpo.collate([train[0], train[1]])
    policy, reference = Bigrams(0), Bigrams(1)
    models = SimpleNamespace(policy=policy, reference=reference, beta=0.1)
    losses, weights, terms = dpo.loss(models, jax.tree.map(jnp.asarray, batch), None)
    expected, rewards = [], []
    for ids, learned in zip(batch["input_ids"], batch["learned"], strict=True):
        gains = [
            policy.score(*side) - reference.score(*side) for side in zip(ids, learned, strict=True)
        ]
        expected.append(np.log1p(np.exp(-0.1 * (gains[0] - gains[1]))))
        rewards.append(0.1 * np.array(gains))
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    chosen, rejected = np.transpose(rewards)
    watched = {"chosen": chosen, "rejected": rejected}  # as TRL calls them
    watched |= {"margins": chosen - rejected, "accuracies": chosen > rejected}
    assert terms.keys() == {f"rewards/{name}" for name in watched}
    for name, values in watched.items():
        value, factor = terms[f"rewards/{name}"]
        np.testing.assert_allclose(value, values, rtol=1e-4)
        assert factor == 0
    assert weights.tolist() == [1.0, 1.0]


class Adapted(nnx.Module):
    """Bigrams whose table has an adapter beside it, or none."""

    def __init__(self, table_VV, adapter):
        self.table_VV = nnx.Param(table_VV)
        self.adapter = nnx.List([nnx.LoRAParam(x) for x in adapter])
        self.drop = nnx.Dropout(0.5, rngs=nnx.Rngs(0))

    def hidden(self, ids_RS):
        return jax.nn.one_hot(ids_RS, 384)

    def logits(self, x_RSD):
        x_RSV = x_RSD @ self.table_VV[...]
        return (
            x_RSV + x_RSD @ self.adapter[0][...] @ self.adapter[1][...] if self.adapter else x_RSV
        )


def test_the_reference_of_an_adapter_is_the_model_with_the_adapter_that_it_starts_with():
    """Equal to two models of equal weights, in the loss and in the gradient of the adapter; log 2 at first."""
    keys = jax.random.split(jax.random.key(2), 5)
    shapes = (384, 384), (384, 4), (4, 384), (384, 4), (4, 384)
    table, *both = (jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True))
    first, later = both[:2], both[2:]
    train, _ = pack_pairs(
        [([ASK, GOOD], [ASK, BAD])], SimpleNamespace(sequence_length=48, held_out=0.0), encoder()
    )
    batch = jax.tree.map(jnp.asarray, dpo.collate([train[0]]))
    alone = pipeline("dpo", adapted=True)
    assert alone.starts(SimpleNamespace(model=1), "a") == {
        "policy": ("a", 1),
        "reference": "policy",
    }
    settings = SimpleNamespace(model=None, train=SimpleNamespace(beta=0.1))

    def one_model(pair):
        models = alone.Models(lambda _, rngs: Adapted(table, first), settings, rngs=nnx.Rngs(0))
        assert models.reference.table_VV is models.policy.table_VV  # no second model
        assert not jax.tree.leaves(nnx.state(models.reference, nnx.LoRAParam))  # nor trained
        nnx.update(models.policy.adapter, {i: x for i, x in enumerate(pair)})
        return alone.loss(models, batch, None)[0][0]

    def two_models(pair):
        models = SimpleNamespace(policy=Adapted(table, pair), reference=Adapted(table, first))
        return dpo.loss(SimpleNamespace(**vars(models), beta=0.1), batch, None)[0][0]

    ours, theirs = jax.value_and_grad(one_model)(later), jax.value_and_grad(two_models)(later)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), ours, theirs)
    assert abs(ours[0] - np.log(2)) > 1e-3
    np.testing.assert_allclose(one_model(first), np.log(2), atol=1e-6)


@pytest.mark.parametrize("adapted", [False, True])
def test_the_policy_alone_drops(adapted):
    train, _ = pack_pairs(
        [([ASK, GOOD], [ASK, BAD])], SimpleNamespace(sequence_length=48, held_out=0.0), encoder()
    )
    batch = jax.tree.map(jnp.asarray, dpo.collate([train[0]]))
    settings = SimpleNamespace(model=None, train=SimpleNamespace(beta=0.1))
    own = pipeline("dpo", adapted=adapted)
    models = own.Models(lambda _, rngs: Adapted(jnp.eye(384), ()), settings, rngs=nnx.Rngs(0))
    models.train()
    own.loss(models, batch, None)
    assert models.reference.drop.deterministic and not models.policy.drop.deterministic


@pytest.mark.slow
def test_an_adapter_takes_no_second_model():
    """By the plan: the parameters are those of one model, its adapter, and that of the reference."""
    counts = []
    for lora in ({}, {"lora": "rank=2"}):
        request = Request.from_flags("a", "gpt2", recipe="dpo", shards="1", **lora)
        with open_template() as template:
            design = read_model(request, template)
        plan = plan_program(request, design.program())
        counts.append({row["path"]: row["bytes"] for row in plan.rows()})
    two, one = (sum(count.values()) for count in counts)
    ends = {p.rpartition("/")[2] for p in counts[1] if p.startswith("reference/")}
    assert ends == {"lora_a", "lora_b"}
    assert one < 0.51 * two
