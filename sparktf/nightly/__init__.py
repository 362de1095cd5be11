"""The nightly service: whether the data is there, and what becomes of a model that is trained. Above the driver.

May import what a run is made of (plan, storage, configuration) and the hooks that a run calls. Never trains, holds an
executor or is imported by the driver: a run without these sections knows nothing of it.
"""
