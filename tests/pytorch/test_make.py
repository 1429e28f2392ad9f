"""A class of PyTorch becomes a model in Flax NNX that computes the same, or is refused by name."""

from pathlib import Path

import pytest

from redco_new.errors import RedcoError
from redco_new.own.call import Call
from redco_new.own.find import find_reference
from redco_new.request.own_class import Input

HERE = Path(__file__).parent


def printed(name, arguments=None, **inputs):
    from redco_new.pytorch.make import print_class

    reference = find_reference("--model", f"nets.py:{name}", HERE)
    return print_class(reference, "--config", arguments or {}, Call(inputs))


def test_a_perceptron_is_printed_as_its_author_wrote_it():
    made = printed("MLP", x=Input((784,)))
    assert (
        "self.fc1 = Linear(config.features, config.width, dtype=config.dtype, rngs=rngs)"
        in made.source
    )
    assert "from redco_runtime.nn.uniform import Linear" in made.source
    assert "h = jax.nn.relu(self.fc1(x))\n        return self.fc2(h)" in made.source
    assert [field.name for field in made.fields] == ["features", "width", "classes", "dtype"]
    assert made.parameters["fc1/kernel"].name == "fc1.weight"
    assert not made.modes and max(made.gate.outputs, made.gate.gradients) < 1e-5


def test_rates_that_are_one_number_are_several_fields():
    from torch import nn

    from redco_new.pytorch.search import Search
    from redco_new.pytorch.setting import Setting

    def make(rates):
        return nn.Sequential(nn.Dropout(rates["p"]), nn.Dropout(rates["q"]))

    base = Setting({"p": 0.1, "q": 0.1}, {"input": Input((8,))})
    search = Search(make, Call(base.inputs), base)
    others = [search.other(base, number).arguments for number in (1, 2)]
    assert all(len({one["p"], one["q"], 0.1}) == 3 for one in others)


