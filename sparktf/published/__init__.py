"""Published models: releases, the gate, numbered versions, `CURRENT`, and the MLmodel file.

May import the storage and its transactions, results and messages. Never trains, and never evaluates models.
"""
