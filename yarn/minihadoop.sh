#!/usr/bin/env bash
# python -m minihadoop, from anywhere: with the environment that make builds, or with $PYTHON.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-$here/../.venv/bin/python}
if ! command -v "$python" >/dev/null; then
	python=python3
fi
PYTHONPATH=$here${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m minihadoop "$@"
