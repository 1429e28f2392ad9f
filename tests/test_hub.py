"""Ids of a hub: configs and weights come through huggingface_hub, with the user's own token."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from safetensors.numpy import save

LLAMA = {
    "model_type": "llama",
    "vocab_size": 1000,
    "hidden_size": 64,
    "num_attention_heads": 8,
    "num_hidden_layers": 3,
}
FILES = {
    "config.json": json.dumps(LLAMA).encode(),
    "model.safetensors": save({"model.norm.weight": np.ones(64, np.float32)}),
    "pytorch_model.bin": b"a pickle",
}
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_of_the_user"
PROGRAM = """
import sys
from redco_new.models.find import find_model
model = find_model("org/small", "", 1)
print(model.family.name, model.full.sizes["num_layers"], model.tokenizer)
from redco_runtime.base.hf_files import find
print(*sorted(path.name for path in find("org/small").iterdir()))
"""


class Hub(BaseHTTPRequestHandler):
    """The part of the hub's protocol that reading takes; it wants a token."""

    def do_GET(self):
        name = self.path.partition("/resolve/")[2].partition("/")[2]
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.answer(401, b"", **{"X-Error-Code": "GatedRepo"})
        if "/tree/" in self.path:
            tree = [
                {"type": "file", "path": k, "size": len(v), "oid": "0"} for k, v in FILES.items()
            ]
            return self.answer(200, json.dumps(tree).encode())
        if self.path.startswith("/api/models/org/small"):
            siblings = [{"rfilename": name} for name in FILES]
            return self.answer(
                200, json.dumps({"id": "org/small", "sha": COMMIT, "siblings": siblings}).encode()
            )
        if name in FILES:
            etag = hashlib.sha256(FILES[name]).hexdigest()
            return self.answer(200, FILES[name], **{"ETag": etag, "X-Repo-Commit": COMMIT})
        return self.answer(404, b"", **{"X-Error-Code": "EntryNotFound"})

    do_HEAD = do_GET

    def answer(self, code, content, **headers):
        self.send_response(code)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *args):
        pass


@pytest.fixture
def hub():
    """The address of a hub on this machine."""
    with ThreadingHTTPServer(("localhost", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()


def read(hub, folder, token, program=PROGRAM):
    """(exit code, output, last line of the errors) of a program."""
    kept = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    env = kept | {
        "HF_ENDPOINT": hub,
        "HF_HOME": str(folder),
        "HF_TOKEN": token,
        "HF_HUB_DISABLE_XET": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, (done.stderr.splitlines() or [""])[-1]


def test_an_id_is_read_with_the_users_token(hub, tmp_path):
    code, out, error = read(hub, tmp_path, TOKEN)
    assert code == 0, error
    assert out.splitlines() == ["llama 3 org/small", "config.json model.safetensors"]


def test_a_gated_model_without_a_token_says_so(hub, tmp_path):
    code, _, error = read(hub, tmp_path, "hf_of_another")
    assert code == 1
    assert "--model: org/small: " in error and "a gated model needs `hf auth login`" in error


WITHOUT_NETWORK = """
from redco_new.errors import RedcoError
from redco_new.models.find import find_model
from redco_runtime.base.messages import UserError
from redco_runtime.base.hf_files import find
from redco_runtime.data.tokenizer import load_tokenizer
print(find_model("org/small", "", 1).family.name, find("org/small").is_dir())
for reader in (lambda name: find_model(name, "", 1), find, load_tokenizer):
    try:
        reader("org/other")
    except (RedcoError, UserError) as error:
        print(error)
"""


def test_without_a_network_the_cache_is_read_and_another_id_is_one_message_at_once(hub, tmp_path):
    assert read(hub, tmp_path, TOKEN)[0] == 0
    nobody = "http://localhost:9"
    code, out, error = read(nobody, tmp_path, TOKEN, WITHOUT_NETWORK)
    cached, *messages = out.splitlines()
    assert (code, error, cached, len(messages)) == (0, "", "llama True", 3), error
    why = f"{nobody} is not reached, and no copy of it is in {tmp_path}/hub"
    assert all("org/other" in line and why in line for line in messages), out
