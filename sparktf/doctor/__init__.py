"""The things on this machine and its cluster that would stop a run: `sparktf doctor`.

May import the submission, storage and the console; asks with short limits, and never waits for an answer that
does not come. It holds nothing of the cluster's and starts no Spark, unless it is to ask the nodes; it leaves
no file behind.
"""
