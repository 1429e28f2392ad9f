"""An export as GGUF, opened by llama.cpp and served: its logits, tokens and greedy texts are those of the project."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from redco_new.project.create import create_project
from redco_new.request import Request

SERVE = Path(os.environ.get("SERVE", ".serve/bin")).resolve() / "python"
OPENED = Path(__file__).with_name("opened.py")
IDS = [*range(40, 100)]
PROMPTS = ("The ", "if x:\n  ", "naïve ☃")
FAMILIES = (
    {  # family -> how far its logits may be off; gelu of llama.cpp is read from a table of float16
        "llama": 1e-2,
        "mistral": 1e-2,
        "mixtral": 1e-2,
        "qwen2": 1e-2,
        "qwen3": 1e-2,
        "qwen3-moe": 1e-2,
        "gemma2": 1e-2,
        "gemma3": 1e-2,
        "phi-3": 1e-2,
        "gpt2": 1e-2,
        "gpt-neox": 1e-2,
        "olmo2": 1e-2,
    }
)
LOGITS = """
import json, sys
import jax, numpy as np
from words import pipeline
from words.boot import boot
from words.config import Config
from words.runtime.checkpoints.checkpoint import Checkpoints
from words.runtime.layout.mesh import make_mesh
from words.runtime.loop.command import command, program_parser, recorded_run
from words.runtime.loop.evaluation import Inference
from words.sharding import AXES
from words.steps import build

pipeline.predict = lambda model, batch, rngs: model.logits(model.hidden(batch["input_ids"]))
run = recorded_run(program_parser("", pipeline).parse_args(), Config, AXES)
boot(virtual_devices=run.virtual_devices, facts=run.facts, cache=run.cache)
with jax.set_mesh(make_mesh(run.mesh)):
    steps = build(run.config)
    _, model = Checkpoints(run.checkpoints_by(None), shapes=steps.shapes).restore_model(steps.state.model)
    ids = np.array(json.load(sys.stdin), np.int32)
    row = {"input_ids": ids, "mask": np.ones(len(ids), bool)}
    logits = Inference(steps, pipeline, run.config).outputs(model, [row])
json.dump(np.float32(logits[0]).tolist(), sys.stdout)
"""


def run(command, cwd, text=""):
    environ = os.environ | {"JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environ, input=text, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def project_python(project, *command, text=""):
    return run((sys.executable, *command), project, text)


def opened(model, texts, ids):
    asked = json.dumps({"model": str(model), "texts": texts, "ids": ids})
    return json.loads(run((SERVE, OPENED), model.parent, asked))


@pytest.fixture(scope="module", params=FAMILIES)
def trained(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    project = create_project(Request.from_flags("words", request.param, features="gguf"), folder)
    flags = ("--virtual-devices", "1", "--workdir", "runs/a")
    train = ("--preset", "tiny", "--steps", "40", "--log-every", "40", "--eval-rows", "16")
    project_python(project, "-m", "words.train", *train, *flags)
    for kind in ("gguf", "gguf-q8_0"):
        project_python(project, "-m", "words.export", *flags, "--out", kind, "--format", kind)
    return request.param, project


def test_logits_are_those_of_the_project(trained):
    family, project = trained
    flags = ("--virtual-devices", "1", "--workdir", "runs/a")
    own = np.array(json.loads(project_python(project, "-c", LOGITS, *flags, text=json.dumps(IDS))))
    theirs = np.array(opened(project / "gguf/model-f16.gguf", [], IDS)["logits"])
    assert np.abs(own - theirs).max() < FAMILIES[family]
    eighth = np.array(opened(project / "gguf-q8_0/model-q8_0.gguf", [], IDS)["logits"])
    assert np.abs(own - eighth).max() < 0.2
    assert (own.argmax(-1) == theirs.argmax(-1)).mean() > 0.98


def test_its_server_writes_what_predict_writes(trained):
    _, project = trained
    asked = [word for prompt in PROMPTS for word in ("--prompt", prompt)]
    greedy = ("--temperature", "0", "--max-new-tokens", "16", "--virtual-devices", "1")
    where = ("--workdir", "runs/a")
    own = project_python(project, "-m", "words.predict", *where, *greedy, *asked)
    with served(project / "gguf/model-f16.gguf") as url:
        theirs = [complete(url, prompt) for prompt in PROMPTS]
    for prompt, text in zip(PROMPTS, theirs, strict=True):
        assert prompt + text in own


@contextmanager
def served(model):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    flags = ("--model", model, "--port", port, "--n_ctx", 128)
    server = subprocess.Popen(
        list(map(str, (SERVE, "-m", "llama_cpp.server", *flags))),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        url = f"http://127.0.0.1:{port}/v1"
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{url}/models").read()
                break
            except OSError:
                assert server.poll() is None, server.stdout.read()
                time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def complete(url, prompt):
    body = {"prompt": prompt, "temperature": 0, "max_tokens": 16, "repeat_penalty": 1}
    request = urllib.request.Request(
        f"{url}/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    return json.load(urllib.request.urlopen(request))["choices"][0]["text"]
