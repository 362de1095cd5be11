"""The exchange of arrays between the members of a gang, while they train and evaluate together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeVar

import numpy as np

from sparktf.feed.arrays.columns import Array

Result = TypeVar("Result")


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

    # Where a gang outlives the loss of a member; elsewhere a loss ends the training, whatever is said here.

    @property
    def generation(self) -> int:
        """Number of the present members: another one once one of them is lost."""

    def again(self) -> AbstractContextManager[None]:
        """Has the block's operations made again without a member that is lost."""

    def whole(self, work: Callable[[], Result], *, takes_in: bool = False) -> Result:
        """Returns the result of work; does all of it again if a member is lost meanwhile.

        Args:
            takes_in: Whether others may join then: work looks for that.
        """


class Alone:
    """The exchange of a gang with one member."""

    generation = 1
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

    def again(self) -> AbstractContextManager[None]:
        """See `Exchange`."""
        return nullcontext()

    def whole(self, work: Callable[[], Result], *, takes_in: bool = False) -> Result:
        """See `Exchange`."""
        del takes_in
        return work()


ALONE = Alone()
"""Of a node that has all rows."""
