"""Model functions for tests: what a user might write, and what a user should not."""
