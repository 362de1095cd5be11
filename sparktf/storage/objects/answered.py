"""Requests to a store that are made again, where obstore does not do so itself, since no harm comes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from obstore.exceptions import BaseError

from sparktf.storage.objects.object_errors import broke_off, is_unknown_upload

_T = TypeVar("_T")

_TRIES = 4


def answered(ask: Callable[[], _T]) -> _T:
    """Returns the answer to a request that may be made twice: all but a put on a condition.

    - obstore asks again if there was no answer, and reads on if one broke off in an object's content. One that broke
      off in a listing, in an error, or in what the store said of a copy, it raises.
    - An upload in parts whose last request was not answered is asked for again by obstore. Azure has no such upload
      then, nor have some of S3's likenesses: the object is there, or others have ended the upload. After another put it
      is there in any case.

    Raises:
        BaseError, OSError: of obstore.
    """
    for _ in range(_TRIES - 1):
        try:
            return ask()
        except (BaseError, OSError) as error:
            if not broke_off(error) and not is_unknown_upload(error):
                raise
    return ask()
