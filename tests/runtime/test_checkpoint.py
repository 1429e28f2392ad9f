import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from redco_runtime.checkpoints import checksums, tensors
from redco_runtime.checkpoints.checkpoint import Checkpoints
from redco_runtime.base.messages import UserError
from redco_runtime.base.state import ModelState
from states import abstract, assert_same, make_state, save_steps


def test_a_state_comes_back_as_it_was(tmp_path, mesh):
    save_steps(tmp_path, mesh, 7)
    with Checkpoints(tmp_path, keep=3) as checkpoints:
        step, state = checkpoints.restore(abstract(make_state(mesh)))
    assert step == 7
    assert jax.tree.structure(state) == jax.tree.structure(make_state(mesh))
    assert_same(state, make_state(mesh, 7))


@pytest.mark.parametrize("shape", [(4, 1), (1, 4), (1, 1)])
def test_a_state_comes_back_on_another_mesh(tmp_path, mesh, shape):
    save_steps(tmp_path, mesh, 7)
    count = shape[0] * shape[1]
    other = Mesh(np.array(jax.devices()[:count]).reshape(shape), ("data", "model"))
    _, state = Checkpoints(tmp_path, keep=3).restore(abstract(make_state(other)))
    assert_same(state, make_state(other, 7))


def test_nothing_to_restore(tmp_path, mesh):
    checkpoints = Checkpoints(tmp_path / "none", keep=3)
    assert checkpoints.latest() is None
    assert checkpoints.restore(abstract(make_state(mesh))) is None
    with pytest.raises(UserError, match="no checkpoint in .*none: train first"):
        checkpoints.restore_model(abstract(make_state(mesh).model))
    assert not (tmp_path / "none").exists()


def test_only_the_newest_are_kept(tmp_path, mesh):
    save_steps(tmp_path, mesh, 1, 2, 3, 10, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["10", "3"]
    assert Checkpoints(tmp_path, keep=2).latest() == 10


def test_saving_the_same_step_again_does_nothing(tmp_path, mesh):
    with Checkpoints(tmp_path, keep=2) as checkpoints:
        checkpoints.save(4, make_state(mesh, 4))
        checkpoints.save(4, make_state(mesh, 5))
        step, state = checkpoints.restore(abstract(make_state(mesh)))
        checkpoints.save(4, make_state(mesh, 5))
    assert step == 4
    assert_same(state, make_state(mesh, 4))


def test_a_save_does_not_ask_whether_a_signal_came(tmp_path, mesh, monkeypatch):
    # JAX would take the number of its step for that of Stop's calls, by which processes agree.
    asked, events = [], []
    monkeypatch.setattr(multihost_utils, "reached_preemption_sync_point", asked.append)
    monkeypatch.setattr(
        jax.monitoring, "record_event_duration_secs", lambda name, *_, **__: events.append(name)
    )
    save_steps(tmp_path, mesh, 1, 2)
    assert not asked and not [name for name in events if "preempt" in name]


def test_an_older_step_is_refused(tmp_path, mesh):
    save_steps(tmp_path, mesh, 4)
    with pytest.raises(UserError, match="step 4 is there, which is later than step 3"):
        save_steps(tmp_path, mesh, 3)


def test_the_state_may_be_donated_at_once(tmp_path, mesh):
    sharding = NamedSharding(mesh, P("data", "model"))
    state = {"x": jax.device_put(jnp.zeros((2048, 2048)), sharding)}
    add = jax.jit(lambda state: jax.tree.map(lambda x: x + 1, state), donate_argnums=0)
    shape = abstract(state)
    with Checkpoints(tmp_path, keep=5) as checkpoints:
        for step in range(1, 4):
            state = add(state)
            checkpoints.save(step, state)
            for _ in range(3):
                state = add(state)
        _, saved = checkpoints.restore(shape)
    assert np.unique(np.asarray(saved["x"])).tolist() == [9.0]


def test_tensors_that_do_not_fit_are_listed(tmp_path, mesh):
    save_steps(tmp_path, mesh, 1)
    params = abstract(make_state(mesh).params)
    q = params["layers"]["q"]
    q["kernel"] = jax.ShapeDtypeStruct((8, 16), jnp.float32, sharding=q["kernel"].sharding)
    q["bias"] = jax.ShapeDtypeStruct((8,), jnp.float32, sharding=params["scale"].sharding)
    del params["scale"]
    with pytest.raises(UserError) as error:
        Checkpoints(tmp_path, keep=3).restore_model(ModelState(params, {}))
    assert str(error.value).splitlines() == [
        f"checkpoint {tmp_path / '1'} does not fit the model:",
        "  layers/q/kernel: float32[8, 8] there, float32[8, 16] in the model",
        "  scale: bfloat16[8] there, absent in the model",
        "  layers/q/bias: absent there, float32[8] in the model",
        "Go back to the model and optimizer that wrote it, or train in another --workdir: --init "
        f"{tmp_path} starts there from the parameters that still fit, once those of another shape "
        "have another name in model.py.",
    ]


def test_a_failed_save_is_told_and_leaves_the_others(tmp_path, mesh, monkeypatch, capfd):
    def full(*_):
        raise ValueError("RESOURCE_EXHAUSTED: Failed to write 9 bytes [os_error_code='28']")

    checkpoints = Checkpoints(tmp_path, keep=3)
    checkpoints.save(1, make_state(mesh, 1))
    checkpoints.wait()
    with monkeypatch.context() as patch:
        patch.setattr(checksums, "_digests", full)
        checkpoints.save(2, make_state(mesh, 2))
        with pytest.raises(UserError, match=r"cannot write .*: No space left on device\. Mend"):
            checkpoints.wait()
    assert checkpoints.latest() == 1
    checkpoints.save(3, make_state(mesh, 3))
    checkpoints.close()
    assert checkpoints.latest() == 3
    assert capfd.readouterr() == ("", "")


def test_few_bytes_are_compressed_at_a_time_and_the_largest_array_is_among_them(
    tmp_path, monkeypatch
):
    orbax, limits = tensors.orbax(), []
    handler = orbax.PyTreeCheckpointHandler
    monkeypatch.setattr(
        orbax,
        "PyTreeCheckpointHandler",
        lambda save_concurrent_gb, **others: limits.append(save_concurrent_gb) or handler(**others),
    )
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints._open([np.broadcast_to(np.float32(0), n) for n in (3, 10**9, 2)])
    assert limits == [6]


def test_milestones_stay_beside_the_newest(tmp_path, mesh):
    with Checkpoints(tmp_path, keep=1, keep_every=4) as checkpoints:
        for step in range(2, 11, 2):
            checkpoints.save(step, make_state(mesh, step))
    assert sorted(int(path.name) for path in tmp_path.glob("[0-9]*")) == [4, 8, 10]


def test_a_directory_that_cannot_be_written_is_told(tmp_path, mesh):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write a checkpoint to .*file/checkpoints"):
        save_steps(tmp_path / "file" / "checkpoints", mesh, 1)
