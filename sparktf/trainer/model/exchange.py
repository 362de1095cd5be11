"""The exchange of arrays between the members of a gang, while they train and evaluate together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from sparktf.feed.arrays.columns import Array


class Exchange(Protocol):
    """The operations of the members of a gang; each is called on all of them, in the same order.

    Its results stay as they are for as long as somebody holds them.
    """

    @property
    def rank(self) -> int:
        """This member's position among all, from 0."""

    @property
    def members(self) -> int:
        """Their number."""

    @property
    def leads(self) -> bool:
        """Whether this member is the leader."""

    def sum(self, arrays: Sequence[Array]) -> list[Array]:
        """Returns the sum over all members of each array; it has one shape and one type everywhere."""

    def gather(self, array: Array) -> list[Array]:
        """Returns the arrays of all members, by rank; they may differ in their first dimension alone."""

    def from_leader(self, arrays: Sequence[Array]) -> list[Array]:
        """Returns the leader's arrays; those of the other members give their shapes and types."""


class Alone:
    """The exchange of a gang with one member."""

    rank = 0
    members = 1
    leads = True

    def sum(self, arrays: Sequence[Array]) -> list[Array]:
        """See `Exchange`."""
        return [np.asarray(array) for array in arrays]

    def gather(self, array: Array) -> list[Array]:
        """See `Exchange`."""
        return [np.asarray(array)]

    def from_leader(self, arrays: Sequence[Array]) -> list[Array]:
        """See `Exchange`."""
        return [np.asarray(array) for array in arrays]


ALONE = Alone()
"""Of a node that has all rows."""
