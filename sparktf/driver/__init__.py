"""The Spark driver's side: plan, reserve, watch, commit. Each folder in it is a room with walls of its own.

A file beside them may import what `tests/unit/test_layering.py` says; pyspark stands in `spark/`, `source/`
and `spark_site` alone. Never imports TensorFlow.
"""
