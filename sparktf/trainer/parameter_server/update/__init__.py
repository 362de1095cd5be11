"""One update of one worker: the function that it runs, what it reads and sends, and in how many messages.

May import the model and below. Never knows the other workers.
"""
