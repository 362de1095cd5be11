"""Commands over runs and models: list, show, compare, and choose the current model.

May import what reads a run's folder and the history: storage, plans, the console, nightly. Never needs Spark, and
writes only where a person chooses the model to be served.
"""
