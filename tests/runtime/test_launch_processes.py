"""The launcher, on small programs: what is started again, what is not, and what it says."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from redco_runtime.cluster import launch, relay

# JAX, which another test of this process may have imported, warns of any fork.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
RUNTIME = Path(__file__).parents[2] / "runtime"
QUICK = "from redco_runtime.cluster import launch; launch.PAUSES = (0.1,); launch.main()"
PROGRAM = """
import json, os, signal, sys, time
from pathlib import Path
from types import SimpleNamespace
folder, plan = Path(sys.argv[sys.argv.index("--workdir") + 1]), sys.argv[-1].split(",")
index = int(os.environ.get("REDCO_PROCESS_INDEX", 0))
tries = len(list(folder.glob(f"try-{index}-*")))
(folder / f"try-{index}-{tries}").touch()
act = plan[min(tries, len(plan) - 1)]
if act not in ("die", "69") and not act.startswith("1"):
    (folder / "checkpoints" / str(tries)).mkdir(parents=True, exist_ok=True)
if act == "wait":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
    (folder / f"ready-{index}").touch()
    time.sleep(60)
if act.startswith("1 "):  # with what it says, at a step
    _, word, step = act.split()
    (folder / "events.jsonl").write_text(json.dumps({"event": "fault", "step": int(step)}) + "\\n")
    print(f"KeyError: {word}\\nW0000 00:00:{time.time():.6f} is no word of its own", file=sys.stderr)
    sys.exit(1)
if index == 1 or os.environ.get("REDCO_PROCESS_COUNT") is None:
    os.kill(os.getpid(), signal.SIGKILL) if act in ("kill", "die") else sys.exit(int(act))
