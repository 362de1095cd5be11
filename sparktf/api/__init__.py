"""The interface for user programs: `train`, `Cluster`, functions, and the run that they return.

May import the run and what stands around it: the driver, the nightly service, scoring. Nobody below imports it, and
TensorFlow only where a program asks for the model itself.
"""
