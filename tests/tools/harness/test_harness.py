"""An export, evaluated by lm-evaluation-harness on a task of two lines, as README says."""

import json
import os
import subprocess
import sys
from pathlib import Path

from redco_new.project.create import create_project
from redco_new.request import Request

HARNESS = Path(os.environ.get("HARNESS", ".harness/bin"))
TEXTS = [
    "The with statement wraps the execution of a block.",
    "A class definition defines a class.",
]
TASK = """
task: lines
dataset_path: json
dataset_kwargs:
  data_files: {{test: {data}}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{{{text}}}}"
metric_list:
  - metric: bits_per_byte
"""
UNIFORM = 8.58  # bits of one of the 384 tokens, which are bytes, of the preset tiny


def test_an_export_is_evaluated(tmp_path):
    project = create_project(Request.from_flags("words", "gpt2", shards="1"), tmp_path)

    def run(*command, **changes):
        done = subprocess.run(
            command, cwd=project, env=os.environ | changes, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr

    flags = ("--workdir", "runs/a", "--virtual-devices", "1")
    run(sys.executable, "-m", "words.train", "--preset", "tiny", "--steps", "60", *flags)
    run(sys.executable, "-m", "words.export", "--out", "exported", *flags)
    data = project / "lines.jsonl"
    data.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    (project / "tasks").mkdir()
    (project / "tasks/lines.yaml").write_text(TASK.format(data=data))
    where = ("--include_path", "tasks", "--output_path", "results")
    model = ("--model", "hf", "--model_args", "pretrained=exported,dtype=float32")
    run(str(HARNESS / "lm_eval"), "run", *model, "--tasks", "lines", *where, HF_HUB_OFFLINE="1")
    (results,) = (project / "results").rglob("results_*.json")
    bits = json.loads(results.read_text())["results"]["lines"]["bits_per_byte,none"]
    assert 1 < bits < 0.6 * UNIFORM
