"""Maps obstore's errors to sparktf's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from sparktf.errors import (
    StorageError,
    StorageExistsError,
    StorageNotFoundError,
    StoragePermissionError,
    StorageUnavailableError,
)
from sparktf.redaction import redacted
from sparktf.told import first_line_of

_KINDS: tuple[tuple[type[BaseException], type[StorageError]], ...] = (
    (FileNotFoundError, StorageNotFoundError),  # what obstore has of its own name is raised nowhere
    (AlreadyExistsError, StorageExistsError),
    (PermissionDeniedError, StoragePermissionError),
    (UnauthenticatedError, StoragePermissionError),
)
_CODE = re.compile(r"<Code>([^<]+)</Code>\s*(?:<Message>([^<]+)</Message>)?")
_STATUS = re.compile(r"status code: (\d{3} [A-Za-z ]+)")
_NO_CONTAINER = ("NoSuchBucket", "ContainerNotFound")
_BROKE_OFF = "request or response body error"  # of reqwest, by which obstore asks
_NO_UPLOAD = ("NoSuchUpload", "InvalidBlockList")
# 5xx and 429 come after obstore's own retries; the others are of the network.
_UNAVAILABLE = re.compile(r"status code: (5\d\d|429)\b|error sending request|HTTP error|operation timed out")


_FORBIDDEN = re.compile(r"status code: 40[13]\b")
_UNTRUSTED = re.compile(r"InvalidCertificate\(\s*(\w+)")
_TRIED = re.compile(r"after (\d+) retries")
_HOST = re.compile(r"Error performing \w+ (https?://[^/\s]+)")
_INSTANCE = ("//169.254.169.254", "//metadata.google.internal", "//169.254.170.2")
"""Where obstore asks for keys, once it has found none: a cloud's machines have a server there."""

_PREFIX = re.compile(
    r"^Generic \w+ error: (?:Error performing [\w ]+request: )?(?:Error performing \w+ \S+ in \S+ - )?"
)


@contextmanager
def object_errors(doing: str, path: str) -> Iterator[None]:
    """Turns an error of obstore in the block into a `StorageError`: "cannot <doing> <path>: <reason of the store>"."""
    try:
        yield
    except StorageError:
        raise
    except (BaseError, OSError, ValueError) as error:
        raise kind_of(error)(f"cannot {doing} {path}: {store_reason(error)}") from error


def kind_of(error: BaseException) -> type[StorageError]:
    """Returns the error for one of obstore's."""
    text = str(error)
    if code_of(text) in _NO_CONTAINER:
        return StorageError  # the file is not "not there yet": nothing of the container is
    for theirs, ours in _KINDS:
        if isinstance(error, theirs):
            return ours
    if _asks_instance(text) or _FORBIDDEN.search(text):
        return StoragePermissionError
    is_away = _UNAVAILABLE.search(text) and not _UNTRUSTED.search(text)
    return StorageUnavailableError if is_away else StorageError


def is_precondition(error: BaseException) -> bool:
    """Whether a condition of a request did not hold: another content is there than the one that was meant."""
    return isinstance(error, AlreadyExistsError | PreconditionError)


def broke_off(error: BaseException) -> bool:
    """Whether an answer ended within its content."""
    return _BROKE_OFF in str(error)


def is_unknown_upload(error: BaseException) -> bool:
    """Whether the store knows an upload in parts no more: it was ended, by this client's last request or by others."""
    return code_of(str(error)) in _NO_UPLOAD


def code_of(text: str) -> str:
    """Returns the store's own code of an error, as "NoSuchBucket"; "" if it said none."""
    found = _CODE.search(text)
    return found.group(1) if found else ""


def store_reason(error: BaseException) -> str:
    """Returns a line without secrets: what the store said, else the status, else obstore's first line."""
    text = str(error)
    if isinstance(error, FileNotFoundError) and code_of(text) not in _NO_CONTAINER:
        return "there is no such object"
    if _asks_instance(text):
        return "no keys are configured for it, and this machine has no role that gives some"
    tried = _TRIED.search(text)
    return _said(text) + (f" (tried {int(tried.group(1)) + 1} times)" if tried else "")


def _said(text: str) -> str:
    """Returns the reason in a text of obstore's."""
    if found := _CODE.search(text):
        return f"{first_line_of(found.group(2) or '', 'refused')} ({found.group(1)})"
    if found := _STATUS.search(text):
        return f"the store answered {found.group(1).strip()}"
    if untrusted := _UNTRUSTED.search(text):
        return (
            f"{_place(text, 'the store')} has a certificate that nobody vouches for ({untrusted.group(1)}): name a PEM "
            "file with its authority in SSL_CERT_FILE, and for the nodes in spark.executorEnv.SSL_CERT_FILE"
        )
    if "error sending request" in text:
        place = _place(text, "")
        return f"the store cannot be reached{f' at {place}' if place else ''}"
    if "redirect" in text:
        return "the store is in another region: set fs.s3a.endpoint.region, or the bucket's own"
    return str(redacted(_PREFIX.sub("", first_line_of(text, "no reason given"))))


def _place(text: str, otherwise: str) -> str:
    host = _HOST.search(text)
    return host.group(1) if host else otherwise


def _asks_instance(text: str) -> bool:
    return any(place in text.partition("Debug source")[0] for place in _INSTANCE)
