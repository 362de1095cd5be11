"""What programs of other projects find here under their own names. Above the driver.

May import the driver's gang and its Spark side, sources, scoring and TFRecords. Nobody below imports it, and ever less
depends on what it imitates.
"""
