"""The job: `spark-submit jobs/predict.py --config nightly.yaml --date D [--model published|run:<id>|<path>]`."""

from __future__ import annotations

import sys

from sparktf.main import predict

if __name__ == "__main__":
    sys.exit(predict())
