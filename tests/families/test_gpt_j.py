"""GPT-J against transformers' PyTorch model, its cache against its full forward, and its traces."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import transformers
from flax import nnx
from families.decoders import check_all
from families.parity import emitted, random_torch
from families.reference import Reference
from jax.extend.core import jaxprs_in_params
from redco_runtime.nn.generate import generate

from redco_new.models.find import find_model
from redco_plan.apart.jaxprs import scan_sizes

SIZES = {"vocab_size": 97, "embed_dim": 48, "mlp_dim": 80, "num_layers": 3, "num_heads": 4}
LIMITS = {"rotary_dim": 8, "max_positions": 64}


SMALL = {
    "vocab_size": 131,
    "n_embd": 48,
    "n_inner": 80,
    "n_layer": 3,
    "n_head": 4,
    "rotary_dim": 8,
    "n_positions": 64,
    "bos_token_id": None,
    "eos_token_id": None,
}
REFERENCES = {"gpt-j": Reference(SMALL, check_all, {"6b": 6_050_882_784})}

gpt_j = emitted(find_model("gpt-j", "", 1))[0]


@pytest.fixture(autouse=True)
def strict_ranks():
    with jax.numpy_rank_promotion("raise"):
        yield


@pytest.fixture(scope="module")
def reference():
    """A small PyTorch GPT-J whose weights, biases and norms are all random."""
    config = transformers.GPTJConfig(
        vocab_size=SIZES["vocab_size"],
        n_embd=SIZES["embed_dim"],
        n_inner=SIZES["mlp_dim"],
        n_layer=SIZES["num_layers"],
        n_head=SIZES["num_heads"],
        rotary_dim=LIMITS["rotary_dim"],
        n_positions=LIMITS["max_positions"],
        bos_token_id=None,
        eos_token_id=None,
    )
    return random_torch(transformers.GPTJForCausalLM, config, seed=1, scale=0.2)


@pytest.fixture(scope="module")
def params(reference):
    """The reference's weights, by the names of the template. PyTorch kernels are (out, in)."""
    weights = {name: value.numpy() for name, value in reference.state_dict().items()}

    def stacked(name):
        layers = range(SIZES["num_layers"])
        return np.stack([weights[f"transformer.h.{i}.{name}"] for i in layers])

    def kernel(name):
        return {"kernel": stacked(f"{name}.weight").swapaxes(1, 2)}

    attn = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}
    mlp = {"up": "mlp.fc_in", "down": "mlp.fc_out"}
    layers = {
        "ln": {"scale": stacked("ln_1.weight"), "bias": stacked("ln_1.bias")},
        "attn": {ours: kernel(f"attn.{theirs}") for ours, theirs in attn.items()},
        "mlp": {o: kernel(t) | {"bias": stacked(f"{t}.bias")} for o, t in mlp.items()},
    }
    ln = {
        ours: weights[f"transformer.ln_f.{t}"] for ours, t in (("scale", "weight"), ("bias",) * 2)
    }
    head = {"kernel": weights["lm_head.weight"].T, "bias": weights["lm_head.bias"]}
    embed = {"embedding": weights["transformer.wte.weight"]}
    return {"embed": embed, "layers": layers, "ln": ln, "head": head}


def _config(**changes):
    return gpt_j.GPTJConfig(**(SIZES | LIMITS | {"dtype": "float32"} | changes))


def _split(config):
    model = nnx.eval_shape(lambda: gpt_j.GPTJ(config, rngs=nnx.Rngs(0)))
    graphdef, state = nnx.split(model, nnx.Param)
    return graphdef, nnx.to_pure_dict(state)


def _model(params, **changes):
    return nnx.merge(_split(_config(**changes))[0], jax.tree.map(jnp.asarray, params))


def _tokens(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, SIZES["vocab_size"], shape, dtype=np.int32)


def _mean_loss(params, graphdef, tokens_BS):
    logits_BSV = nnx.merge(graphdef, params)(tokens_BS[:, :-1]).astype(jnp.float32)
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits_BSV), tokens_BS[:, 1:, None], axis=-1)
    return -picked.mean()


def _equations(jaxpr):
    for equation in jaxpr.eqns:
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from _equations(inner)


def _trace(function, *args):
    return list(_equations(jax.make_jaxpr(function)(*args).jaxpr))


