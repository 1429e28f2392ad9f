"""The emitted JobSet: its published schema, what boot.py reads in its pods, and what ends it; TrainJob and SkyPilot's task."""

import json
from pathlib import Path

import emitted
import pytest
import yaml

from redco_new.request.names import dns_label
from redco_runtime.cluster import launch

SCHEMA = Path(__file__).parent / "kubernetes" / "jobset_v0.9.1.yaml"
SKY = SCHEMA.with_name("sky_v0.14.1.json")
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return emitted.write_project(tmp_path_factory.mktemp("launch"))


@pytest.fixture
def jobset(project):
    return yaml.safe_load((project / "launch" / "jobset.yaml").read_text())


def find_faults(schema, value, path=""):
    """Return where a value is not as a schema of Kubernetes says; unknown fields are refused there."""
    if schema.get("x-kubernetes-int-or-string"):
        return [] if isinstance(value, int | str) else [f"{path}: no number or text"]
    if "type" in schema and not isinstance(value, TYPES[schema["type"]]):
        return [f"{path}: no {schema['type']}"]
    faults = (
        [f"{path}: none of {schema['enum']}"] if value not in schema.get("enum", [value]) else []
    )
    if isinstance(value, list):
        return [
            f for item in value for f in find_faults(schema.get("items", {}), item, path + "[]")
        ]
    if isinstance(value, dict):
        faults += [
            f"{path}.{name} is missing" for name in schema.get("required", []) if name not in value
        ]
        fields, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, item in value.items():
            if name in fields or others:
                faults += find_faults(fields.get(name, others), item, f"{path}.{name}")
            elif fields:
                faults.append(f"{path}.{name} is unknown")
    return faults


def test_it_is_as_the_published_schema_says(jobset):
    schema = yaml.safe_load(SCHEMA.read_text())
    assert find_faults(schema, jobset) == []
    jobset["spec"]["failurePolicy"]["rules"][0] = {"action": "Fail", "nme": "x"}
    rules = ".spec.failurePolicy.rules[]"
    assert find_faults(schema, jobset) == [
        f"{rules}.name is missing",
        f"{rules}.action: none of {schema_of_action(schema)}",
        f"{rules}.nme is unknown",
    ]


def schema_of_action(schema):
    for name in ("spec", "failurePolicy", "rules"):
        schema = schema["properties"][name]
    return schema["items"]["properties"]["action"]["enum"]


def test_the_trainjob_is_as_kubeflows_own_classes_say(project):
    # Here: it makes a second's worth of classes, in each process that collects tests.
    from kubeflow_trainer_api.models import TrainerV1alpha1TrainJob

    job = yaml.safe_load((project / "launch" / "kubeflow.yaml").read_text())
    read = TrainerV1alpha1TrainJob.from_dict(job)
    assert read.to_dict() == job  # which lacks what no class has
    assert (read.spec.runtime_ref.name, read.spec.trainer.num_nodes) == ("jax-distributed", 2)
    (patch,) = read.spec.runtime_patches
    (replicated,) = patch.training_runtime_spec.template.spec.replicated_jobs
    pod = replicated.template.spec.template.spec
    mounts = {one.name: one.mount_path for one in pod.containers[0].volume_mounts}
    assert mounts.keys() == {volume.name for volume in pod.volumes}
    assert read.spec.trainer.args == ["--workdir", mounts["run"]]


def test_the_task_of_skypilot_is_as_its_schema_says(project):
    task = yaml.safe_load((project / "launch" / "sky.yaml").read_text())
    schema = json.loads(SKY.read_text())
    assert find_faults(schema, task) == []
    assert [*task["volumes"]][0] in task["run"]
    task["resources"]["accelerator"] = task.pop("num_nodes")
    assert find_faults(schema, task) == [".resources.accelerator is unknown"]


def test_its_pods_are_the_processes_of_one_run(project, jobset):
    (replicated,) = jobset["spec"]["replicatedJobs"]
    job = replicated["template"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    env = {variable["name"]: variable["value"] for variable in container["env"]}
    boot = emitted.load_boot(project)
    processes = [
        boot.who_am_i(env | {"JOB_COMPLETION_INDEX": str(index)})
        for index in range(job["completions"])
    ]
    assert job["completionMode"] == "Indexed"
    assert job["parallelism"] == processes[0].count == len(processes)
    name = jobset["metadata"]["name"]
    # https://jobset.sigs.k8s.io/docs/concepts: <jobSet>-<replicatedJob>-<job>-<pod>.<subdomain>
    first = f"{name}-{replicated['name']}-0-0.{name}"
    assert processes[0].coordinator.split(":")[0] == first
    assert container["command"][3:] == [
        "my_project.runtime.cluster.launch",
        "-m",
        "my_project.train",
    ]


def test_what_another_try_would_not_change_ends_it_and_a_signal_does_not(jobset):
    (rule,) = jobset["spec"]["failurePolicy"]["rules"]
    assert (rule["action"], rule["onJobFailureReasons"]) == ("FailJobSet", ["PodFailurePolicy"])
    (replicated,) = jobset["spec"]["replicatedJobs"]
    rules = replicated["template"]["spec"]["podFailurePolicy"]["rules"]
    codes = {
        code: r["action"]
        for r in rules
        if "onExitCodes" in r
        for code in r["onExitCodes"]["values"]
    }
    assert codes == {2: "FailJob", 3: "FailJob", launch.STOPPED: "Ignore"}
    assert {0, *codes} == {*launch.FINAL}


def test_its_names_are_labels():
    assert dns_label("My_Project") == "my-project"
    assert dns_label("a" * 39 + "_b") == "a" * 39
