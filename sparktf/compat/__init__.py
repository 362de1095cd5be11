"""APIs of other projects, under their names, for programs written for them. Above the driver.

May import the driver's gang and its Spark side, sources, scoring and TFRecords. Nobody below imports it, and ever less
depends on the APIs that it imitates.
"""
