"""The recipe reward: its loss by the plain formula, chats to score, and what transformers makes of its model."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from families.parity import TOLERANCE, emitted
from families.reference import reference
from flax import nnx
from recipes.pipelines import pipeline

from redco_new.models.find import find_model
from redco_runtime.data.chats.pairs import one_chat, pack_pairs, split_pair
from redco_runtime.data.chats.reading import Chat
from redco_runtime.base.messages import UserError
from redco_runtime.checkpoints.export import export
from redco_runtime.nn.heads.scores import ScoreWeights, score_last, with_score
from redco_runtime.base.state import flatten

reward = pipeline("reward")
ASK = {"role": "user", "content": "Hi"}
GOOD, BAD = ({"role": "assistant", "content": text} for text in ("Hello.", "What?"))
PAIRS = [([ASK, GOOD], [ASK, BAD]), ([ASK, BAD], [ASK, GOOD])]


def models():
    """A model whose reward is a number of the last token."""
    numbers_V = jax.random.normal(jax.random.key(0), (384,))
    return SimpleNamespace(
        hidden=lambda ids_RS: jnp.asarray(ids_RS)[..., None],
        score=lambda x_R1: numbers_V[x_R1.astype(int)],
        numbers_V=numbers_V,
    )


def test_the_loss_is_the_formula():
    settings = SimpleNamespace(sequence_length=48, held_out=0.0)
    train, _ = pack_pairs(PAIRS, settings, reward.encoder("bytes"))
    batch, model = reward.collate([train[0], train[1]]), models()
    batch["input_ids"][0, 0, batch["mask"][0, 0].sum() - 1] = 7  # both end alike
    losses, weights, terms = reward.loss(model, batch, None)
    last = [
        row[mask][-1]
        for row, mask in zip(*map(np.concatenate, (batch["input_ids"], batch["mask"])), strict=True)
    ]
    first, second = model.numbers_V[jnp.array(last)].reshape(2, 2).T
    np.testing.assert_allclose(losses, np.log1p(np.exp(second - first)), rtol=1e-5)
    assert weights.tolist() == [1.0, 1.0] and last[0] == 7
    np.testing.assert_array_equal(terms["accuracy"][0], first > second)
    np.testing.assert_allclose(terms["margin"][0], first - second, rtol=1e-6)
    assert {factor for _, factor in terms.values()} == {0.0} and terms.keys() == {
        "accuracy",
        "margin",
    }


def test_a_chat_is_scored_as_it_is_trained():
    encoder = reward.encoder("bytes")
    text = '{"prompt": "Hi", "completion": "Hello."}'
    pair = split_pair(one_chat(text, encoder, 48))
    ids, learned = encoder(Chat([ASK, GOOD]))
    assert pair["input_ids"][0, : len(ids)].tolist() == ids.tolist()
    assert pair["learned"][0, : len(ids)].tolist() == learned.tolist()
    assert pair["mask"].sum(axis=1).tolist() == [len(ids), 0]


def test_a_chat_has_a_reward_and_a_pair_two():
    texts = (
        '{"prompt": "Hi", "completion": "Yo"}',
        '{"prompt": "Hi", "chosen": "Yo", "rejected": "What?"}',
    )
    rows = [one_chat(text, reward.encoder("bytes"), 48) for text in texts]
    one, two = (split_pair(row) for row in rows)
    assert one["input_ids"][0].tolist() == two["input_ids"][0].tolist()
    assert two["mask"].any(axis=1).all()
    outputs = np.array([[0.5, 9.0], [0.5, -1.25]])
    assert reward.decode(None, outputs, rows) == ["0.500", "0.500, -1.250"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Hi", "'Hi': is no JSON; give a chat, as {"),
        ("[1]", "is no object: [1]; give a chat"),
        ('{"prompt": "Hi"}', "has prompt, and a chat has"),
        (
            '{"prompt": "Hi", "completion": "%s"}' % ("a" * 50),
            "tokens, more than --sequence-length",
        ),
    ],
)
def test_what_is_no_chat_is_one_message(text, why):
    with pytest.raises(UserError) as error:
        one_chat(text, reward.encoder("bytes"), 48)
    assert str(error.value).startswith("--prompt: ") and why in str(error.value)


@pytest.mark.parametrize("name", ["gpt-j", "gpt2", "gpt-neox", "llama"])
def test_the_head_for_words_is_no_part_of_it(name):
    """Neither of the model nor of its files, whatever a family calls it."""
    model = find_model(name, "", 1)
    module, weights = emitted(model)
    config = getattr(module, model.family.config_class)(**model.tiny.sizes)
    build = getattr(module, model.family.model_class)

    def make():
        return with_score(build(config, rngs=nnx.Rngs(0)), config.embed_dim, 3, nnx.Rngs(1))

    params = flatten(nnx.to_pure_dict(nnx.state(nnx.eval_shape(make), nnx.Param)))
    own = ScoreWeights(weights, 3)
    assert own.tensors(config).keys() == params.keys()
    assert params["score/kernel"].shape == (config.embed_dim, 3)
    words = {t.name for p, t in weights.tensors(config).items() if p not in params}
    assert words <= {"lm_head.weight", "lm_head.bias", "embed_out.weight"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt-j"])
def test_transformers_makes_the_same_numbers(name, tmp_path):
    import torch
    import transformers

    pair = reference(name).pair(name)
    config = pair.config()
    model = with_score(pair.ours, config.embed_dim, 2, nnx.Rngs(1))
    weights = ScoreWeights(pair.weights, 2)
    params = nnx.to_pure_dict(nnx.state(model, nnx.Param))
    document = weights.hf_config(config) | {"pad_token_id": 0}
    export(params, tmp_path / "a", document, table=weights.tensors(config))
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "a")
    ids = np.array([[3, 4, 5, 6], [7, 8, 9, 0]], np.int32)
    ours = score_last(model, jnp.asarray(ids), jnp.asarray(ids > 0))
    with torch.no_grad():
        scores = theirs.eval()(torch.from_numpy(ids.astype(np.int64))).logits.numpy()
    assert ours.shape == (2, 2) and np.abs(np.asarray(ours) - scores).max() < TOLERANCE
