"""The version of sparktf."""

__version__ = "0.1.0"
