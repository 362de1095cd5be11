"""The pages that people open: one of each run, and one of all runs of a name.

May import what `nightly` may. Reads what runs have stored, and never asks a cluster. Nobody imports matplotlib or
jinja2 before a page is made: a run without a report does not pay for them.
"""
