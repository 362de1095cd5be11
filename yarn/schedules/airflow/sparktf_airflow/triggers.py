"""The trigger that waits for an application of YARN's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from sparktf_airflow.resource_manager import ResourceManager


class ApplicationTrigger(BaseTrigger):  # type: ignore[misc]
    """Fires when an application has ended, with the exit code of its run; or when it took too long, with None.

    All that it knows is in its arguments: another triggerer goes on with it where one is lost.

    Args:
        give_up_at: Seconds since 1970, when the application is ended.
    """

    def __init__(
        self, *, application: str, resource_managers: Sequence[str], user: str, give_up_at: float, poll_s: float
    ) -> None:
        super().__init__()
        self.application = application
        self.resource_managers = list(resource_managers)
        self.user = user
        self.give_up_at = give_up_at
        self.poll_s = poll_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Returns what another process makes it from."""
        names = ("application", "resource_managers", "user", "give_up_at", "poll_s")
        return "sparktf_airflow.triggers.ApplicationTrigger", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Looks at the application until it has ended; a ResourceManager that is away is waited for."""
        yarn = ResourceManager(self.resource_managers, self.user)
        code: int | None = None
        while code is None:
            try:
                code = await asyncio.to_thread(yarn.exit_code, self.application)
            except OSError as error:
                self.log.warning("%s: %s", self.application, error)
            if code is None:
                if time.time() > self.give_up_at:
                    await self.on_kill()
                    break
                await asyncio.sleep(self.poll_s)
        yield TriggerEvent({"application": self.application, "code": code})

    async def on_kill(self) -> None:
        """Ends the application; Airflow calls it when somebody marks or clears the task."""
        try:
            await asyncio.to_thread(ResourceManager(self.resource_managers, self.user).kill, self.application)
        except OSError as error:
            self.log.error("%s could not be killed: %s", self.application, error)
