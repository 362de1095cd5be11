"""Reads the result of a run from its folder."""

from __future__ import annotations

from pydantic import ValidationError

from sparktf.errors import CorruptFileError
from sparktf.results.result import RunResult
from sparktf.storage.base import Storage


def read_result(storage: Storage, path: str) -> RunResult:
    """Returns the content of a result.json.

    Raises:
        CorruptFileError: this version cannot read it: torn, or of another version.
        StorageNotFoundError: it is not there.
        StorageError: the storage failed.
    """
    try:
        return RunResult.model_validate_json(storage.read_bytes(path))
    except ValidationError as error:
        wrong = f"{error.error_count()} of its fields are not as this version writes them"
        raise CorruptFileError(f"{path} cannot be read: {wrong}") from None
