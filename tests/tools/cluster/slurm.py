"""A SLURM of two nodes and a controller, each a host of its own on this machine."""

import os
import re
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from cluster.hosts import NETWORK, Host

PROGRAMS = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "munged": "munge",
}
# cred_expire: SLURM starts a job again only when its credentials of before have expired, after 120 s by default.
CONF = """
ClusterName=test
SlurmctldHost=control({network}.254)
AuthInfo=socket={folder}/munge.socket,cred_expire=10
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
SlurmdTimeout=15
MessageTimeout=5
ReturnToService=2
NodeName=node1 NodeAddr={network}.1 CPUs=2
NodeName=node2 NodeAddr={network}.2 CPUs=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 GraceTime=60
PartitionName=urgent Nodes=ALL MaxTime=INFINITE PriorityTier=2
"""


class Slurm(AbstractContextManager["Slurm"]):
    """The cluster, with its files in a folder; node1 and node2 are in `nodes`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._stack = folder, ExitStack()
        self._daemons: list[subprocess.Popen[bytes]] = []
        for name in ("state", "spool-node1", "spool-node2"):
            (folder / name).mkdir()
        conf = folder / "slurm.conf"
        conf.write_text(CONF.format(network=NETWORK, folder=folder))
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self._env = os.environ | {"SLURM_CONF": str(conf)}
        hosts = folder / "hosts"
        lines = ["127.0.0.1 localhost", f"{NETWORK}.254 control"]
        lines += [f"{NETWORK}.{number} node{number}" for number in (1, 2)]
        hosts.write_text("\n".join(lines) + "\n")
        self.control = self._stack.enter_context(Host("control", 254, hosts))
        self.nodes = [
            self._stack.enter_context(Host(f"node{number}", number, hosts, self.control))
            for number in (1, 2)
        ]
        self._start()

    def _start(self) -> None:
        """Start the daemons; return once both nodes are idle."""
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self._daemon(
            self.control,
            "munged",
            "--foreground",
            "--force",
            f"--key-file={key}",
            *(f"--{name}-file={self.folder}/munge.{name}" for name in ("pid", "log", "seed")),
            f"--socket={self.folder}/munge.socket",
        )
        self._daemon(self.control, "slurmctld", "-D", "-i")
        for node in self.nodes:
            self._daemon(node, "slurmd", "-D", "-N", node.name)
        idle = ["sinfo", "--noheader", "--format=%D %t"]
        self.wait(60, "two idle nodes", lambda: self.run(*idle) == "2 idle\n")

    def _daemon(self, host: Host, *words: str) -> None:
        log = self._stack.enter_context((self.folder / f"{words[0]}-{host.name}.out").open("wb"))
        command = host.command(*words)
        self._daemons.append(subprocess.Popen(command, env=self._env, stdout=log, stderr=log))

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        for daemon in self._daemons:
            daemon.wait()

    def run(self, *words: str | Path) -> str:
        """Return what a command prints on the controller. Raises CalledProcessError where it fails."""
        command = self.control.command(*words)
        return subprocess.run(
            command, env=self._env, stdout=subprocess.PIPE, text=True, check=True
        ).stdout

    def job(self, number: str) -> dict[str, str]:
        """Return what SLURM says of a job, such as its JobState, Restarts, ExitCode."""
        said = self.run("scontrol", "--oneliner", "show", "job", number)
        return dict(re.findall(r"(\S+?)=(\S*)", said))

    def wait(self, seconds: float, what: str, done: Callable[[], object]) -> None:
        """Return once `done` is true. Raises TimeoutError with `what` never came."""
        until = time.monotonic() + seconds
        while not done():
            if time.monotonic() > until:
                raise TimeoutError(f"{what}: not within {seconds:.0f} s")
            time.sleep(0.5)
