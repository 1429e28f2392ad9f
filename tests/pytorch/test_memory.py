"""What `forward` keeps is forgotten after a call, as a table is that the next one makes anew, but buffers; a class that remembers otherwise is refused."""

from pathlib import Path

import pytest

from redco_new.errors import RedcoError
from redco_new.own.call import Call
from redco_new.own.find import find_reference
from redco_new.pytorch.expressions import literal
from redco_new.pytorch.merge import WRITES
from redco_new.pytorch.values import steps_of_writes
from redco_new.request.own_class import Input

FILE = Path(__file__).with_name("nets_memory.py")


def printed(name):
    from redco_new.pytorch.make import print_class

    reference = find_reference("--model", f"{FILE.name}:{name}", FILE.parent)
    return print_class(reference, "--config", {}, Call({"ids": Input((12,), "int32", 50)}))


def line_of(text):
    (line,) = (i for i, x in enumerate(FILE.read_text().splitlines(), 1) if text in x)
    return f"{FILE.name}:{line}"


def test_buffers_and_attributes_that_a_call_assigns_and_tables_that_it_keeps():
    made = printed("Keeps")
    assert max(made.gate.outputs, made.gate.gradients) < 1e-5
    assert any(f.name == "dtype" for f in made.fields)  # compared in bfloat16 too
    assert not made.notes


def test_a_cache_that_evaluation_writes_into():
    made = printed("Cached")
    assert any(f.name == "dtype" for f in made.fields) and not made.notes


def test_what_a_later_call_reads_is_refused_with_its_line():
    with pytest.raises(RedcoError, match="its next call gives something else") as caught:
        printed("Remembers")
    assert caught.value.where == line_of("y, self.hidden = ")
    assert "self.hidden" in caught.value.what


def test_a_tensor_that_a_call_writes_into_is_refused_with_its_line():
    with pytest.raises(RedcoError, match="it writes into its tensor cache_k") as caught:
        printed("Writes")
    assert caught.value.where == line_of("self.cache_k[: ids.shape[0], : ids.shape[1]] = x")


def test_what_training_writes_into_buffers_is_carried_and_read_in_evaluation():
    made = printed("Norms")
    assert max(made.gate.outputs, made.gate.gradients, made.gate.buffers) < 1e-5
    assert "over_layers" in made.source and not made.notes
    step = """
        shifted = y - self.center[...].astype(self.dtype)
        if not self.use_running_average:
            self.mean[...] = self.mean[...] * 0.9 + 0.1 * jnp.mean(x, axis=(0, 1))
            self.var[...] = self.var[...] * 0.9 + 0.1 * jnp.var(x, axis=(0, 1))
"""
    assert step in made.source and "self.use_running_average = False" in made.source


def test_what_evaluation_writes_and_reads_is_refused_with_its_line():
    with pytest.raises(
        RedcoError, match="evaluation reads what it wrote into its buffer mean"
    ) as e:
        printed("NormsAlways")
    assert e.value.where == line_of("self.mean.lerp_(")
    assert e.value.todo == "write it within `if self.training:`"


def test_a_codebook_of_moving_averages_that_begin_as_its_codes():
    made = printed("Codes")
    assert made.gate.buffers < 1e-5 and not made.notes
    start = "self.codes = nnx.Variable(nnx.initializers.normal(1.0)(rngs.params(), "
    text = " ".join(made.source.split()).replace("( ", "(")
    assert start in text and "self.means = nnx.Variable(self.codes[...])" in text
    assert "self.sizes[...] * self.decay + (1 - self.decay) * jnp.sum(chosen" in text
    assert [literal(x) for x in (1 - 0.99, 2, 0.7978845608028654)] == [
        "0.01",
        "2",
        "0.7978845608028654",
    ]


def test_what_is_written_is_found_in_a_program_of_any_length():
    class Step:
        def __init__(self, target, *users):
            self.target, self.users = target, users

    kept, write = Step("output"), Step(WRITES)
    chain = [Step("aten.sin", write)]
    for _ in range(5000):
        chain.insert(0, Step("aten.sin", chain[0]))
    read = Step("aten.cos", chain[0], kept)
    assert steps_of_writes([read, *chain, write, kept]) == {*chain}
