"""Statistics of columns: computed from batches, merged, stored with a run, and compared between runs.

May import the feed's arrays and below. Nobody in a trainer imports it.
"""
