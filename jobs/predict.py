"""The job: `spark-submit jobs/predict.py --config nightly.yaml --date D [--model published|run:<id>|<path>]`."""

from __future__ import annotations

from sparktf.process.supported import start

if __name__ == "__main__":
    start("predict")
