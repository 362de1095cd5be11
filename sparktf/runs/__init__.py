"""What a person asks of runs and models: which there are, how one went, in what two differ, which model is current.

May import what reads a run's folder and the history: storage, plans, the console, nightly, what follows a run. Never
needs Spark, and never writes but where a person says which model is to be served.
"""