time.sleep(1 if act in ("kill", "die") else 0)  # which is told of it
sys.exit(0 if act.isdigit() and int(act) == 0 else 69)
"""


@pytest.fixture
def start(tmp_path):
    """start(processes, plan): the launcher of a program that ends at each try as its plan says."""
    (tmp_path / "program.py").write_text(PROGRAM)
    env = os.environ | {"PYTHONPATH": f"{RUNTIME}{os.pathsep}{tmp_path}"}

    def start(processes, plan, restarts=3, quick=False):
        program = ["-c", QUICK] if quick else ["-m", "redco_runtime.cluster.launch"]
        command = [sys.executable, *program, "--processes", processes]
        command += ["--max-restarts", restarts, "-m", "program", "--workdir", tmp_path, plan]
        return subprocess.Popen(
            [*map(str, command)],
            env=env,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    return start


def tries(folder, index=0):
    return len(list(folder.glob(f"try-{index}-*")))


def test_a_crash_is_started_again_from_the_last_checkpoint(start, tmp_path):
    process = start(2, "kill,0")
    err = process.communicate(timeout=50)[1]
    assert process.returncode == 0
    assert "launch: process 1 was killed by signal 9 (SIGKILL)" in err
    assert "launch: restart 1 of 3 in 1 s, from step 0\n" in err
    assert tries(tmp_path, 0) == tries(tmp_path, 1) == 2


@pytest.mark.parametrize("code", [0, 2, 3, launch.STOPPED])
def test_an_exit_that_another_try_would_not_change(start, tmp_path, code):
    process = start(1, str(code))
    err = process.communicate(timeout=50)[1]
    assert process.returncode == code and tries(tmp_path) == 1
    assert err == (f"launch: process 0 ended with exit code {code}\n" if code else "")


def test_it_gives_up_after_so_many_restarts(start, tmp_path):
    process = start(1, "1", restarts=1)
    assert (
        "launch: gives up after 1 restarts without a new checkpoint\n"
        in process.communicate(timeout=50)[1]
    )
    assert process.returncode == 1 and tries(tmp_path) == 2


@pytest.mark.parametrize("processes", [1, 2])
def test_kills_before_the_first_checkpoint_have_all_restarts(start, tmp_path, processes):
    process = start(processes, "die,die,die,0", quick=True)
    err = process.communicate(timeout=90)[1]
    assert process.returncode == 0 and tries(tmp_path) == 4, err
    assert "launch: restart 3 of 3 in 0.1 s, anew\n" in err


def test_a_new_checkpoint_gives_all_restarts_back(start, tmp_path):
    process = start(1, "kill,kill,kill,kill,die,0", restarts=2, quick=True)
    err = process.communicate(timeout=90)[1]
    assert process.returncode == 0 and tries(tmp_path) == 6, err
    assert "from step 3" in err and "restart 2 of 2" in err and "restart 3" not in err


def test_so_has_the_loss_of_another_process(start, tmp_path):
    process = start(1, f"{launch.LOST}", restarts=2, quick=True)
    assert (
        "launch: gives up after 2 restarts without a new checkpoint\n"
        in process.communicate(timeout=50)[1]
    )
    assert process.returncode == launch.LOST and tries(tmp_path) == 3


def test_the_same_fault_twice_in_a_row_is_the_end(start, tmp_path):
    process = start(1, "1 x 8", quick=True)
    err = process.communicate(timeout=50)[1]
    assert err.count("KeyError: x\n") == 3 and err.count("is no word of its own") == 2
    last = (
        "launch: gives up: the same fault twice in a row, exit code 1, after step 8: KeyError: x\n"
    )
    assert err.endswith(last)
    assert process.returncode == 1 and tries(tmp_path) == 2


@pytest.mark.parametrize("plan", ["1 x 8,1 y 8,1 x 8,0", "1 x 8,1 x 9,0", "1 x 8,die,1 x 8,0"])
def test_another_fault_is_not_the_same(start, tmp_path, plan):
    process = start(1, plan, quick=True)
    err = process.communicate(timeout=90)[1]
    assert process.returncode == 0 and tries(tmp_path) == plan.count(",") + 1, err


@pytest.mark.filterwarnings("ignore:os.fork")  # JAX is here, and never in a launcher
@pytest.mark.parametrize(
    ("code", "own"), [(0, False), (1, True), (69, False), (128, True), (129, False), (-9, False)]
)
def test_a_fault_is_the_program_s_own(code, own):
    assert launch.Ended(0, code).own == own


def test_on_a_terminal_a_process_writes_to_it(monkeypatch, capfd):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    said = "import sys; print('here', file=sys.stderr); sys.exit(2)"
    assert launch.Launch([sys.executable, "-c", said], 1).run(0) == 2
    assert "here\n" in capfd.readouterr().err


@pytest.mark.filterwarnings("ignore:os.fork")  # JAX is here, and never in a launcher
def test_lines_of_several_say_whose_they_are(capfd):
    said = "import os; os.write(1, b'a\\nb'); os.write(2, b'c\\n')"
    assert launch.Launch([sys.executable, "-c", said], 2).run(0) == 0
    out, err = capfd.readouterr()
    # What process 0 writes to stdout is the run's.
    assert sorted(out.replace("b[1]", "b\n[1]").split()) == ["[1]", "[1]", "a", "a", "b", "b"]
    assert sorted(err.splitlines()) == ["[0] c", "[1] c"]


def test_a_signal_before_the_process_is_there_is_passed_on(monkeypatch):
    one = launch.Launch([sys.executable, "-c", "import time; time.sleep(60)"], 1)
    one._signals.append(signal.SIGTERM)
    assert one.run(3) == 143


def test_of_signals_before_it_the_last_is_passed_on(monkeypatch):
    one, sent = launch.Launch([sys.executable, "-c", ""], 1), []
    monkeypatch.setattr(one, "_send", sent.append)
    one._signals += [signal.SIGINT, signal.SIGTERM]
    one.run(0)
    assert sent == [signal.SIGTERM]


def test_a_signal_goes_on_to_all_and_none_is_started_again(start, tmp_path):
    process = start(2, "wait")
    until = time.monotonic() + 30
    while len(list(tmp_path.glob("ready-*"))) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 75
    assert tries(tmp_path, 0) == tries(tmp_path, 1) == 1


def test_no_process_outlives_its_launcher(start, tmp_path):
    process = start(2, "wait")
    until = time.monotonic() + 30
    while len(list(tmp_path.glob("ready-*"))) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    process.kill()
    process.communicate(
        timeout=20
    )  # until no process of it has its stderr any more: they wait 60 s


def test_a_signal_between_two_tries_leaves_what_was_done_saved(start):
    process = start(1, "kill")
    while "restart 1 of 3" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == launch.STOPPED


@pytest.mark.filterwarnings("ignore:os.fork")  # JAX is here, and never in a launcher
def test_a_process_that_is_stopped_is_ended(monkeypatch, capsys):
    monkeypatch.setattr(launch, "GRACE", 0.1)
    stop = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"
    command = [sys.executable, "-c", stop, "--silence", "0.1"]
    assert launch.Launch(command, 1).run(0) == 137
    assert "process 0 has been stopped (SIGSTOP) for 0.2 s: ending it" in capsys.readouterr().err
    works = "import time; time.sleep(0.5)"
    assert launch.Launch([sys.executable, "-c", works, "--silence", "0.1"], 1).run(0) == 0


def test_flags_of_the_program_that_the_launcher_reads_are_whole_words():
    one = launch.Launch(["-m", "program", "--help", "--sil", "3", "--work", "x"], 1)
    assert one.flag("silence") == launch.SILENCE and one.flag("workdir") == launch.NOWHERE
    said = launch.Launch(["-m", "program", "--silence", "3"], 1)
    assert said.flag("silence") == 3


def test_a_kill_for_memory_is_named(monkeypatch, tmp_path):
    events = tmp_path / "memory.events"
    events.write_text("low 0\noom 1\noom_kill 3\n")
    monkeypatch.setattr(relay, "MEMORY_EVENTS", events)
    assert relay.memory_kills() == 3
    line = launch.Ended(2, -signal.SIGKILL).describe(True)
    assert line == "process 2 was killed by signal 9 (SIGKILL): out of memory, the kernel says"


@pytest.mark.parametrize(
    ("flags", "end"),
    [
        (["--max-restarts", "0"], "1 of 0"),
        (["--processes", "2"], "2 of 5"),
        (["--max-restarts", "-1"], 2),
        ([], "1 of 5"),
        (["--processes", "0"], 2),
    ],
)
def test_numbers_that_it_takes(monkeypatch, capfd, flags, end):
    monkeypatch.setattr(sys, "argv", ["launch", *flags, "-m", "program", "--processes", "9"])
    monkeypatch.setenv("REDCO_MAX_RESTARTS", "5")
    monkeypatch.setattr(
        launch, "Launch", lambda command, n: SimpleNamespace(run=f"{n} of {{}}".format)
    )
    with pytest.raises(SystemExit) as ended:
        launch.main()
    assert ended.value.code == end


@pytest.mark.parametrize(
    "flags",
    [
        ["--elastic", "10", "--processes", "2", "-m", "program", "--workdir", "w"],
        ["--elastic", "9", "-m", "program", "--workdir", "w"],
        ["--elastic", "10", "-m", "program"],
    ],
)
def test_what_elastic_goes_with(monkeypatch, capsys, flags):
    monkeypatch.setattr(sys, "argv", ["launch", *flags])
    with pytest.raises(SystemExit) as ended:
        launch.main()
    assert ended.value.code == 2
    assert (
        "--elastic takes 10 seconds or more, one process, and --workdir" in capsys.readouterr().err
    )
