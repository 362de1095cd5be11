"""Asynchronous training: parameter servers hold the weights, a coordinator lets workers update them from their rows.

May import what a node is made of (`node`) and the model. Never imports `sync`.
"""
