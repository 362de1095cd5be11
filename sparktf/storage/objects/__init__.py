"""Object stores: S3 and what speaks its protocol, Azure's Data Lake Storage, Google Cloud Storage; by obstore.

May import the contract of a storage and what all storages share. Nobody but `storage/file_systems` imports it.
"""