def test_sizes_are_others_also_where_a_shorter_text_has_fewer_steps():
    import torch
    from torch import nn

    from redco_new.pytorch.probe import find_sizes

    class Chunks(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.inner = nn.Linear(8, width)

        def forward(self, x):
            return torch.cat([self.inner(chunk).cumsum(1) for chunk in x.split(64, 1)], 1)

    call = Call({"x": Input((128, 8))})
    sizes = find_sizes(lambda sizes: Chunks(**sizes), call, {"width": 16}, 32)
    assert sizes.small.inputs["x"].shape[0] < 64
    assert len({setting.arguments["width"] for setting in sizes.settings}) == 3


def test_sizes_that_can_be_any_are_tried_at_once():
    from torch import nn

    from redco_new.pytorch.probe import find_sizes

    def make(sizes):
        tried.append(sizes)
        return nn.Sequential(*(nn.LeakyReLU(rate) for rate in sizes["rates"].values()))

    tried, rates = [], {f"rate_{i}": 0.01 * (i + 1) for i in range(16)}
    sizes = find_sizes(make, Call({"input": Input((8,))}), {"rates": rates}, 32)
    for name in rates:
        assert len({one.arguments["rates"][name] for one in sizes.settings}) == 3
    assert len(tried) < 16


def test_a_width_stays_large_enough_for_other_numbers_of_heads():
    import torch
    from torch import nn

    from redco_new.pytorch.probe import find_sizes

    class Heads(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.words, self.heads = nn.Embedding(100, width), heads
            self.query = nn.Linear(width, width // heads * heads)
            assert heads <= width

        def forward(self, x):
            y = self.query(self.words(x)).unflatten(-1, (self.heads, -1))
            half = y.shape[-1] // 2  # of a head of one, all is the second one
            return torch.cat([-y[..., half:], y[..., :half]], -1)

    arguments, call = {"width": 1024, "heads": 32}, Call({"x": Input((64,), "int32", 100)})
    sizes = find_sizes(lambda sizes: Heads(**sizes), call, arguments, 32)
    heads = [one.arguments["heads"] for one in sizes.settings[:3]]
    lengths = [one.inputs["x"].shape[0] for one in sizes.settings[:3]]
    assert len({*heads, *lengths}) == 6  # it goes with no dim of the inputs


def test_matrices_that_are_read_one_by_one_have_one_gradient():
    import torch
    from torch import nn

    from redco_new.pytorch.gate_draws import WithoutDraws

    matrices, x = nn.Parameter(torch.randn(4, 3, 2)), torch.randn(2)
    with WithoutDraws(True):
        rows = [matrices[i] @ x for i in (0, torch.tensor(2), -1)]
    torch.stack(rows).sum().backward()
    assert len({row.grad_fn.next_functions[0][0] for row in rows}) == 1
    wanted = x.expand(4, 3, 2) * torch.tensor([1.0, 0, 1, 1])[:, None, None]
    assert torch.equal(matrices.grad, wanted)


def test_a_size_by_which_a_class_has_other_parts_is_tried_once():
    from torch import nn

    from redco_new.pytorch.search import Search
    from redco_new.pytorch.setting import Setting
    from redco_new.pytorch.trial import Trial

    def make(sizes):
        made.append(sizes["layers"])
        return nn.Sequential(*(nn.Linear(8, 8) for _ in range(sizes["layers"])))

    made, base = [], Setting({"layers": 2}, {"input": Input((8,))})
    search = Search(make, Call(base.inputs), base)
    search.other(base, 1)
    assert len(set(made)) == 2 and Trial(make, search.call, base).lengths() == {}


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((96, 180, 312), "(rope + nope) * heads"),  # latent queries
        ((96, 64, 120), "width + 2 * (width // heads)"),  # queries, and one key and value
        ((128, 168, 240), "width + 2 * rope * heads"),
        ((0.5, 5**-0.5, 4.5**-0.5), "(rope / 2) ** -0.5"),
    ],
)
def test_a_size_of_several_is_said_by_them(values, text):
    from redco_new.pytorch.sizes import Atom, Number, express

    sizes = {"rope": (8, 10, 9), "nope": (16, 20, 30), "heads": (4, 6, 8), "width": (64, 48, 96)}
    assert express(Number(values), [Atom(name, x) for name, x in sizes.items()]) == text


@pytest.mark.parametrize(("place", "text"), [((0, 0, 0, 1, 1, 1), "(2.5, 7.25)[i]"), ((0, 1, 2, 0, 1, 2), None)])  # fmt: skip
def test_a_number_goes_by_the_place_of_a_layer_and_by_no_size(place, text):
    from redco_new.pytorch.sizes import Atom, Number, express

    of_place = {(0, 0, 0, 1, 1, 1): (2.5, 2.5, 2.5, 7.25, 7.25, 7.25)}
    values = of_place.get(place, (2.53, 7.27, 3.19, 2.53, 7.27, 3.19))
    assert express(Number(values), [Atom("i", place)]) == text


def test_three_sizes_are_tried_before_two_and_a_constant():
    """Which is here 34 - (heads - chosen), by chance."""
    from redco_new.pytorch.sizes import Atom, Number, express

    sizes = {"width": (64, 80, 96), "heads": (4, 12, 16), "kv": (2, 4, 6), "chosen": (2, 2, 18)}
    scope = [Atom(name, x) for name, x in sizes.items()]
    assert express(Number((32, 24, 36)), scope) == "width // heads * kv"


def test_three_sizes_and_a_part_of_one_are_tried_before_a_square_and_a_constant():
    """Which are here out ** 2 // 2, and 32 - (2 * (words // heads) - 1) ** 2, by chance."""
    from redco_new.pytorch.sizes import Atom, Number, express

    sizes = {"patch": (2, 4, 8), "out": (8, 32, 128), "words": (12, 20, 12), "heads": (4, 10, 12)}
    scope = [Atom(name, x) for name, x in (sizes | {"buckets": (16, 48, 64)}).items()]
    assert express(Number((32, 512, 8192)), scope) == "patch ** 2 * out"
    assert express(Number((7, 23, 31)), scope) == "buckets // 2 - 1"


def test_what_t5_makes_of_its_sizes_is_said_by_them():
    """Its far buckets are keys // batch + labels // heads, by chance."""
    from redco_new.pytorch.sizes import Atom, Number, express

    sizes = {"keys": (16, 80, 48, 16), "labels": (2, 8, 12, 2), "buckets": (8, 24, 10, 8)}
    rates = (1.0, 1.25, 1.5, 1.0)
    scope = [Atom(name, x) for name, x in (sizes | {"factor": rates}).items()]
    assert express(Number((2, 6, 3, 2)), scope) == "buckets // 2 - buckets // 4"
    assert express(Number((17, 16, 18)), [Atom("n", (33, 32, 35))]) == "n - n // 2"
    products = (16 * 8, 80 * 24, 48 * 10, 16 * 8)
    deviations = Number(tuple(x * n**-0.5 for x, n in zip(rates, products, strict=True)))
    assert express(deviations, scope) == "factor * (keys * buckets) ** -0.5"


def test_sizes_that_are_to_divide_are_powers_of_two_times_as_large():
    from torch import nn

    from redco_new.pytorch.search import Search
    from redco_new.pytorch.setting import Setting

    def make(sizes):
        assert sizes["heads"].bit_count() == 1
        return nn.Dropout(sizes["noise"])

    base = Setting({"heads": 4, "noise": 0.0}, {"input": Input((8,))})
    search = Search(make, Call(base.inputs), base, by_twos=True)
    others = [search.other(base, number).arguments for number in (1, 2)]
    assert {one["heads"] for one in others} < {8, 16, 32} and others[0] != others[1]
    assert [one["noise"] for one in others] == [0.0, 0.0]  # what is switched off stays so


def test_positions_begin_after_that_of_padding_where_a_table_has_such():
    from torch import nn

    from redco_new.pytorch.text_methods import print_methods
    from redco_new.pytorch.texts import NAMES, TextMethods
    from redco_new.pytorch.transformers_classes import first_position

    table = nn.ModuleDict({"position_embeddings": nn.Embedding(10, 4, padding_idx=1)})
    assert first_position(table) == 2
    assert first_position(nn.ModuleDict({"position_embeddings": nn.Embedding(10, 4)})) == 0
    methods = TextMethods((NAMES["input_ids"],), (), longest="max_position_embeddings", first=2)
    text = print_methods(methods, "", "")
    assert "if S > self.config.max_position_embeddings - 2:" in text


def test_parts_of_which_some_see_a_window_are_told_it_by_what_makes_them():
    import torch
    from torch import fx, nn

    from redco_new.pytorch.attention import attention
    from redco_new.pytorch.construct import Instance
    from redco_new.pytorch.graph import Traced
    from redco_new.pytorch.windows import Window, say_windows

    class Attention(nn.Module):
        def __init__(self, window):
            super().__init__()
            self.local_window = window

    class Layer(nn.Module):
        def __init__(self, window):
            super().__init__()
            self.attend = Attention(window)

    def program(window):
        graph = fx.Graph()
        q = graph.placeholder("q")
        numbers = (0.5, True, window, 0.0, 0.0)
        graph.call_function(torch.ops.redco.attention.default, (q, q, q, None, None, *numbers))
        return graph

    def told(*windows):
        layers = nn.ModuleList([Layer(x or None) for x in windows])
        graphs = {f"{i}.attend": program(x) for i, x in enumerate(windows)}
        paths = ["", *(f"{i}{x}" for i in range(len(windows)) for x in ("", ".attend"))]
        instance = Instance(layers, {path: {"width": 8} for path in paths}, {})
        return say_windows(instance, Traced(layers, graphs, None))[0].arguments

    assert attention is not None
    arguments = told(16, 0, 16)
    assert arguments[""] == {"width": 8}
    for path, window in (("0", 16), ("1", 0), ("2", 16), ("1.attend", 0)):
        assert arguments[path] == {"width": 8, "local_window": window}
        assert isinstance(arguments[path]["local_window"], Window)
    assert told(16, 8) == {path: {"width": 8} for path in ("", "0", "0.attend", "1", "1.attend")}


def test_a_width_that_has_two_names_changes_under_both():
    from torch import nn

    from redco_new.pytorch.search import Search
    from redco_new.pytorch.setting import Setting

    def make(sizes):
        return nn.Linear(8, 8) if sizes["one"] == sizes["two"] else nn.Identity()

    base = Setting({"one": 16, "two": 16}, {"input": Input((8,))})
    other = Search(make, Call(base.inputs), base).other(base, 1).arguments
    assert other["one"] == other["two"] != 16


def test_a_size_by_which_parts_are_called_more_often_is_none_that_is_tried():
    from torch import nn

    from redco_new.pytorch.search import Search
    from redco_new.pytorch.setting import Setting

    class Shared(nn.Linear):
        def forward(self, input):
            for _ in range(self.times):
                input = nn.functional.relu(self.inner(input))
            return input

    def make(sizes):
        made = Shared(8, 8)
        made.inner, made.times = nn.Linear(8, 8), sizes["times"]
        return made

    base = Setting({"times": 12}, {"input": Input((8,))})
    assert Search(make, Call(base.inputs), base).other(base, 1).arguments == {"times": 12}


def test_a_width_becomes_no_smaller_than_a_slice_of_its_heads():
    """As of GPT-J, which turns a part of each head: a slice that takes all of one is not in the program."""
    from torch import nn

    from redco_new.pytorch.search import Search
    from redco_new.pytorch.setting import Setting
    from redco_new.pytorch.smaller import make_smaller

    class Halves(nn.Identity):
        def forward(self, input):
            parts = input.new_ones(4, self.width).reshape(4, self.heads, -1)
            return parts[..., : self.turned] * 2, parts[..., self.turned :]

    def make(sizes):
        made = Halves()
        made.width, made.heads, made.turned = (sizes[x] for x in ("width", "heads", "turned"))
        assert sizes["width"] % sizes["heads"] == 0
        return made

    sizes = {"width": 4096, "heads": 16, "turned": 64}
    base = Setting(sizes, {"input": Input((4,))})
    search = Search(make, Call(base.inputs), base)
    small = make_smaller(search)
    # The least that is turned is 32, of heads of 64; fewer of these make the width less.
    assert small.arguments == {"width": 256, "heads": 4, "turned": 32}
    for number in (1, 2):
        other = search.other(small, number).arguments
        assert all(other[name] != small.arguments[name] for name in ("width", "turned"))
        assert other["turned"] < other["width"] // other["heads"]


@pytest.mark.parametrize("together", [False, True])
def test_an_argument_as_large_as_an_input_changes_with_it_where_it_is_asked_for(together):
    from torch import nn

    from redco_new.pytorch.search import Search
    from redco_new.pytorch.setting import Setting

    base = Setting({"side": 16}, {"input": Input((16, 16))})
    search = Search(lambda sizes: nn.Identity(), Call(base.inputs), base, together=together)
    other = search.other(base, 1)
    assert (other.inputs["input"].shape == (other.arguments["side"],) * 2) == together
    assert other.arguments["side"] != 16


def test_a_head_with_the_weight_of_a_table_holds_its_bias_alone():
    made = printed("SharedWeight", ids=Input((12,), "int32"))
    assert '{"bias": nnx.Param(' in made.source and "kernel" not in made.source
    assert [*made.parameters] == ["head/bias", "table/embedding"]
    assert made.tied == {"head.weight": "table.weight"}
    assert "self.places = nnx.Variable(" in made.source and [*made.buffers] == ["places"]
    assert made.notes == (
        "places of SharedWeight is not trained, and is random until weights are read",
    )
    assert "jnp.minimum(x, jnp.square(x))" in made.source


def test_a_class_with_positions_in_its_attention_is_not_given_ours():
    import transformers

    from redco_new.own.find import Reference
    from redco_new.pytorch.alike import check_alike
    from redco_new.pytorch.setting import Setting
    from redco_new.pytorch.refusal import Differs
    from redco_new.pytorch.subject import read_subject

    name, call = "BloomForCausalLM", Call({"input_ids": Input((12,), "int32")})
    sizes = {"vocab_size": 96, "hidden_size": 48, "n_layer": 2, "n_head": 4}
    reference = Reference(transformers.BloomForCausalLM, name, "transformers", "")
    subject = read_subject(reference, "", sizes, call)
    _, ours, own, _ = [(way, Setting(subject.arguments, way.call.inputs)) for way in subject.ways]
    check_alike(name, subject, *own)
    with pytest.raises(Differs, match="with our attention its outputs differ"):
        check_alike(name, subject, *ours)


def test_images_with_batch_norm_and_dropout():
    made = printed("CNN", x=Input((3, 16, 16)))
    assert made.source.count("class Block(") == 1  # of two instances of other sizes
    assert (
        "Block(config.width, 2 * config.width, 0.1, dtype=config.dtype, rngs=rngs)" in made.source
    )
    assert "h = self.dropout(h)" in made.source and made.modes
    assert made.buffers["stem/layers/1/var"].name == "stem.1.running_var"
    assert 0 < made.gate.buffers < 1e-4 and made.gate.gradients < 1e-4


def test_recurrences_are_layers_of_the_runtime():
    made = printed("Recurrences", ids=Input((9,), "int32"))
    assert "num_layers=config.layers" in made.source and made.modes
    assert "lstm_0, _, lstm_2 = self.lstm(" in made.source and ")[1]" in made.source
    assert made.source.rstrip().endswith(", None)")
    assert made.parameters["lstm/weight_hh_l1_reverse"].name == "lstm.weight_hh_l1_reverse"


def test_images_become_smaller_and_larger():
    made = printed("Images", x=Input((3, 12, 12)))
    assert made.parameters["up/kernel"].order == (2, 3, 1, 0)
    assert "lambda x: x.reshape(x.shape[0], " in made.source
    assert "self.dropout = Dropout(0.25, rngs=rngs)" in made.source and made.modes
    assert "self.dropout(jnp.ones((" in made.source
    assert made.source.count("jax.image.resize(") == 1 and '"cubic"' in made.source
    assert made.source.count("(2, 2), ceil=True)") == 2
    assert "jnp.linalg.vector_norm(x, ord=2, axis=(2, 3), keepdims=True)" in made.source


def test_layers_that_are_copies_are_made_of_what_the_first_was_made_of():
    made = printed("Clones", ids=Input((12,), "int32"))
    assert "TransformerEncoderLayer(d_model, nhead, dim_feedforward" in made.source
    assert "over_layers" in made.source and "turns" not in made.parameters
    assert 'variance_scaling(1.0, "fan_avg", "uniform")' in made.source
    assert " Linear(d_model, dim_feedforward" in made.source
    assert not any("begins with" in note for note in made.notes)


def test_a_loop_over_the_places_of_an_input_has_its_length():
    made = printed("Steps", x=Input((3, 8)))
    assert made.source.count("self.cell(") == 3 and "other sizes" in made.notes[0]
    assert "Steps asserts what model.py does not check: x.shape[1] < 9" in made.notes


def test_numbers_that_are_drawn_are_of_each_example_in_training_and_none_in_evaluation():
    import jax
    import jax.numpy as jnp
    from flax import nnx

    made = printed("Blurs", x=Input((8,)))
    assert "self.noise((B, S), self.dtype)" in made.source and made.modes
    assert any("draws numbers" in note for note in made.notes)

    from redco_runtime.nn.dropout import drop_by_example
    from redco_runtime.nn.noise import Noise

    def drawn():
        noise = Noise("normal", rngs=nnx.Rngs(0))
        drop_by_example(noise, jnp.zeros((4, 3)), jax.random.key(1))
        return noise, noise((4, 3)), noise((4, 3))

    noise, one, other = drawn()
    assert len({*one.ravel().tolist(), *other.ravel().tolist()}) == 24
    assert (drawn()[1] == one).all()
    noise.eval()
    assert not noise((4, 3)).any()


def test_the_length_of_a_text_is_never_baked_in():
    made = printed("Bag", ids=Input((17,), "int32"))
    assert "S = ids.shape[1]" in made.source and "jnp.arange(S)[None, :, None] / S" in made.source
    assert "17" not in made.source
    assert "nnx.Variable(jnp.asarray(config.dim**0.5, jnp.float32))" in made.source
    assert "self.model = nnx.Dict(" in made.source  # which is never called
    assert "return self.head(x, self.model.table.embedding[...])" in made.source
    assert "x = jnp.mean(jnp.concatenate((x, x[:, :1]), axis=1), axis=1)" in made.source
    assert "jax.nn.standardize(self.norm(x), mean=0.0, epsilon=" in made.source
    assert made.parameters["norm/scale"].name == "norm.weight" and "nnx.RMSNorm(" in made.source
    assert (
        "dtype" not in made.source and "Bag computes in float32" in made.notes[0]
    )  # S is float32 there


def test_it_computes_in_the_dtype_of_its_config_but_where_its_class_says_float32():
    made = printed("Island", x=Input((64,)))
    assert "h = self.fc(x).astype(jnp.float32)" in made.source
    assert "h = h * self.scale[...]\n" in made.source  # as stored
    assert "return h.astype(self.dtype) + self.shift[...].astype(self.dtype)" in made.source
    assert made.gate.rounded < 2


def test_a_gpt_has_its_layers_in_a_loop_and_attention_by_the_runtime():
    made = printed("GPT", {"layers": 3}, ids=Input((12,), "int32"))
    assert "y = attention(q, k, v, causal=True, drop=self.dropout)" in made.source
    assert "q = q.reshape(B, S, self.heads, self.head_dim)" in made.source
    assert "x = run(self.blocks, x)" in made.source and "splits=config.layers" in made.source
    assert "return self.ln_f(x) @ self.wte.embedding[...].astype(self.dtype).T" in made.source
    assert "embedding_init=nnx.initializers.normal(1.0)" in made.source
    assert made.tied == {"lm_head.weight": "wte.weight"}
    assert made.parameters["blocks/attn/qkv/kernel"].name == "blocks.{}.attn.qkv.weight"


@pytest.mark.slow
def test_attention_by_hand_is_printed_as_it_is():
    made = printed("GPT", {"kind": "hand"}, ids=Input((12,), "int32"))
    assert "att = jax.nn.softmax(att, axis=-1)" in made.source
    assert "nnx.Variable(jnp.tril(jnp.ones((64, 64)" in made.source


@pytest.mark.slow
def test_a_decoder_of_transformers_is_made_of_its_config():
    import transformers

    from redco_new.own.find import Reference
    from redco_new.pytorch.make import print_class

    reference = Reference(transformers.LlamaForCausalLM, "LlamaForCausalLM", "transformers", "")
    sizes = {"vocab_size": 96, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
    made = print_class(reference, "", sizes | heads, Call({"input_ids": Input((12,), "int32")}))
    assert [*made.inputs] == ["input_ids"]  # a mask of ones says nothing
    assert "attn_output = attend(" in made.source and made.hub.prefix == "model."
    assert "def decode(self, input_ids_BS, positions_BS, mask_BT, cache, index)" in made.source
    assert "splits=config.num_hidden_layers" in made.source
    assert "kernel_init=nnx.initializers.normal(config.initializer_range)" in made.source
    assert "config.num_key_value_heads * config.head_dim" in made.source
    assert made.parameters["model/layers/mlp/up_proj/kernel"].name == (
        "model.layers.{}.mlp.up_proj.weight"
    )
    assert max(made.gate.outputs, made.gate.gradients) < 1e-5


def test_a_parameter_that_checkpoints_leave_out_is_named():
    from redco_new.pytorch.stored_names import unread_names

    net = find_reference("--model", "nets.py:MLP", HERE).value()
    net._keys_to_ignore_on_save = {"fc1.bias"}
    keys = {name: name for name in net.state_dict()}
    assert unread_names(net, keys) == ("fc1.bias",)


def test_what_others_call_of_a_part_is_there_and_sizes_are_told():
    made = printed("Apart", ids=Input((9,), "int32", 40))
    assert "self.first = " in made.source.partition("class Inner(")[2]
    assert "self.places(B, S)" in made.source


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Distances", r"nets.py:\d+: .*cdist.* has no rule"),
        ("NormsItself", r"nets.py:\d+: it calls F.batch_norm beside nn.BatchNorm; hold an nn"),
        ("Branches", r"nets.py:\d+: it branches on a value of a tensor; use torch.where"),
        (
            "OwnBackward",
            r"the gradient of fc.weight differs from PyTorch's by 3.3e-01 of the largest",
        ),
    ],
)
def test_what_cannot_be_printed_is_refused_by_name(name, message, capfd):
    with pytest.raises(RedcoError, match=message):
        printed(name, x=Input((8,)))
    assert capfd.readouterr() == ("", "")  # PyTorch's log, with its graph


