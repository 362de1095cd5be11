"""Lines of TensorFlow and its libraries of which nobody can make use, and that hide those of a failure."""

from __future__ import annotations

import re

_NOISE = re.compile(
    "|".join(
        (
            # A machine without a GPU, or without all that one needs.
            r"failed call to cuInit",
            r"\bcuda_diagnostics\.cc:",
            r"Could not find (cuda drivers|TensorRT)",
            r"Cannot dlopen some GPU libraries",
            r"Skipping registering GPU devices",
            r"Unable to register cu\w+ (factory|plugin)",
            r"computation placer already registered",
            # What it was built with.
            r"oneDNN custom operations are on",
            r"This TensorFlow binary is optimized",
            r"To enable the following instructions: ",
            r"All log messages before absl::InitializeLog\(\) is called",
        )
    )
)


def last_words(text: str, most: int) -> str:
    """Returns the last lines that say something, `most` at most; of a text of nothing else, its last ones."""
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(([line for line in lines if not _NOISE.search(line)] or lines)[-most:])