def test_parameters_are_named_and_stacked():
    V, D, F, L = (SIZES[k] for k in ("vocab_size", "embed_dim", "mlp_dim", "num_layers"))
    shapes = {
        "embed/embedding": (V, D),
        "layers/ln/scale": (L, D),
        "layers/ln/bias": (L, D),
        **{f"layers/attn/{name}/kernel": (L, D, D) for name in "qkvo"},
        "layers/mlp/up/kernel": (L, D, F),
        "layers/mlp/up/bias": (L, F),
        "layers/mlp/down/kernel": (L, F, D),
        "layers/mlp/down/bias": (L, D),
        "ln/scale": (D,),
        "ln/bias": (D,),
        "head/kernel": (D, V),
        "head/bias": (V,),
    }
    leaves = jax.tree_util.tree_leaves_with_path(_split(_config(dtype="bfloat16"))[1])
    found = {jax.tree_util.keystr(k, simple=True, separator="/"): x for k, x in leaves}
    assert {path: leaf.shape for path, leaf in found.items()} == shapes
    assert {leaf.dtype for leaf in found.values()} == {jnp.dtype("float32")}


def test_defaults_are_those_of_gpt_j_6b():
    theirs, ours = transformers.GPTJConfig(), gpt_j.GPTJConfig()
    assert (ours.num_heads, ours.rotary_dim) == (theirs.n_head, theirs.rotary_dim)
    assert (ours.max_positions, ours.num_layers) == (theirs.n_positions, theirs.n_layer)
    assert ours.layer_norm_epsilon == theirs.layer_norm_epsilon
    with torch.device("meta"):
        count = transformers.GPTJForCausalLM(theirs).num_parameters()
    assert sum(leaf.size for leaf in jax.tree.leaves(_split(ours)[1])) == count == 6_050_882_784


def test_init_draws_each_layer_anew():
    state = jax.jit(lambda: nnx.to_pure_dict(nnx.state(gpt_j.GPTJ(_config(), rngs=nnx.Rngs(0)))))()
    kernel_LDF = state["layers"]["mlp"]["up"]["kernel"]
    assert jnp.abs(kernel_LDF[0] - kernel_LDF[1]).max() > 0.01
    for kernel in (kernel_LDF, state["head"]["kernel"], state["embed"]["embedding"]):
        np.testing.assert_allclose(kernel.std(), 0.02, rtol=0.05)
    assert not state["head"]["bias"].any() and (state["layers"]["ln"]["scale"] == 1.0).all()


def test_logits_equal_pytorch(reference, params):
    tokens_BS = _tokens(3, LIMITS["max_positions"])
    with torch.no_grad():
        expected = reference(torch.from_numpy(tokens_BS).long()).logits.numpy()
    logits = jax.jit(_model(params))(tokens_BS)
    assert expected.std() > 1.0
    assert np.abs(logits - expected).max() < 1e-4


def test_cached_steps_equal_the_full_forward(params):
    model, tokens_BS = _model(params), _tokens(2, 12)
    positions_BS = jnp.broadcast_to(jnp.arange(12)[None, :], (2, 12))
    mask_BT = jnp.ones((2, 16), bool)
    cache, parts = model.init_cache(2, 16), []
    decode = jax.jit(gpt_j.GPTJ.decode)
    for start, stop in ((0, 5), (5, 6), (6, 11), (11, 12)):
        part = slice(start, stop)
        ids, positions = tokens_BS[:, part], positions_BS[:, part]
        x_BSD, cache = decode(model, ids, positions, mask_BT, cache, start)
        parts.append(x_BSD)
    full = jax.jit(gpt_j.GPTJ.hidden)(model, tokens_BS)
    np.testing.assert_allclose(jnp.concatenate(parts, axis=1), full, rtol=0, atol=1e-5)
    assert cache["k"].shape == cache["v"].shape == (3, 2, 16, 4, 12)


def test_masked_slots_are_not_seen(params):
    model, tokens_BS = _model(params), _tokens(2, 7)
    mask_BT = jnp.arange(10)[None, :] >= jnp.full((2, 1), 3)
    padded_BT = np.concatenate([_tokens(2, 3, seed=1), tokens_BS], axis=1)
    positions_BT = jnp.maximum(jnp.broadcast_to(jnp.arange(10)[None, :], (2, 10)) - 3, 0)
    cache = model.init_cache(2, 10)
    x_BTD, _ = jax.jit(gpt_j.GPTJ.decode)(model, padded_BT, positions_BT, mask_BT, cache, 0)
    full = jax.jit(gpt_j.GPTJ.hidden)(model, tokens_BS)
    np.testing.assert_allclose(x_BTD[:, 3:], full, rtol=0, atol=1e-5)
    assert jnp.isfinite(x_BTD).all()


