"""Which rows belong to which node: leases of blocks, fed rows, trained rows, and the ledger that must balance.

May import the plan. Never touches storage and never waits: all of it runs under the attempt's lock.
"""
