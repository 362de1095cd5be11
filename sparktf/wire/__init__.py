"""Communication between processes: the messages, the channel that carries them, and its security.

May import the root and the configuration. Never decides how a message is answered.
"""
