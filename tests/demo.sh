#!/usr/bin/env bash
# The whole path: create a project, train it, predict from its checkpoint in a second process.
# Usage: demo.sh BIN, where BIN is the bin/ of an environment with redco-new; DEMO_STEPS: optimizer steps.
set -euo pipefail
bin=$1
steps=${DEMO_STEPS:-200}

cd "$(mktemp -d)"
"$bin/redco-new" my-project --model gpt-j --shards 4
cd my-project
"$bin/python" -m my_project.train --preset tiny --steps "$steps" --virtual-devices 4 --workdir runs/a
"$bin/python" -m my_project.predict --workdir runs/a --prompt "The "
echo "The project is in $PWD"
