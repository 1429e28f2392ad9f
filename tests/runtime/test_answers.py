"""draw_answers(): the tokens of generate(), whatever rows are drawn at once, of what length, on which devices."""

import jax
import numpy as np
import pytest
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.nn import answers
from redco_runtime.nn.anew import decode_anew, empty_texts
from runtime.test_generate import SumModel, V, _expected, _prompts


@pytest.fixture
def small(monkeypatch):
    """small(rows, slots): so many rows of so many slots at once, and programs of few tokens and rows."""

    def small(rows, slots):
        few = {"SLOTS": rows * slots, "CHUNK": 3, "LENGTHS": 3, "FEW": min(rows, 2)}
        for name, value in few.items():
            monkeypatch.setattr(answers, name, value)

    return small


class Anew:
    """The same model without a cache of its own."""

    init_cache, logits = staticmethod(empty_texts), SumModel.logits

    def decode(self, *arguments):
        def hidden(ids_BT):
            places_T = 1 + np.arange(ids_BT.shape[1])
            return (7 * ids_BT + (ids_BT * places_T[None, :]).cumsum(axis=1))[..., None]

        return decode_anew(hidden, *arguments)


def draw(model, ids_BS, mask_BS, count, temperature=0.0, **more):
    options = {"temperature": temperature, "key": jax.random.key(0), "max_new_tokens": count}
    options |= {"copies": 1} | more
    run = jax.jit(lambda ids, mask: answers.draw_answers(model, ids, mask, **options))
    return np.asarray(run(ids_BS, mask_BS))


@pytest.mark.parametrize(
    ("model", "at_once", "count"),
    [(SumModel, 1, 12), (SumModel, 3, 2), (SumModel, 5, 12), (Anew, 5, 12), (SumModel, 99, 12)],
)
def test_an_answer_goes_on_where_its_question_ends_and_up_to_what_ends_it(
    small, model, at_once, count
):
    small(at_once, 7 + count - 1)
    ids_BS, mask_BS = _prompts((4, 1, 7, 6, 2, 7, 3, 5, 1, 2, 4), S=7)
    whole = [_expected(row[mask], count) for row, mask in zip(ids_BS, mask_BS, strict=True)]
    stop_ids = sorted({tokens[i % count] for i, tokens in enumerate(whole) if i % 3})
    for tokens in whole:
        end = next((i for i, token in enumerate(tokens) if token in stop_ids), count - 1)
        tokens[end:] = [tokens[end]] * (count - end)
    assert draw(model(), ids_BS, mask_BS, count, stop_ids=stop_ids).tolist() == whole


def test_answers_are_those_of_a_number_and_not_of_what_else_is_drawn(small):
    """At once, some at a time, on four devices: the same; those of one question differ."""
    prompts = _prompts((4, 1, 7, 6), S=7)
    options = {"temperature": 30.0, "copies": 3, "stop_ids": range(V // 4)}
    whole = draw(SumModel(), *prompts, 9, **options)
    assert len({*map(tuple, whole.tolist())}) == 12
    small(2, 15)
    np.testing.assert_array_equal(draw(SumModel(), *prompts, 9, **options), whole)
    with jax.set_mesh(make_mesh({"data": 2, "fsdp": 2}, jax.devices()[:4])):
        np.testing.assert_array_equal(draw(SumModel(), *prompts, 9, **options), whole)


def test_rows_that_have_ended_and_slots_that_are_empty_cost_little(small):
    calls = []

    class Counting(SumModel):
        def decode(self, ids_BS, positions_BS, mask_BT, cache, index):
            def write(_, size=(ids_BS.shape, mask_BT.shape[1])):
                calls.append(size)

            jax.debug.callback(write, ids_BS[0, 0])
            return super().decode(ids_BS, positions_BS, mask_BT, cache, index)

    small(8, 16)
    draw(
        Counting(), *_prompts([4] * 8, S=5), 12, temperature=50.0, copies=4, stop_ids=range(V // 5)
    )
    jax.effects_barrier()
    (question, slots), *steps = sorted(calls, key=lambda call: -call[0][1])
    assert question == (8, 5) and slots == 5, "a question is read once, and nothing behind it"
    assert sum(rows for (rows, _), _ in steps) < 32 * 11 / 2
    assert {rows for (rows, _), _ in steps} >= {8, 2} and len({length for _, length in steps}) > 1


@pytest.mark.parametrize("options", [(0, 0.0, 1), (4, -0.5, 1), (4, 0.0, 0)])
def test_impossible_options_are_named(options):
    count, temperature, copies = options
    with pytest.raises(ValueError, match=f"not {copies}, {count} and {temperature}"):
        draw(SumModel(), *_prompts((2,), S=2), count, temperature, copies=copies)