def test_a_classifier_of_texts_reads_which_tokens_are_padding():
    import transformers

    from redco_new.pytorch.kinds import class_inputs

    sizes = {"vocab_size": 99}
    inputs = class_inputs(transformers.ElectraForSequenceClassification, sizes, 12)
    assert inputs == {
        "input_ids": Input((12,), "int32", 99),
        "attention_mask": Input((12,), "bool"),
    }
    for name in ("ElectraForMaskedLM", "LlamaForCausalLM", "BartForConditionalGeneration"):
        assert "attention_mask" not in class_inputs(getattr(transformers, name), sizes, 12)


@pytest.mark.parametrize(("eps", "text"), [((1e-5, 2e-5), "(1e-05, 2e-05)"), (None, "1.1920928955078125e-07")])  # fmt: skip
def test_a_rate_of_a_norm_that_follows_from_a_size_is_not_the_usual_one(eps, text):
    import ast

    import torch

    from redco_new.pytorch.layer_rules import _norm
    from redco_new.pytorch.merge import Node
    from redco_new.pytorch.sizes import Number

    class Body:
        def value(self, x):
            return ast.Constant(x.values) if isinstance(x, Number) else ast.Name("x")

    node = Node("operation", "rms_norm.default", {}, (), torch.float32, None, "")
    arguments = {"normalized_shape": [8], "eps": eps and Number(eps), "input": node}
    assert ast.unparse(_norm(Body(), arguments, node)).endswith(f"epsilon={text})")


