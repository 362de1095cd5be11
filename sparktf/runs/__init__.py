"""What a person asks of runs, during and after: which there were, how one went, and in what two of them differ.

May import what reads a run's folder and the history: storage, plans, the console, nightly, what follows a run. Never
writes, and never needs Spark.
"""
