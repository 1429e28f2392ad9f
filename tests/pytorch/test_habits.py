"""What files of PyTorch have beside layers: it is computed as there, or refused by name."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from redco_new.errors import RedcoError
from redco_new.own.call import Call
from redco_new.own.find import find_reference
from redco_new.request.own_class import Input


def printed(name, shape=(32,), file="nets_habits.py"):
    from redco_new.pytorch.functions import with_class
    from redco_new.pytorch.make import print_class

    reference = find_reference("--model", f"{file}:{name}", Path(__file__).parent)
    if not isinstance(reference.value, type):
        reference = with_class(reference, "--config", {})
    return print_class(reference, "--config", {}, Call({"x": Input(shape)}))


def test_checkpoints_autocast_and_compiled_methods_are_what_they_call(capfd):
    made = printed("Habits")
    assert max(made.gate.outputs, made.gate.gradients) < 1e-5 and made.modes
    assert "class Gates(" in made.source and "Gates()," in made.source  # two statements
    assert "nnx.initializers.constant(2.6592600369327" in made.source  # no np.float64
    assert not capfd.readouterr().err


def test_what_draws_within_a_sequential_is_a_part_of_its_own():
    """And its entries may have names, and be parts of the class beside, with a weight that is computed."""
    made = printed("Dropped", (3, 6, 6))
    assert made.parameters["net/layers/0/bias"].name == "net.conv.bias"
    assert made.parameters["net/layers/3/bias"].name == "last.bias"  # as safetensors saves it
    assert "self.last" not in made.source
    assert "self.net.layers[0].bias" in made.source
    assert "            Dropout2d(config.rate, " in made.source and "lambda" not in made.source


def test_what_another_package_computes_is_an_expression_of_its_caller():
    """And an entry of a Sequential one expression, in however many statements einops has it."""
    made = printed("Patches", (3, 16, 16), "nets_einops.py")
    assert max(made.gate.outputs, made.gate.gradients, made.gate.buffers) < 1e-5
    assert "            lambda x: x.reshape(x.shape[0], 3, 4, 4, 4, 4)\n" in made.source
    assert "k = qkv[1].reshape(B, 17, self.heads, -1).transpose((0, 2, 1, 3))" in made.source
    assert "tensor" not in made.source and "S = x.shape[1]" not in made.source
    # Of a list, what is None; an argument that is called as a function is; what is drawn to leave examples out.
    assert re.search(r"LayerNorm\(width, .*\), None\]", made.source)
    assert "            lambda x: max_pool(x, (2, 2)),\n" in made.source
    assert made.source.count("self.drop(x) * self.dropout_2(jnp.ones((B, 1, 1)") == 1
    # A BatchNorm that does more has one, which is saved under the names of its own.
    assert "self.norm = BatchNorm(width, momentum=0.9, epsilon=0.001, " in made.source
    place = "lists/layers/1/conv/layers/1/norm/"
    assert made.parameters[f"{place}scale"].name == "lists.layers.1.conv.1.weight"
    assert made.buffers[f"{place}mean"].name == "lists.layers.1.conv.1.running_mean"


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_weight_that_a_hook_computes_is_refused_by_name():
    with pytest.raises(RedcoError, match="a hook computes the weight of fc") as caught:
        printed("Hooked")
    assert "parametrizations" in caught.value.todo


def test_a_step_that_no_rule_prints_is_refused_with_its_line():
    with pytest.raises(RedcoError, match="what no rule prints") as caught:
        printed("Unruled")
    lines = Path(__file__).with_name("nets_habits.py").read_text().splitlines()
    (number,) = (i for i, line in enumerate(lines, 1) if "float8_e4m3fn" in line)
    assert caught.value.where == f"nets_habits.py:{number}"


@pytest.mark.parametrize(
    ("in_place", "what"),
    [(True, "it writes its parameter target.weight"), (False, "in the place of a tensor")],
)
def test_a_forward_that_writes_parameters_is_refused(in_place, what):
    import torch
    from pytorch.nets_habits import Follows

    from redco_new.pytorch.graph import trace

    with pytest.raises(RedcoError, match=what) as caught:
        trace(Follows(in_place).to("meta"), {"x": torch.empty(2, 32, device="meta")})
    assert "register_buffer" in caught.value.todo and "github" not in str(caught.value)
    assert caught.value.where.startswith("nets_habits.py:" if in_place else "Follows")


def test_a_part_gives_the_same_each_time_that_it_is_called():
    import torch
    from pytorch.nets_habits import Steps

    from redco_new.pytorch.graph import trace

    graphs = trace(Steps().to("meta"), {"x": torch.empty(2, 32, device="meta")}).graphs
    gives = [graphs[f"cell{at}"].output_node().args[0] for at in ("", "@1", "@2")]
    assert [len(x) for x in gives] == [2, 2, 2]
    (item,) = graphs[""].output_node().all_input_nodes
    assert item.args[0].target == "cell@2"
    assert gives[2][item.args[1]].args[1] == 0  # of lstm_cell, which gives h and c


def test_numbers_that_a_constructor_reads_are_known_without_values():
    import torch
    from torch import nn

    from redco_new.pytorch.buffers import trace_buffers
    from redco_new.pytorch.construct import construct

    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            rates = torch.linspace(0, 0.3, 4)
            self.norm = nn.LayerNorm(4)  # which fills its own
            self.rates = rates.tolist() + [x.item() for x in 1 - 2.0 ** -torch.arange(3)]
            self.sizes = rates.split([1, 3])[1].numpy().tolist()
            self.register_buffer("table", torch.arange(4) * rates[2].item())

    here, there = construct(Reads, "meta").module, construct(Reads, "cpu").module
    rounded = construct(Reads, "meta", torch.bfloat16).module  # numbers are no more than read
    assert rounded.rates == here.rates
    assert (here.rates, here.sizes) == (there.rates, there.sizes)
    assert trace_buffers(Reads).keys() == {"table"}


def test_a_number_that_is_written_is_not_read_as_it_was(monkeypatch):
    """Whatever transformers replaced when PyTorch looked for what makes tensors on a device."""
    import torch
    from torch import nn

    from redco_new.pytorch.construct import construct

    class Fills(nn.Module):
        def __init__(self):
            super().__init__()
            self.rate = torch.linspace(0, 1, 4).fill_(3).tolist()

    torch.utils._device._device_constructors.cache_clear()
    with monkeypatch.context() as other, torch.device("meta"):
        other.setattr(torch, "linspace", lambda *args: None)
        torch.empty(1)
    with pytest.raises(NotImplementedError):
        construct(Fills, "meta")


def test_inputs_of_another_size_by_which_the_program_is_another_one_stay():
    from torch import fx

    from redco_new.pytorch.own_numbers import trace_other_inputs
    from redco_new.pytorch.setting import Setting

    def trace(setting):
        graph = fx.Graph()
        x = graph.placeholder("x")
        graph.output(x if setting.inputs["x"].shape == (8,) else graph.call_function(abs, (x,)))
        return None, SimpleNamespace(graphs={"": graph})

    user, other = (Setting({}, {"x": Input((n,))}, n) for n in (8, 4))
    setting, _ = trace_other_inputs((user, other), trace, trace(user))
    assert setting.inputs["x"].shape == (8,) and setting.batch == 4


def test_a_buffer_that_is_written_whole_is_what_was_written():
    """As transformers' BERT: it is a view, and is written anew where parameters are drawn."""
    import torch
    from torch import nn

    from redco_new.pytorch.buffers import trace_buffers

    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("places", torch.arange(7).expand((1, -1)), persistent=False)
            self.others = nn.Buffer(torch.arange(7).expand((1, -1)))
            for buffer in self.buffers():
                buffer.copy_(torch.arange(7).expand((1, -1)))

    for graph in trace_buffers(Positions).values():
        steps = [node.target for node in graph.nodes if node.op == "call_function"]
        assert steps == [torch.ops.aten.arange.default, torch.ops.aten.expand.default]


def test_what_a_function_makes_is_printed_by_its_name():
    """And where rounding decides between two sides in float32, both are compared in float64."""
    made = printed("deep_kinks")
    assert (made.name, made.config_class) == ("DeepKinks", "DeepKinksConfig")
    assert [field.name for field in made.fields] == [
        "classes",
        "dtype",
    ]  # as its signature has them
    assert "self.head = Linear(32, config.classes, " in made.source
    assert made.gate.dtype == "float64" and 0 < made.gate.gradients < 1e-6
    with pytest.raises(RedcoError, match="give --model transformers:GPT2LMHeadModel"):
        printed("of_transformers")


def test_a_sequential_with_a_forward_of_its_own_is_a_class_and_what_is_computed_anew_is_computed():
    made = printed("Denoiser", (16,))
    assert max(made.gate.outputs, made.gate.gradients) < 1e-5
    assert made.parameters["blocks/0/layers/0/up/bias"].name == "blocks.0.0.up.bias"
    assert "self.layers = nnx.List([Lift(blocks_width, rngs=rngs), None])" in made.source
    assert "return jax.nn.silu(self.layers[0](" in made.source
    assert "group_norm(self.up(x_2), 4, 1e-05)" in made.source
