"""Delegation tokens that the driver hands to an agent, for the processes of its executor."""

from __future__ import annotations

import base64
from pathlib import Path

from sparktf.storage.credentials import TOKENS, write_token_file
from sparktf.storage.tokens import edition_of


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
