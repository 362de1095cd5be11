"""Measurements of a run: metrics by epoch, events, time, the best epoch, the comparison with the published model.

May import the root. Never reads or writes: these are values that nodes send and the driver stores.
"""
