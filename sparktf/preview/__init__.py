"""What a run would be like, before anything is held: `sparktf plan`.

May import what looks at each part of it: driver/check, nightly, what submits, storage, plans, the console. It asks and
reads; it never writes, never holds anything of the cluster's, and Spark is started on this machine alone.
"""
