"""Who a process is, by the variables that each launcher's documentation has."""

from types import SimpleNamespace

import jax
import pytest
from jax._src import distributed

from redco_runtime.cluster.launchers import Process, initialized, who_am_i
from redco_runtime.cluster.rendezvous import BootError

EXPLICIT = {"REDCO_COORDINATOR": "a:1", "REDCO_PROCESS_COUNT": "2", "REDCO_PROCESS_INDEX": "1"}
SLURM = {
    "SLURM_JOB_ID": "70001",
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "4",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "node[01-04]",
}
NODE01 = f"node01:{61440 + 70001 % 4096}"
TORCHRUN = {"RANK": "9", "WORLD_SIZE": "16", "MASTER_ADDR": "n1", "MASTER_PORT": "29500"}
LOCAL_8 = {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "8"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
}
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
PALS = {"PALS_RANKID": "3", "PMI_SIZE": "8", "PALS_LOCAL_RANKID": "3", "PALS_LOCAL_SIZE": "4"}
TRAINER = {
    "JAX_PROCESS_ID": "1",
    "JAX_NUM_PROCESSES": "2",
    "JAX_COORDINATOR_ADDRESS": "job-node-0-0.job:29500",
}
JAXJOB = {
    "PROCESS_ID": "1",
    "NUM_PROCESSES": "2",
    "COORDINATOR_ADDRESS": "job-worker-0",
    "COORDINATOR_PORT": "6666",
}
SKYPILOT = {
    "SKYPILOT_NODE_RANK": "1",
    "SKYPILOT_NUM_NODES": "2",
    "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2",
    "SKYPILOT_TASK_ID": "5",
}
DSTACK = {
    "DSTACK_NODE_RANK": "1",
    "DSTACK_NODES_NUM": "2",
    "DSTACK_MASTER_NODE_IP": "10.0.0.1",
    "DSTACK_RUN_NAME": "5",
}
KUBERNETES = {
    "JOB_COMPLETION_INDEX": "0",
    "COORDINATOR_ADDRESS": "p-0.p:7000",
    "NUM_PROCESSES": "2",
}
TPU = {"TPU_WORKER_ID": "1", "TPU_WORKER_HOSTNAMES": "10.0.0.1,10.0.0.2"}
SLICES = {
    "MEGASCALE_NUM_SLICES": "2",
    "MEGASCALE_SLICE_ID": "1",
    "MEGASCALE_COORDINATOR_ADDRESS": "10.0.0.1",
}


