"""sparktf for Airflow 3: operators that submit a run, and a trigger that waits for one on YARN.

Goes into the plugins folder, where workers and the triggerer find it. Imports Airflow and Python's own library, never
sparktf: that has an environment of its own.
"""
