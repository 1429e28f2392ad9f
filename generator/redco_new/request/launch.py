"""Which launchers a project has files for: --launch slurm,sky."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from redco_new.request.lookup import list_of


@dataclass(frozen=True)
class LaunchFile:
    """A file of launch/, and what its users are told of it.

    name: of the file.  title: what it starts, for people.
    crash: what follows a crash.  stop: what SIGTERM does, after which all save the same step.  code: its exit code.
    calls: the launcher whose file it runs on its hosts; "" for none.
    image: whether it starts an image, which the Dockerfile makes.
    """

    name: str
    title: str
    crash: str
    stop: str
    code: str
    calls: str = ""
    image: bool = False

    @property
    def path(self) -> str:
        """The file, in a project."""
        return f"launch/{self.name}"


TRAINING = "that of training"
LAUNCH_FILES = {
    "slurm": LaunchFile(
        *("slurm.sbatch", "SLURM"),
        "again, inside the job; a node that is lost: back into the queue",
        "120 s before its time is up, preemption, `scancel --signal TERM`: back into the queue; `scancel`: ends",
        TRAINING,
    ),
    "hosts": LaunchFile(
        *("hosts.sh", "plain ssh", "again"),
        "Ctrl-C, SIGTERM, a connection that is lost",
        TRAINING,
    ),
    "jobset": LaunchFile(
        *("jobset.yaml", "Kubernetes", "again, inside the pod, then all pods"),
        "a node that is taken away: new pods; `kubectl delete`: ends",
        "2 and 3 fail the JobSet",
        image=True,
    ),
    "pbs": LaunchFile(
        *("pbs.sh", "PBS", "again, inside the job"),
        "180 s before its time is up: submitted anew; `qdel`: ends",
        TRAINING,
        calls="hosts",
    ),
    "tpu-vm": LaunchFile(
        *("tpu-vm.sh", "Cloud TPU", "again", "`tpu-vm.sh TPU ZONE stop`", TRAINING)
    ),
    "sky": LaunchFile(
        *("sky.yaml", "SkyPilot", "again; a node that is lost, under `sky jobs launch`: all anew"),
        "`sky cancel`: ends",
        TRAINING,
    ),
    "kubeflow": LaunchFile(
        *("kubeflow.yaml", "Kubeflow Trainer", "again, inside the pod; then as its runtime says"),
        "`kubectl delete`, or suspended: ends; resumed, it goes on",
        TRAINING,
        image=True,
    ),
    "ray": LaunchFile(
        *("ray.py", "Ray", "again, on its node; then all, three times"),
        "`ray job stop`, Ctrl-C: ends as far as Ray's 3 s allow",
        TRAINING,
    ),
    "xmanager": LaunchFile(
        *("xmanager.py", "XManager", "again, inside the pod"),
        "as far as the pod's 30 s allow; no new pod",
        TRAINING,
    ),
}
IMAGE_FILES = ("Dockerfile", ".dockerignore")
DEFAULT_LAUNCH = ("slurm", "hosts", "jobset")


def check_launch(where: str, value: Any) -> tuple[str, ...]:
    """Return launchers by name, each once, in our order; of `slurm,sky`, or of a list. Raises RedcoError."""
    names = list_of("launcher", where, value, LAUNCH_FILES, '["slurm", "sky"]')
    names += [LAUNCH_FILES[name].calls for name in names]
    return tuple(name for name in LAUNCH_FILES if name in names)


def launchers_with(has: Callable[[str], bool]) -> tuple[str, ...]:
    """Return those whose file a project has. has: tells of a path in the project."""
    return tuple(name for name, file in LAUNCH_FILES.items() if has(file.path))


def without_others(files: dict[str, str], launch: Sequence[str]) -> dict[str, str]:
    """Return {path: text} without the files of launchers that were not asked for, nor an image that none of them starts."""
    others = {file.path for name, file in LAUNCH_FILES.items() if name not in launch}
    if not any(LAUNCH_FILES[name].image for name in launch):
        others.update(IMAGE_FILES)
    return {path: text for path, text in files.items() if path not in others}
