"""Who a process is, as its launcher says in variables: its index, how many there are, where process 0 listens.

Only a count above 1 or an index above 0 says anything. Where several launchers speak, the nearest counts, which is the
first in LAUNCHERS: an explicit word, then what starts processes on a host, then what starts hosts. A launcher that is known
and cannot be followed is refused: each of its processes would train a model of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from zlib import crc32

from .rendezvous import BootError

Environment = Mapping[str, str]
EXPLICIT = ("REDCO_PROCESS_INDEX", "REDCO_PROCESS_COUNT")
# What MPICH, Intel MPI and PALS call the same.
PMI = {
    "PMI_RANK": ("PALS_RANKID",),
    "PMI_SIZE": ("PALS_SIZE",),
    "PMI_LOCAL_RANK": ("MPI_LOCALRANKID", "PALS_LOCAL_RANKID"),
    "PMI_LOCAL_SIZE": ("MPI_LOCALNRANKS", "PALS_LOCAL_SIZE"),
    "PMI_JOBID": ("PALS_APID",),
}
TODO = (
    "Set REDCO_COORDINATOR, REDCO_PROCESS_COUNT and REDCO_PROCESS_INDEX in each process; "
    "REDCO_PROCESS_COUNT=1 says that it is the only one."
)


@dataclass(frozen=True)
class Process:
    """This process, `index` of `count`. Process 0 listens at `coordinator`, "host:port"."""

    index: int
    count: int
    coordinator: str
    launcher: str
    # Of its host's, where a launcher starts a process for each; None for all.
    gpu: int | None = None


@dataclass(frozen=True)
class Launcher:
    """A launcher, by the variables that its documentation has."""

    name: str
    index: str  # of a process
    count: str  # how many there are, or a list of them
    # Where process 0 shall listen, "" where that is not said; None for one that is not followed.
    address: Callable[[Environment], str] | None
    local: tuple[str, str] = ("", "")  # index and count of the processes on this host
    needs: str = ""  # a variable without which the others are not its own

    def said(self, env: Environment) -> tuple[str, str]:
        """Return index and count as the variables have them, "" for what is not there."""
        if self.needs and not env.get(self.needs):
            return "", ""
        return env.get(self.index, ""), env.get(self.count, "")

    def size(self, env: Environment) -> int:
        """Return how many processes there are at least, by what is said; 1 for nothing."""
        index, count = map(_number, self.said(env))
        return max(index + 1, count, 1)


def who_am_i(env: Environment) -> Process:
    """Return what the nearest launcher says. Raises BootError where it says half, or what cannot be."""
    env = _readable(env)
    if any(env.get(name) for name in EXPLICIT):
        if env.get(EXPLICIT[1]) == "1" and env.get(EXPLICIT[0], "") in ("", "0"):
            return Process(0, 1, "", "single")
        return _process(LAUNCHERS[0], env)
    speaking = [one for one in LAUNCHERS[1:] if one.size(env) > 1 or _half(one, env)]
    if not speaking:
        if env.get("REDCO_COORDINATOR"):
            raise BootError(f"REDCO_COORDINATOR alone says not which process this is. {TODO}")
        return Process(0, 1, "", "single")
    nearest, *others = speaking
    if nearest.address is None:
        raise BootError(f"{_quoted(nearest, env)}: {nearest.name} starts several processes. {TODO}")
    for other in others:
        # mpirun starts its helpers by srun, whose variables its processes inherit.
        helper = "MPI" in nearest.name and other.name == "slurm"
        if other.count and other.size(env) > nearest.size(env) and not helper:
            raise BootError(
                f"{_quoted(nearest, env)} ({nearest.name}), but {_quoted(other, env)} ({other.name}): "
                f"they do not agree on how many processes there are. {TODO}"
            )
    return _process(nearest, env)


def initialized() -> Process | None:
    """Return the process that JAX is already, as where Ray's JaxTrainer has connected it; None where it is not."""
    import jax  # late: a launcher reads the table alone
    from jax._src import distributed

    if not jax.distributed.is_initialized():
        return None
    state = distributed.global_state
    host = str(state.coordinator_address).rpartition(":")[0]
    address = f"{host}:{_port(str(state.coordinator_address))}"
    return Process(state.process_id, state.num_processes, address, "jax.distributed")


