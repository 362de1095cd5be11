"""Folders in object stores whose names are kept in one object, so that renames there are one swap.

May import the contract of a storage, the heads, and the stores. Nobody but `storage/file_systems` imports it.
"""
