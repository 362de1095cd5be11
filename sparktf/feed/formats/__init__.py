"""Files of each format as row groups: Parquet and TFRecords, which rows are selected, and which files are damaged.

May import the feed's arrays and the storage's contract. Never knows who trains on the rows.
"""