@pytest.mark.parametrize(
    ("env", "process"),
    [
        ({}, (0, 1, "", "single")),
        (EXPLICIT, (1, 2, "a:1", "explicit")),
        (EXPLICIT | SLURM | TORCHRUN, (1, 2, "a:1", "explicit")),
        (EXPLICIT | {"REDCO_COORDINATOR": "[::1]:1"}, (1, 2, "[::1]:1", "explicit")),
        (dict.fromkeys(EXPLICIT, ""), (0, 1, "", "single")),
        ({"REDCO_PROCESS_COUNT": "1"}, (0, 1, "", "single")),
        (SLURM | {"REDCO_PROCESS_COUNT": "1"}, (0, 1, "", "single")),
        ({"SM_HOSTS": '["algo-1"]'}, (0, 1, "", "single")),
        ({"RANK": "0", "WORLD_SIZE": "1"}, (0, 1, "", "single")),
        (TORCHRUN, (9, 16, f"n1:{61440 + 29500 % 4096}", "torchrun")),
        (TORCHRUN | LOCAL_8, (9, 16, f"n1:{61440 + 29500 % 4096}", "torchrun", 1)),
        (
            TORCHRUN | LOCAL_8 | {"CUDA_VISIBLE_DEVICES": "1"},
            (9, 16, f"n1:{61440 + 29500 % 4096}", "torchrun"),
        ),
        # torchrun of two nodes, started by srun or blaunch, or in SageMaker's containers
        (TORCHRUN | SLURM, (9, 16, f"n1:{61440 + 29500 % 4096}", "torchrun")),
        (TORCHRUN | {"SM_HOSTS": "a,b"}, (9, 16, f"n1:{61440 + 29500 % 4096}", "torchrun")),
        (TORCHRUN | {"LSF_PM_TASKID": "17"}, (9, 16, f"n1:{61440 + 29500 % 4096}", "torchrun")),
        (SLURM, (3, 4, NODE01, "slurm")),
        (SLURM | {"REDCO_COORDINATOR": "b:2"}, (3, 4, "b:2", "slurm")),
        (SLURM | {"SLURM_STEP_NUM_TASKS": "1"}, (0, 1, "", "single")),
        (SLURM | {"SLURM_STEP_ID": "", "SLURM_STEP_NODELIST": ""}, (0, 1, "", "single")),
        (OPEN_MPI | {"PMIX_NAMESPACE": "223281153"}, (1, 4, "localhost:61441", "Open MPI")),
        (OPEN_MPI | SLURM | {"SLURM_NTASKS": "8"}, (1, 4, "localhost:61440", "Open MPI")),
        (
            OPEN_MPI | SLURM | {"OMPI_COMM_WORLD_LOCAL_SIZE": "2", "SLURM_STEP_ID": ""},
            (1, 4, NODE01, "Open MPI"),
        ),
        (
            OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "2", "REDCO_COORDINATOR": "a:1"},
            (1, 4, "a:1", "Open MPI"),
        ),
        (
            OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0"},
            (0, 1, "", "single"),
        ),
        (MPICH | {"PMI_JOBID": "5"}, (1, 2, "localhost:61445", "MPICH, Intel MPI or PALS", 1)),
        (PALS | {"REDCO_COORDINATOR": "a:1"}, (3, 8, "a:1", "MPICH, Intel MPI or PALS", 3)),
        (TRAINER, (1, 2, "job-node-0-0.job:29500", "Kubeflow Trainer")),
        (
            TRAINER | {"JOB_COMPLETION_INDEX": "1"},
            (1, 2, "job-node-0-0.job:29500", "Kubeflow Trainer"),
        ),
        (JAXJOB, (1, 2, "job-worker-0:6666", "Kubeflow's JAXJob")),
        (SKYPILOT, (1, 2, "10.0.0.1:61445", "SkyPilot")),
        (SKYPILOT | TORCHRUN, (9, 16, f"n1:{61440 + 29500 % 4096}", "torchrun")),
        (DSTACK, (1, 2, "10.0.0.1:61445", "dstack")),
        (KUBERNETES, (0, 2, "p-0.p:7000", "kubernetes")),
        ({"JOB_COMPLETION_INDEX": "0"}, (0, 1, "", "single")),
        (TPU, (1, 2, "10.0.0.1:8482", "tpu")),
        (TPU | SLICES, (3, 4, "10.0.0.1:8482", "tpu")),
        (TPU | {"TPU_WORKER_HOSTNAMES": "localhost"}, (0, 1, "", "single")),
    ],
)
def test_who_am_i(env, process):
    assert who_am_i(env) == Process(*process)


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("gpu3", "gpu3"),
        ("gpu-a,gpu-b", "gpu-a"),
        ("node[01-04,7]", "node01"),
        ("node[7,9-12],gpu[1-2]", "node7"),
        ("gpu3,node[7,9]", "gpu3"),
        ("rack[1-2]node[05-06].site", "rack1node05.site"),
    ],
)
def test_first_host_of_slurm(nodes, first):
    process = who_am_i(SLURM | {"SLURM_STEP_NODELIST": "", "SLURM_JOB_NODELIST": nodes})
    assert process.coordinator.split(":")[0] == first


