"""What travels between processes: the messages, the channel they take, and what secures it.

May import the root and the configuration. Never decides what a message is answered with.
"""