def test_greedy_generation_equals_pytorch(reference, params):
    lengths, new = (9, 1, 14, 5), 32
    tokens_BS = _tokens(4, 14, seed=2)
    mask_BS = np.arange(14)[None, :] < np.array(lengths)[:, None]
    run = jax.jit(lambda model, ids, mask: _generate(model, ids, mask, max_new_tokens=new))
    tokens_BT = run(_model(params), tokens_BS, mask_BS)
    for row, length in enumerate(lengths):
        prompt = torch.from_numpy(tokens_BS[row : row + 1, :length]).long()
        ones = torch.ones_like(prompt)
        options = {"max_new_tokens": new, "do_sample": False, "pad_token_id": 0}
        expected = reference.generate(prompt, attention_mask=ones, **options)[0, length:].tolist()
        assert len(set(expected)) > 5
        assert tokens_BT[row].tolist() == expected


def _generate(model, ids, mask, *, max_new_tokens=8, temperature=0.0, seed=0):
    key = jax.random.key(seed)
    options = {"max_new_tokens": max_new_tokens, "temperature": temperature, "key": key}
    return generate(model, ids, mask, **options)


def test_sampling_follows_its_key(params):
    model, tokens_BS, mask_BS = _model(params), _tokens(2, 6), np.ones((2, 6), bool)
    run = jax.jit(lambda seed: _generate(model, tokens_BS, mask_BS, temperature=1.0, seed=seed))
    assert (run(0) == run(0)).all()
    assert (run(0) != run(1)).any()


def test_bfloat16_has_finite_gradients(params):
    graphdef, _ = _split(_config(dtype="bfloat16"))
    tokens_BS = _tokens(2, 17)
    step = jax.jit(jax.value_and_grad(_mean_loss), static_argnums=1)
    loss, gradients = step(params, graphdef, tokens_BS)
    exact = jax.jit(_mean_loss, static_argnums=1)(params, _split(_config())[0], tokens_BS)
    np.testing.assert_allclose(loss, exact, rtol=0.02)
    for leaf in jax.tree.leaves(gradients):
        assert leaf.dtype == jnp.float32 and jnp.isfinite(leaf).all() and jnp.abs(leaf).max() > 0


def test_bfloat16_keeps_norms_softmax_and_embedding_in_float32():
    graphdef, params = _split(_config(dtype="bfloat16"))
    trace = _trace(lambda p: nnx.merge(graphdef, p)(_tokens(2, 5)), params)

    def dtypes(primitive):
        return {e.invars[0].aval.dtype.name for e in trace if e.primitive.name == primitive}

    assert dtypes("rsqrt") == dtypes("exp") == dtypes("gather") == {"float32"}
    assert dtypes("dot_general") == dtypes("tanh") == {"bfloat16"}
    assert trace[-1].outvars[0].aval.dtype == jnp.bfloat16


def test_remat_changes_the_work_but_not_the_gradients(params):
    def step(remat):
        graphdef = _split(_config(remat=remat))[0]
        return jax.value_and_grad(lambda p: _mean_loss(p, graphdef, _tokens(2, 9)))

    def matmuls(remat):
        return sum(e.primitive.name == "dot_general" for e in _trace(step(remat), params))

    least, some, all_kept = "nothing_saveable", "dots_saveable", "everything_saveable"
    assert matmuls(least) > matmuls(some) == matmuls(all_kept)
    found, expected = (jax.tree.leaves(jax.jit(step(r))(params)) for r in (least, all_kept))
    for leaf, reference in zip(found, expected, strict=True):
        np.testing.assert_allclose(leaf, reference, rtol=1e-4, atol=1e-6)


def test_no_scan_copies_the_parameters(params):
    model, tokens_B1 = _model(params), _tokens(2, 1)
    mask_BT, cache = jnp.ones((2, 4), bool), model.init_cache(2, 4)
    decode = _trace(lambda: model.decode(tokens_B1, jnp.zeros((2, 1), int), mask_BT, cache, 0))
    hidden = _trace(lambda: model.hidden(tokens_B1))
    (forward,) = (e for e in hidden if e.primitive.name == "scan")
    assert [v.aval.shape for v in forward.outvars] == [(2, 1, 48)]
    (cached,) = (e for e in decode if e.primitive.name == "scan")
    assert [v.aval.shape for v in cached.outvars] == [(2, 1, 48), *[(3, 2, 4, 4, 12)] * 2]
    assert scan_sizes(cached)[1] == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 5}, "num_heads 5 must divide embed_dim 48"),
        ({"rotary_dim": 7}, "rotary_dim 7 must be even, from 2 to 12"),
        ({"rotary_dim": 14}, "rotary_dim 14 must be even, from 2 to 12"),
    ],
)
def test_impossible_sizes_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        _config(**changes)


def test_sequences_beyond_max_positions_are_refused(params):
    model = _model(params)
    with pytest.raises(ValueError, match="65 tokens exceed max_positions 64"):
        model(_tokens(1, 65))
    with pytest.raises(ValueError, match="65 tokens exceed max_positions 64"):
        _generate(model, _tokens(1, 60), np.ones((1, 60), bool), max_new_tokens=6)
