"""The base of messages between processes."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """Base of the JSON messages of the control channel: frozen, unknown keys refused."""

    # A loss may become NaN or infinite, and must arrive as that. Errors end in logs, where no secret may stand.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants", hide_input_in_errors=True)
