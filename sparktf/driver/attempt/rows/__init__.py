"""Which rows are whose: leases of blocks, what was fed, what was trained, and the ledger that must come out even.

May import the plan. Never touches storage and never waits: all of it runs under the attempt's lock.
"""
