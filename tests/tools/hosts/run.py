"""What N processes of one machine cost each, and N imitated ones process 0: counted, for the table and for tests."""

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
DATA = """
import sys, time
from pathlib import Path
from redco_runtime.data.prepare import build, formats
from redco_runtime.data.text.documents import Shape
from redco_runtime.data.tokenizer import load_tokenizer, make_encoder
from redco_runtime.data.text.sources import parse_sources
from redco_runtime.data.text.text_examples import TextMaker
TextMaker.portable, TextMaker.shard, formats.RANGE, build.LOOK, build.LONG_LOOK = False, 2**18, 2**16, 0.05, 0.05
index, count, file, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
(source,) = parse_sources("--data", [file])
maker = TextMaker(make_encoder(load_tokenizer("bytes")), "text")
read = lambda: int(Path("/proc/self/io").read_text().split("rchar: ")[1].split()[0])
print("there", flush=True)
sys.stdin.readline()
before = read()
[*build.build(maker, source, Path(folder) / "x" / "index.json", 300, Shape(64, "on", 0.1), folder, (index, count))]
print(read() - before)
"""
FAULT = """
import os, sys, time
from pathlib import Path
from redco_runtime.base import messages
from redco_runtime.base.progress import PROGRESS
from redco_runtime.cluster import lifeline, rendezvous
lifeline.SETTLE = 0.5
index, count, port, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
me = rendezvous.Member(index, count, f"host{index}", {})
lifeline.connect(me, rendezvous.meet(me, f"localhost:{port}", 120))
messages.open_log(Path(folder) / f"{index}.log")
os.write(2, b"of C++\\n" * 25)
PROGRESS.at("the devices", 7)
print(time.process_time(), flush=True)
while sys.stdin.readline():
    print(time.process_time(), flush=True)
time.sleep(120)
"""


def environment():
    """Of a process that has the runtime alone."""
    return os.environ | {"PYTHONPATH": str(ROOT / "runtime"), "JAX_PLATFORMS": "cpu"}


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def start(*command):
    """A process of Python whose pipes are all read here."""
    pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
    words = [sys.executable, *map(str, command)]
    return subprocess.Popen(words, env=environment(), text=True, **pipes)


def phases(count, folder, megabytes=64):
    """Return what each phase costs the process that it costs most: {phase: {what: number}}, and "bytes" of the state."""
    port = free_port()
    some = [start(HERE / "worker.py", i, count, port, folder, megabytes) for i in range(count)]
    texts = [process.communicate() for process in some]
    assert not any(process.returncode for process in some), texts
    records = [json.loads(out.splitlines()[-1]) for out, _ in texts]
    size = records[0]["bytes"]
    names = [name for name in records[0] if name != "bytes"]
    worst = {n: {k: max(r[n][k] for r in records) for k in records[0][n]} for n in names}
    return {"bytes": size, **worst}


def first_start(count, file, folder):
    """Return how many bytes of --data each of so many processes reads at a first start, in the mean."""
    some = [start("-c", DATA, i, count, file, folder) for i in range(count)]
    for process in some:
        assert process.stdout.readline() == "there\n", process.stderr.read()
    texts = [process.communicate("\n") if count == 1 else None for process in some]
    if count > 1:
        for process in some:
            process.stdin.write("\n")
            process.stdin.flush()
        texts = [process.communicate() for process in some]
    assert not any(process.returncode for process in some), texts
    return sum(int(out.splitlines()[-1]) for out, _ in texts) / count


def lines_of_fault(count, killed, folder):
    """Return how many lines all processes print once one is killed."""
    port = free_port()
    some = [start("-c", FAULT, i, count, port, folder) for i in range(count)]
    for process in some:
        process.stdout.readline()
    time.sleep(1)
    some[killed].send_signal(signal.SIGKILL)
    return sum(process.communicate()[1].count("\n") for process in some)


def imitated(count, folder, seconds=10.0):
    """Return the CPU seconds of process 0 until `count` have met, and in so many seconds after it."""
    port = free_port()
    first = start("-c", FAULT, 0, count, port, folder)

    async def host(index):
        for _ in range(200):
            with suppress(OSError):
                words, line = await asyncio.open_connection("localhost", port)
                break
            await asyncio.sleep(0.1)
        me = {"index": index, "count": count, "host": f"host{index}", "facts": {}, "address": None}
        line.write(json.dumps(me).encode() + b"\n")
        door = json.loads(await words.readline())["door"]
        line.close()
        _, line = await asyncio.open_connection("localhost", door)
        line.write(json.dumps({"index": index, "name": f"host{index}"}).encode() + b"\n")
        beat = json.dumps({"doing": ["the devices", 7, 0.1], "shares": [0.0, 0.0]}).encode() + b"\n"
        while True:
            line.write(beat)
            await asyncio.sleep(1)

    logging.getLogger("asyncio").setLevel(logging.ERROR)  # of lines that are sent once it has ended

    async def all_of_them():
        hosts = [asyncio.create_task(host(index)) for index in range(1, count)]
        met = float(await asyncio.to_thread(first.stdout.readline))
        await asyncio.sleep(2)
        marks = []
        for _ in range(2):
            first.stdin.write("\n")
            first.stdin.flush()
            marks.append(float(await asyncio.to_thread(first.stdout.readline)))
            await asyncio.sleep(seconds if not marks[1:] else 0)
        for one in hosts:
            one.cancel()
        return met, marks[1] - marks[0]

    try:
        return asyncio.run(all_of_them())
    finally:
        first.kill()
        first.communicate()


NET = """
import numpy as np
from flax import nnx


class Net(nnx.Module):
    def __init__(self, *, rngs):
        self.layers = nnx.List([nnx.Linear(8 + i % 7, 8 + (i + 1) % 7, rngs=rngs) for i in range({layers})])

    def __call__(self, x):
        for layer in self.layers:
            x = nnx.relu(layer(x))
        return x


def example():
    return {{}}, {{"x": np.zeros((4, 8), np.float32)}}
"""


def inspection(parameters, folder):
    """Return (CPU seconds, MB) of `redco inspect` of a class of so many parameters, no two layers alike beside each other."""
    (Path(folder) / "net.py").write_text(NET.format(layers=parameters // 2))
    words = [
        Path(sys.executable).with_name("redco"),
        "inspect",
        "net.py:Net",
        "--example",
        "net.py:example",
        "--shards",
        "2",
        "--recipe",
        "regress",
    ]
    process = subprocess.Popen(
        [*map(str, words)],
        cwd=folder,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
        stdout=-1,
        stderr=-2,
        text=True,
    )
    text = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, text
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