def test_mpirun_in_a_job_of_pbs_begins_at_its_first_host(tmp_path):
    (tmp_path / "nodes").write_text("x3\nx4\n")
    env = PALS | {"PBS_NODEFILE": str(tmp_path / "nodes"), "PBS_JOBID": "7"}
    assert who_am_i(env).coordinator == "x3:61447"


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (
            {"REDCO_COORDINATOR": "a:1"},
            "REDCO_COORDINATOR alone says not which process.*REDCO_PROCESS_COUNT=1 says",
        ),
        (EXPLICIT | {"REDCO_PROCESS_INDEX": ""}, "REDCO_PROCESS_INDEX='', REDCO_PROCESS_COUNT='2'"),
        (EXPLICIT | {"REDCO_PROCESS_COUNT": "two"}, "REDCO_PROCESS_COUNT='two': not a process"),
        (EXPLICIT | {"REDCO_PROCESS_INDEX": "2"}, "REDCO_PROCESS_INDEX='2'.*an index from 0"),
        (EXPLICIT | {"REDCO_PROCESS_INDEX": "-1"}, "REDCO_PROCESS_INDEX='-1'"),
        (
            EXPLICIT | OPEN_MPI | {"REDCO_COORDINATOR": ""},
            "process 0 is '' .explicit.*Set REDCO_COORDINATOR",
        ),
        (EXPLICIT | {"REDCO_COORDINATOR": "a"}, "'a' .explicit., which is not host:port"),
        (EXPLICIT | {"REDCO_COORDINATOR": "a:70000"}, "'a:70000'"),
        (OPEN_MPI | {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, "Open MPI.*Set REDCO_COORDINATOR"),
        (SLURM | {"SLURM_PROCID": ""}, "SLURM_PROCID=''"),
        (KUBERNETES | {"NUM_PROCESSES": ""}, "NUM_PROCESSES=''"),
        (KUBERNETES | {"COORDINATOR_ADDRESS": ""}, "kubernetes.*Set REDCO_COORDINATOR"),
        (TRAINER | {"JAX_PROCESS_ID": "0", "JAX_NUM_PROCESSES": ""}, "JAX_NUM_PROCESSES=''"),
        (TORCHRUN | {"RANK": "0", "WORLD_SIZE": ""}, "WORLD_SIZE=''"),
        ({"JOB_COMPLETION_INDEX": "5"}, "JOB_COMPLETION_INDEX='5', NUM_PROCESSES=''"),
        (TPU | {"TPU_WORKER_ID": "2"}, "TPU_WORKER_ID='2'"),
        (TORCHRUN | {"MASTER_ADDR": ""}, "'' .torchrun., which is not host:port"),
        (SKYPILOT | {"SKYPILOT_NODE_IPS": ""}, "'' .SkyPilot."),
        (JAXJOB | {"COORDINATOR_PORT": ""}, "'job-worker-0:' .Kubeflow's JAXJob."),
        ({"PMI_RANK": "1"}, "PMI_RANK='1', PMI_SIZE=''"),
        (PALS, "'' .MPICH, Intel MPI or PALS."),
        # Two that do not agree: four tasks, each of which begins a torchrun of two.
        (
            SLURM | TORCHRUN | {"RANK": "1", "WORLD_SIZE": "2"},
            "WORLD_SIZE='2' .torchrun., but SLURM_PROCID='3', SLURM_STEP_NUM_TASKS='4' .slurm.",
        ),
        ({"JSM_NAMESPACE_RANK": "0", "JSM_NAMESPACE_SIZE": "2"}, "LSF starts several"),
        ({"LSF_PM_TASKID": "1", "LSB_DJOB_NUMPROC": "8"}, "LSF's blaunch starts several"),
        ({"FLUX_TASK_RANK": "0", "FLUX_JOB_SIZE": "2"}, "Flux starts several"),
        ({"AWS_BATCH_JOB_NUM_NODES": "2"}, "AWS Batch starts several"),
        ({"SM_HOSTS": '["algo-1","algo-2"]'}, "SageMaker starts several"),
    ],
)
def test_who_am_i_refuses(env, message):
    with pytest.raises(BootError, match=message):
        who_am_i(env)


def test_what_jax_is_already_is_taken(monkeypatch):
    """As in a worker of Ray's JaxTrainer."""
    assert initialized() is None
    state = SimpleNamespace(coordinator_address="10.0.0.1:5", num_processes=4, process_id=2)
    monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "global_state", state)
    process = initialized()
    assert (process.index, process.count) == (2, 4)
    host, _, port = process.coordinator.partition(":")
    assert host == "10.0.0.1" and int(port) >= 61440
