"""The public edge: an error of ours leaves it with the caller's frames alone, and not with sixty of sparktf's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from sparktf.errors import SparkTFError
from sparktf.told import log_of

_P = ParamSpec("_P")
_T = TypeVar("_T")

_log = log_of(__name__)


def with_short_traceback(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorates a public function: the tracebacks of its `SparkTFError`s, and of an interrupt, end where it is called.

    An error's cause is said in its message, and the model's own traceback is in its record. Python's logging has
    the whole traceback, at level DEBUG of this module. Defects keep all of theirs.
    """

    @functools.wraps(function)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(*args, **kwargs)
        except (SparkTFError, KeyboardInterrupt) as error:
            _log.debug("%s", error, exc_info=True)
            raise error.with_traceback(None) from None

    return called
