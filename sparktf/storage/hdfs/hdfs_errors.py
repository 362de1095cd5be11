"""Maps HDFS's errors, which are named by Java classes, to sparktf's."""

from __future__ import annotations

import re

from sparktf.errors import (
    StorageError,
    StorageExistsError,
    StorageNotFoundError,
    StoragePermissionError,
    StorageQuotaError,
    StorageUnavailableError,
)
from sparktf.told import first_line_of

_KINDS: dict[str, type[StorageError]] = {
    "FileNotFoundException": StorageNotFoundError,
    "ParentNotDirectoryException": StorageNotFoundError,
    "FileAlreadyExistsException": StorageExistsError,
    "AlreadyBeingCreatedException": StorageExistsError,
    "AccessControlException": StoragePermissionError,
    "AuthorizationException": StoragePermissionError,
    "SecurityException": StoragePermissionError,
    "InvalidToken": StoragePermissionError,
    "QuotaExceededException": StorageQuotaError,
    "DSQuotaExceededException": StorageQuotaError,
    "NSQuotaExceededException": StorageQuotaError,
    "QuotaByStorageTypeExceededException": StorageQuotaError,
    "SafeModeException": StorageUnavailableError,
    "RetriableException": StorageUnavailableError,
    "StandbyException": StorageUnavailableError,
    "ConnectException": StorageUnavailableError,
    "ConnectTimeoutException": StorageUnavailableError,
    "SocketTimeoutException": StorageUnavailableError,
    "NoRouteToHostException": StorageUnavailableError,
    "EOFException": StorageUnavailableError,
    "ServerTooBusyException": StorageUnavailableError,
    "BlockMissingException": StorageUnavailableError,
    "NotReplicatedYetException": StorageUnavailableError,
}
# Only the text of a plain IOException tells what it means.
_TEXTS: tuple[tuple[re.Pattern[str], type[StorageError]], ...] = (
    (re.compile(r"is not a directory", re.I), StorageNotFoundError),
    (re.compile(r"must both be directories|already exists"), StorageExistsError),
    (re.compile(r"safe ?mode", re.I), StorageUnavailableError),
    (
        re.compile(r"could only be written to|no live nodes|Failed on local exception|All datanodes"),
        StorageUnavailableError,
    ),
    (
        re.compile(
            r"Failed to find datanode|not excluded nodes|startup mode|Unable to close file|Connection (refused|reset)"
        ),
        StorageUnavailableError,
    ),
)
_AMBIGUOUS = {"", "IOException", "RemoteException", "AccessControlException"}
_EXCEPTION = re.compile(r"\b(?:[a-z][\w$]*\.)+([A-Z]\w*(?:Exception|Error|InvalidToken))\b")


def error_type(exception: str, message: str) -> type[StorageError]:
    """Returns the error for a Java exception, by its class name, with or without packages, or "" if unknown."""
    name = exception.rpartition(".")[2].rpartition("$")[2]
    if name in _AMBIGUOUS:
        for pattern, kind in _TEXTS:
            if pattern.search(message):
                return kind
    return _KINDS.get(name, StorageError)


def kind_of_native(error: Exception) -> type[StorageError]:
    """Returns the error for an exception of hdfs-native, whose text has the Java class."""
    if isinstance(error, FileNotFoundError):
        return StorageNotFoundError
    if isinstance(error, PermissionError):
        return StoragePermissionError
    found = _EXCEPTION.search(str(error))
    return error_type(found.group(1) if found else "", str(error))


def reason_of(text: str) -> str:
    """Returns the first line of Hadoop's message, which a stack trace may follow."""
    return first_line_of(text, "no reason given")
