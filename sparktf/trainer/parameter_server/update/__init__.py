"""One update of one worker: its function, its reads and writes, and how they are packed into messages.

May import the model and below. Never knows the other workers.
"""
