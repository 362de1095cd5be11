"""Published models: what of a run is published, past which gate, numbered versions, `CURRENT`, and their MLmodel file.

May import the storage and its transactions, results and messages. Never trains, and never evaluates models.
"""
