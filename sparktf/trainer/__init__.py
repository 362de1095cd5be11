"""The node's own process: `python -m sparktf.trainer`. Nothing else imports this package."""
