"""Asynchronous training: parameter servers hold the weights, a coordinator lets workers update them from their rows.

May import the parts of a node (`node`) and the model. Never imports `sync`.
"""
