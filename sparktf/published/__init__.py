"""Published models: numbered versions, `CURRENT`, and the MLmodel file beside them.

May import the storage and its transactions. Never trains and never compares models.
"""
