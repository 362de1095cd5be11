"""What a program of a user calls: `train`, `Cluster`, the functions that it names, and the run that it gets back.

May import the run and what stands around it: the driver, the nightly service, scoring. Nobody below imports it, and
TensorFlow only where a program asks for the model itself.
"""
