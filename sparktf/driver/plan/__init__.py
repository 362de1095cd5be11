"""The input of a run: files, partitions, features, row groups put into blocks and dealt to hosts; the stored plan.

Below all other rooms of the driver. Never imports pyspark, and knows of no node.
"""
