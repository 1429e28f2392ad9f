"""An emulated bucket: moto's server of S3, a process of its own, whose objects are in its memory."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL
from urllib.error import URLError
from urllib.request import Request, urlopen

BUCKET = "s3://kept"
PATIENCE = 60.0  # seconds until it answers


@contextmanager
def emulated_bucket() -> Iterator[str]:
    """Yield a bucket's URL, which s3fs, TensorStore and the processes that are started within open.

    moto and s3fs are in .bucket, where `make` installs them apart. Its objects are gone
    afterwards.
    """
    packages = str(Path(__file__).resolve().parents[3] / ".bucket")
    sys.path.insert(0, packages)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    names = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
    names |= {"BUCKET": packages, "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": address}
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    before = {name: os.environ.get(name) for name in names}
    own = {**os.environ, "PYTHONPATH": packages}
    server = subprocess.Popen(command, env=own, stdout=DEVNULL, stderr=DEVNULL)
    try:
        _wait_for(address, server)
        urlopen(Request(f"{address}/{BUCKET[5:]}", method="PUT")).close()
        os.environ.update(names)
        yield BUCKET
    finally:
        sys.path.remove(packages)
        server.kill()
        server.wait()
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})


def _wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        assert server.poll() is None, "the server has ended: another one may have its port"
        try:
            return urlopen(address).close()
        except URLError:
            time.sleep(0.1)
    raise AssertionError(f"no server at {address}")