def test_of_equal_numbers_the_first_are_the_largest_in_the_gate():
    import torch

    from redco_new.pytorch.gate_draws import WithoutDraws

    x = torch.tensor([[0.0, 2.0, 2.0, 2.0, 2.0, 1.0] * 9]).requires_grad_()
    with WithoutDraws(training=True):
        values, places = torch.topk(x, 3)
        assert x.topk(2, largest=False).indices.tolist() == [[0, 6]]
    assert places.tolist() == [[1, 2, 3]] and values.tolist() == [[2.0, 2.0, 2.0]]
    values.sum().backward()
    assert x.grad.nonzero()[:, 1].tolist() == [1, 2, 3]


def test_parts_that_hold_other_parameters_are_of_two_classes():
    from types import SimpleNamespace

    import torch
    from torch import nn

    from redco_new.pytorch.classes import Classes

    parts = {name: nn.Identity() for name in ("plain", "biased", "other")}
    for name in ("biased", "other"):  # which what calls it reads
        parts[name].bias = nn.Parameter(torch.zeros(4))
    own = SimpleNamespace(
        part=parts.get, structures=SimpleNamespace(of=lambda _: ""), _tables=lambda _: ()
    )
    keys = {name: Classes.key(own, name) for name in parts}
    assert keys["biased"] == keys["other"] != keys["plain"]


