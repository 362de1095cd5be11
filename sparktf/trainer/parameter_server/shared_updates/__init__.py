"""Updates that several workers make together: gradients are added up on the servers and applied once.

May import one worker's update (`update`) and the model. Never decides who takes part.
"""
