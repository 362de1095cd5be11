"""HDFS: by Hadoop's own client, and by WebHDFS.

May import the contract of a storage and what all storages share. Nobody but `storage/file_systems` imports it.
"""
