"""What the sections of the configuration have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict

from sparktf.redaction import redacted


class Section(BaseModel):
    """A frozen section that refuses unknown keys, and whose errors do not show what stood there: it may be a secret."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        return ((key, redacted(value) if isinstance(value, dict) else value) for key, value in super().__repr_args__())
