"""Files for the user's folders, which lose nobody's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sparktf.errors import ConfigError


def write_new(contents: Mapping[Path, bytes], instead: str) -> list[Path]:
    """Writes files, in folders that are made: all of them, or none; returns their paths.

    Args:
        contents: Of each path. What begins as a script does can be executed.
        instead: What to do if they cannot be written, for the message.

    Raises:
        ConfigError: one of them is there, or cannot be written; none is replaced.
    """
    if there := [path for path in contents if os.path.lexists(path)]:
        raise ConfigError(f"{there[0]} is there already, and is not replaced: {instead}")
    written: list[Path] = []
    try:
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                written.append(path)
                file.write(content)
            if content.startswith(b"#!"):
                path.chmod(0o755)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise ConfigError(f"{error.filename or path}: {error.strerror or error}: {instead}") from error
    return written
