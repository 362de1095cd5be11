"""The job: `spark-submit jobs/train.py --config nightly.yaml [--set train.epochs=3] [--date D] [--run-id R]`."""

from __future__ import annotations

from sparktf.process.supported import start

if __name__ == "__main__":
    start("main")
