"""Guards of the product, each taken out: what notices."""

from __future__ import annotations


def print_table(seeds: int, first: int) -> int:
    return 0