def test_a_config_within_another_is_the_one_of_model_py():
    from types import SimpleNamespace

    from redco_new.pytorch.makers import Makers

    text, sizes = SimpleNamespace(model_type="text", width=8), {"width": 8}
    whole = SimpleNamespace(model_type="whole", text_config=text, sizes=sizes)
    instance = SimpleNamespace(arguments={"model": {"config": whole}})
    own = SimpleNamespace(path="model", rows=[(SimpleNamespace(instance=instance), "model")])
    makers = SimpleNamespace(_own=own)
    assert Makers._object(makers, "config", [text]) == "config"
    assert Makers._object(makers, "config", [sizes]) == "config"


@pytest.mark.parametrize(
    ("rank", "text"), [(2, "jnp.where(m, y, x)"), (3, "jnp.where(m[..., None], y, x)")]
)
def test_places_that_truths_choose_are_a_choice_and_no_index(rank, text):
    import ast

    import torch

    from redco_new.pytorch.merge import Node
    from redco_new.pytorch.place_rules import _put_many

    class Body:
        def value(self, x):
            return ast.Name(x.target)

    dims = {"x": (2, 8, 4)[:rank], "m": (2, 8), "y": ()}
    dtypes = {"x": torch.float32, "m": torch.bool, "y": torch.float32}
    x, m, y = (
        Node("input", name, {}, dims[name], dtypes[name], None, "") for name in ("x", "m", "y")
    )
    node = Node("operation", "index_put.default", {}, dims["x"], torch.float32, None, "")
    printed = _put_many(Body(), {"self": x, "indices": [m], "values": y}, node)
    assert ast.unparse(printed) == text
