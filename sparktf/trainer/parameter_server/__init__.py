"""Asynchronous training: parameter servers hold the weights, a coordinator has workers update them from rows of theirs.

May import what a node is made of (`node`) and the model. Never imports `sync`.
"""