def _process(launcher: Launcher, env: Environment) -> Process:
    """Return the process that a launcher names. Raises BootError where it is none."""
    index, count = launcher.said(env)
    size = str(_number(count))
    if not (index.isdecimal() and count and int(index) < int(size)):
        raise BootError(
            f"{_quoted(launcher, env)}: not a process; needs an index from 0 and a greater count. {TODO}"
        )
    assert launcher.address is not None, "who_am_i refuses what is not followed"
    coordinator = env.get("REDCO_COORDINATOR") or launcher.address(env)
    host, _, port = coordinator.rpartition(":")
    if not (host and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise BootError(
            f"the address of process 0 is {coordinator!r} ({launcher.name}), which is not host:port. "
            "Set REDCO_COORDINATOR, the same in all processes; "
            "REDCO_PROCESS_COUNT=1 alone says that this is the only one."
        )
    return Process(int(index), int(size), coordinator, launcher.name, _gpu(launcher, env))


def _gpu(launcher: Launcher, env: Environment) -> int | None:
    """Return the GPU of a process that shares its host, unless it sees but one anyway."""
    index, count = (env.get(name, "") for name in launcher.local)
    alone = _number(count) < 2 or not index.isdecimal()
    return None if alone or _number(env.get("CUDA_VISIBLE_DEVICES", "0,1")) < 2 else int(index)


def _readable(env: Environment) -> Environment:
    """Return the variables, where they are of one job: SLURM's in a step alone, PALS's as MPI's, slices of TPUs as one."""
    env = dict(env)
    in_step = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_STEP_ID")  # not the batch script
    env.setdefault("SLURM_STEP_NUM_TASKS", env.get("SLURM_NTASKS", "1"))
    if not in_step or env["SLURM_STEP_NUM_TASKS"] == "1":
        env["SLURM_PROCID"], env["SLURM_STEP_NUM_TASKS"] = "0", "1"
    for name, others in PMI.items():
        env[name] = next((env[other] for other in (name, *others) if env.get(other)), "")
    slices, hosts = (
        max(_number(env.get(name, "")), 1)
        for name in ("MEGASCALE_NUM_SLICES", "TPU_WORKER_HOSTNAMES")
    )
    worker, part = env.get("TPU_WORKER_ID", ""), env.get("MEGASCALE_SLICE_ID") or "0"
    if slices * hosts > 1:
        env["TPU_COUNT"] = str(slices * hosts)
        numbers = worker.isdecimal() and part.isdecimal()
        env["TPU_INDEX"] = str(int(part) * hosts + int(worker)) if numbers else worker
    return env


def _half(launcher: Launcher, env: Environment) -> bool:
    """Tell whether a launcher says which process this is, and where to meet, but not how many there are."""
    index, count = launcher.said(env)
    return bool(index and not count and launcher.address and launcher.address(env))


def _quoted(launcher: Launcher, env: Environment) -> str:
    names = {"TPU_INDEX": "TPU_WORKER_ID", "TPU_COUNT": "TPU_WORKER_HOSTNAMES"}
    pair = [names.get(name, name) for name in (launcher.index, launcher.count) if name]
    return ", ".join(f"{name}={env.get(name, '')!r}" for name in pair)


def _number(text: str) -> int:
    """Return the number that a variable says, or how many things it lists; 0 for none."""
    return int(text) if text.isdecimal() else text.count(",") + 1 if text else 0


def _port(run: str) -> int:
    """Return a port that is the same for all processes of a run, and above the ports that Linux gives to connections."""
    return 61440 + (int(run) if run.isdecimal() else crc32(run.encode())) % 4096


def _at(host: str, run: str, env: Environment) -> str:
    """Return the first of the hosts that one variable has, and a port by another's name of the run."""
    first = (env.get(host, "").replace(",", "\n").split() or [""])[0]
    return f"{first}:{_port(env.get(run, ''))}" if first else ""


def _host_port(address: str, port: str, env: Environment) -> str:
    """Return the address that one variable has, with the port from another where it has none."""
    host, has_port = env.get(address, ""), ":" in env.get(address, "").rpartition("]")[2]
    return host if has_port or not host else f"{host}:{env.get(port, '')}"


def _mpi(run: str, local: str, count: str, env: Environment) -> str:
    """Return the address under mpirun: this host, where all are on it, or the first of the batch job's."""
    if env.get(local) and env.get(local) == env.get(count):
        return f"localhost:{_port(env.get(run, ''))}"
    return _slurm(env) or _pbs(env)


def _slurm(env: Environment) -> str:
    """Return the first host of a SLURM job, of a list such as node[01-04,7],gpu3: node01."""
    nodes = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST", "")
    first = re.match(r"([^,\[]|\[[^]]*])*", nodes)
    host = re.sub(r"\[([^],-]*)[^]]*]", r"\1", first[0]) if first else ""
    return f"{host}:{_port(env.get('SLURM_JOB_ID') or '0')}" if host else ""


def _pbs(env: Environment) -> str:
    """Return the first host of a PBS job."""
    try:
        first = Path(env.get("PBS_NODEFILE") or os.devnull).read_text().split()
    except OSError:
        return ""
    return f"{first[0]}:{_port(env.get('PBS_JOBID', ''))}" if first else ""


def _tpu(env: Environment) -> str:
    """Return the first host of a TPU slice, or of the first of several."""
    hosts = env.get("MEGASCALE_COORDINATOR_ADDRESS") or env["TPU_WORKER_HOSTNAMES"]
    return f"{hosts.split(',')[0].split(':')[0]}:8482"


# The nearest first. torchrun's own store listens at MASTER_PORT, so that JAX takes another.
LAUNCHERS = (
    Launcher("explicit", *EXPLICIT, lambda env: ""),
    Launcher(
        *("torchrun", "RANK", "WORLD_SIZE", partial(_at, "MASTER_ADDR", "MASTER_PORT")),
        local=("LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ),
    Launcher(
        *("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        partial(_mpi, "PMIX_NAMESPACE", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE"),
        local=("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ),
    Launcher(
        *("MPICH, Intel MPI or PALS", "PMI_RANK", "PMI_SIZE"),
        partial(_mpi, "PMI_JOBID", "PMI_LOCAL_SIZE", "PMI_SIZE"),
        local=("PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"),
    ),
    Launcher("slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", _slurm),
    Launcher(
        *("Kubeflow Trainer", "JAX_PROCESS_ID", "JAX_NUM_PROCESSES"),
        partial(_host_port, "JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_PORT"),
    ),
    Launcher(
        *("Kubeflow's JAXJob", "PROCESS_ID", "NUM_PROCESSES"),
        partial(_host_port, "COORDINATOR_ADDRESS", "COORDINATOR_PORT"),
        needs="PROCESS_ID",
    ),
    Launcher(
        *("SkyPilot", "SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES"),
        partial(_at, "SKYPILOT_NODE_IPS", "SKYPILOT_TASK_ID"),
    ),
    Launcher(
        *("dstack", "DSTACK_NODE_RANK", "DSTACK_NODES_NUM"),
        partial(_at, "DSTACK_MASTER_NODE_IP", "DSTACK_RUN_NAME"),
    ),
    Launcher(
        *("kubernetes", "JOB_COMPLETION_INDEX", "NUM_PROCESSES"),
        partial(_host_port, "COORDINATOR_ADDRESS", ""),
        needs="JOB_COMPLETION_INDEX",
    ),
    Launcher("tpu", "TPU_INDEX", "TPU_COUNT", _tpu),
    Launcher("LSF", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", None),
    Launcher("LSF's blaunch", "LSF_PM_TASKID", "", None),  # from 1; how many it does not say
    Launcher("Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", None),
    Launcher("AWS Batch", "AWS_BATCH_JOB_NODE_INDEX", "AWS_BATCH_JOB_NUM_NODES", None),
    Launcher("SageMaker", "", "SM_HOSTS", None),  # ["algo-1", "algo-2"]
)
