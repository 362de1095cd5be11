"""Delegation tokens and secrets that the driver hands to an agent or a task, for the processes of its executor."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass, field
from pathlib import Path

from sparktf.hadoop import HadoopConf
from sparktf.storage.credentials import TOKENS, write_token_file
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.store_keys import STORE_KEYS, key_file, keys_in, parse_keys
from sparktf.storage.tokens import TokenFormatError, edition_of, parse_tokens


class HandedTokens:
    """The newest tokens, in a file that `credentials_here` finds.

    Attributes:
        edition: `edition_of` the tokens; "" before there are any.
    """

    def __init__(self, folder: Path) -> None:
        """Writes nothing yet; `folder` is deleted with the executor."""
        self._path = folder / TOKENS
        self.edition = ""

    def take(self, content: str) -> None:
        """Keeps a token file, given in base64.

        Raises:
            OSError: it cannot be written.
        """
        tokens = base64.b64decode(content)
        write_token_file(self._path, tokens)
        self.edition = edition_of(tokens)


@dataclass(frozen=True, slots=True)
class TaskAccess:
    """How a Spark task reaches files: it has no agent that is handed anything, so all is in its closure.

    YARN's own token file is of the executor's start; a job of a long session begins when that is over.
    """

    hadoop: HadoopConf
    tokens: bytes = field(default=b"", repr=False)  # A token file; b"" where the executor needs none
    store_keys: bytes = field(default=b"", repr=False)  # A file of secrets of object stores; b"" without any

    def file_systems(self) -> FileSystems:
        """Returns the task's file systems, by what it was given. Raises as `put_down`."""
        self.put_down()
        return FileSystems(self.hadoop)

    def put_down(self) -> None:
        """Puts what was given where the processes of this executor look, unless something newer is there.

        Raises:
            OSError: it cannot be written.
        """
        local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
        if not local:
            return
        tokens = Path(local, TOKENS)
        if self.tokens and _issued_s(self.tokens) > _issued_of(tokens):
            write_token_file(tokens, self.tokens)
        if self.store_keys:
            keys = Path(local, STORE_KEYS)
            known = keys_in(keys)  # those of other stores stay
            if (joined := key_file({**known, **parse_keys(self.store_keys)})) != key_file(known):
                write_token_file(keys, joined)


def _issued_of(path: Path) -> float:
    try:
        return _issued_s(path.read_bytes())
    except (OSError, TokenFormatError):
        return float("-inf")


def _issued_s(content: bytes) -> float:
    return max((token.issued_s() for token in parse_tokens(content)), default=float("-inf"))
