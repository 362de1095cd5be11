"""Output for people: the progress of a run, its result, and its errors.

May import the root, the configuration and the wire's messages. Never decides.
"""
