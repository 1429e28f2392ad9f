"""An edited project that becomes another model's and comes back, and then gets newer templates."""

import re
import shutil
from types import SimpleNamespace

import pytest
from generated import ROOT, make, metrics
from update.journeys import Life, changed
from update.language import edit_pipeline

pytestmark = pytest.mark.slow  # whole lives of projects, trained before and after

MODEL, PIPELINE = "my_project/model.py", "my_project/pipeline.py"
GELU, EXACT = "gelu(u_BSF, approximate=True)", "gelu(u_BSF, approximate=False)"


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    """A project of GPT-J, with a pipeline of its user, trained for 2 steps."""
    life = Life(make(tmp_path_factory.mktemp("journey"), shards="2"), "my_project", 2)
    edit_pipeline(life)
    life.run(f"{life.train} --steps 2 --workdir runs/a")
    return life


@pytest.fixture(scope="module")
def llama(life):
    """The way to Llama, which an edit of model.py is in; and a run from what the old one learned."""
    start = life.tree()
    life.edit(MODEL, {GELU: EXACT})
    before = life.tree()
    _, refused = life.run("redco update --model llama", code=1)
    held = life.tree()
    life.run(f"redco resolve {MODEL} --theirs")
    life.run("redco update --model llama")
    after = life.tree()
    said, _ = life.run(f"{life.train} --steps 2 --workdir runs/b --init runs/a")
    return SimpleNamespace(
        start=start,
        before=before,
        refused=refused,
        held=held,
        after=after,
        said=said,
    )


def test_an_edit_where_the_models_differ_is_a_conflict(llama):
    assert changed(llama.before, llama.held) == set()
    assert f"redco resolve {MODEL}::MLP.__call__ --theirs\n" in llama.refused
    assert "  redco update --model llama\n" in llama.refused
    assert b"+        gate_BSF" in llama.held[f".redco/incoming/{MODEL}.diff"]


def test_it_is_another_model_with_the_same_pipeline(llama):
    traces = [path for path, content in llama.after.items() if re.search(rb"(?i)gpt.?j", content)]
    assert traces == []
    assert llama.after[PIPELINE] == llama.before[PIPELINE]
    assert b"class Llama(" in llama.after[MODEL]
    assert not any(path.startswith(".redco/incoming") for path in llama.after)


def test_it_trains_as_llama_from_what_fits(life, llama):
    new, gone = (
        "ln_1/scale",
        "ln_2/scale",
        "mlp/gate/kernel",
    ), "left out, since the model does not"
    names = ", ".join(f"layers/{name}" for name in new)
    assert f"as in a new model, since runs/a does not have them: {names}\n" in llama.said
    assert f"{gone} have them: head/bias, layers/ln/bias, " in llama.said
    assert life.losses("runs/b")[2] < life.losses("runs/a")[1]


def test_redco_new_on_it_goes_back(life, llama):
    out, _ = life.run("redco-new my-project --model gpt-j --output ..")
    assert out.startswith("Updated my-project: ")
    assert life.tree() == llama.start  # byte for byte: all that it wrote, and what redco knows


# file of the template: (text, what a newer redco has there)
NEWER = {
    "models/gpt_j/model.py.jinja": (
        "x_BSD + (o_BSD + self.mlp(h_BSD))",
        "x_BSD + o_BSD + self.mlp(h_BSD)",
    ),
    "recipes/lm/pipeline.py.jinja": ("TEMPERATURE = 0.7", "TEMPERATURE = 0.9"),
    "project/{{ package }}/steps.py.jinja": (
        '            "grad_norm": optax.tree.norm(grads),\n',
        '            "grad_norm": optax.tree.norm(grads),\n'
        '            "size": optax.tree.norm(params),\n',
    ),
    "project/launch/hosts.sh.jinja": ("Needs bash 4.", "Needs bash 5."),
    "project/README.md.jinja": ("## Try it\n", "## Try it out\n"),
}
LOSS = (
    "return losses_BS, weights_BS\n",
    "return 2 * losses_BS, weights_BS\n",
)
NEW_FILE = "launch/local.sh"


@pytest.fixture(scope="module")
def newer(life, llama, tmp_path_factory):
    """`redco update` with a newer template, and a run with what it makes of the project."""
    fork = tmp_path_factory.mktemp("fork") / "templates"
    shutil.copytree(ROOT / "templates", fork)
    for path, (old, new) in [*NEWER.items(), ("recipes/shared/next_token.jinja", LOSS)]:
        text = (fork / path).read_text()
        assert text.count(old) == 1, path
        (fork / path).write_text(text.replace(old, new))
    (fork / f"project/{NEW_FILE}.jinja").write_text(
        "#!/usr/bin/env bash\npython -m {{ package }}.train\n"
    )
    (fork / "project/launch/jobset.yaml.jinja").unlink()
    before = life.tree()
    out, _ = life.run(f"redco update --template {fork}")
    life.run(f"{life.train} --steps 2 --workdir runs/c")
    return SimpleNamespace(before=before, after=life.tree(), out=out)


def test_everything_newer_arrives_but_the_edited_loss(newer):
    news = {
        MODEL: NEWER["models/gpt_j/model.py.jinja"],
        PIPELINE: NEWER["recipes/lm/pipeline.py.jinja"],
        "my_project/steps.py": NEWER["project/{{ package }}/steps.py.jinja"],
        "launch/hosts.sh": NEWER["project/launch/hosts.sh.jinja"],
        "README.md": NEWER["project/README.md.jinja"],
    }
    for path, (old, new) in news.items():
        before, after = newer.before[path].decode(), newer.after[path].decode()
        assert after == before.replace(old, new) != before, path
    assert changed(newer.before, newer.after) == {*news, NEW_FILE, "launch/jobset.yaml"}
    assert newer.after[NEW_FILE].endswith(b"\npython -m my_project.train\n")
    assert "launch/jobset.yaml" not in newer.after


def test_the_newer_loss_lies_beside_the_edited_one(life, newer):
    assert f"{PIPELINE}::loss: " in newer.out
    lines = newer.after[f".redco/incoming/{PIPELINE}.diff"].decode().splitlines()
    assert {f"-    {LOSS[0].rstrip()}", f"+    {LOSS[1].rstrip()}"} <= {*lines}
    out, _ = life.run(f"redco resolve {PIPELINE}::loss --mine")
    assert out == "Settled.\n" and not (life.folder / ".redco/incoming").exists()
    assert life.tree()[PIPELINE] == newer.after[PIPELINE]


def test_the_newer_steps_train_with_the_edited_loss(life, newer):
    assert all(line["size"] > 0 for line in metrics(life.folder / "runs/c") if "loss" in line)
    assert life.losses("runs/c") == pytest.approx(life.losses("runs/a"), rel=1e-4)
