"""The nightly service: readiness and checks of the data, and the steps after training. Above the driver.

May import what a run is made of (plan, storage, configuration) and the hooks that a run calls. Never trains, holds an
executor or is imported by the driver: a run without these sections does not depend on it.
"""
