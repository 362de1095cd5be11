"""HTML pages for people: one of each run, and one of all runs of a name.

May import what `nightly` may. Reads stored files of runs, and never asks a cluster. matplotlib and jinja2 are only
imported when a page is made: a run without a report does not pay for them.
"""
