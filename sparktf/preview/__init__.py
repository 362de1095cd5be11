"""The forecast of a run before anything is held: `sparktf plan`.

May import the parts that it forecasts: driver/check, nightly, submission, storage, plans, the console. It reads and
asks; it never writes, holds nothing of the cluster's, and starts Spark on this machine only.
"""
