"""The parts of a node under any strategy: its place in the run, its input, its saves and its output.

May import the model's room, the feed, the storage and below. Never trains, and never knows the other nodes' updates.
"""
