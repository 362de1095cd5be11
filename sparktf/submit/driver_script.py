"""The driver's program that `sparktf submit` ships: it trains, or scores if told to."""

from __future__ import annotations

import sys

from sparktf.process.supported import start

if __name__ == "__main__":
    scores = sys.argv[1:2] == ["predict"]  # then the options are those of jobs/predict.py
    if scores:
        del sys.argv[1]
    start("predict" if scores else "main")
