"""YARN's ResourceManager by its REST API: which application has a tag, how it ended, and ending it."""

from __future__ import annotations

import hashlib
import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

_CALL_S = 10.0
_PLACE_LENGTH, _DIGEST_LENGTH = 67, 32
_ENDED = ("FINISHED", "FAILED", "KILLED")
_UNDER_WAY = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING")
_UNKNOWN = 404
_REFUSED = (400, 401, 403, _UNKNOWN)
_STATUS = re.compile(r"exited with status (\d+)")

DONE, INFRASTRUCTURE, INTERRUPTED = 0, 4, 130


def run_tag(place: str, config: str, options: Sequence[str]) -> str:
    """Returns the tag of a run's applications: with a hash of all that says what is trained, and where to.

    YARN knows tags in small letters, of 100 at most.

    Args:
        place: For people: DAG, task and date.
        config: The configuration's file, output and all; one that is not there sparktf itself tells of.
        options: What changes it.
    """
    digest = hashlib.sha256()
    with suppress(OSError):
        digest.update(Path(config).read_bytes())
    for part in (str(Path(config).absolute()), place, *options):
        digest.update(b"\0" + part.encode())
    return f"{place.lower()[-_PLACE_LENGTH:]}.{digest.hexdigest()[:_DIGEST_LENGTH]}"


class ResourceManager:
    """One cluster's ResourceManagers.

    Args:
        urls: "http://host:8088" of each; with high availability the one that is active answers.
        user: Whose applications these are: the API kills none without a name. Nothing is proven with it: a cluster that
            asks for Kerberos at its web pages answers none of this.
    """

    def __init__(self, urls: Sequence[str], user: str) -> None:
        self._urls = urls
        self._user = user

    def under_way(self, tag: str, name: str) -> str | None:
        """Returns the user's application of a name and a tag that has not ended, the newest if there are several.

        Anybody may give an application any tag: one of another user, or of another name, is not the run's.

        Raises:
            OSError: no ResourceManager answers.
        """
        asked = {"applicationTags": tag, "states": ",".join(_UNDER_WAY), "user": self._user}
        given = (self._call("apps", asked).get("apps") or {}).get("app", [])
        found = [
            app
            for app in given
            if (app.get("user"), app.get("name")) == (self._user, name)
            and tag in str(app.get("applicationTags", "")).split(",")
        ]
        return str(max(found, key=lambda app: app["startedTime"])["id"]) if found else None

    def exit_code(self, application: str) -> int | None:
        """Returns the exit code of an application's run, as `sparktf submit` would; None if it has not ended.

        Raises:
            OSError: no ResourceManager answers.
        """
        try:
            app = self._call(f"apps/{application}")["app"]
        except urllib.error.HTTPError as error:
            if error.code != _UNKNOWN:
                raise
            return INFRASTRUCTURE  # it has been restarted, and has forgotten what it ran
        if app["state"] not in _ENDED:
            return None
        if app["finalStatus"] == "SUCCEEDED":
            return DONE
        if app["finalStatus"] == "KILLED":
            return INTERRUPTED
        told = _STATUS.search(app.get("diagnostics") or "")
        return int(told.group(1)) if told else INFRASTRUCTURE

    def kill(self, application: str) -> None:
        """Ends an application; one that has ended is left as it is.

        Raises:
            OSError: no ResourceManager does it.
        """
        if self.exit_code(application) is None:
            self._call(f"apps/{application}/state", body={"state": "KILLED"})

    def _call(
        self, path: str, query: Mapping[str, str] | None = None, body: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        asked = urlencode({**(query or {}), "user.name": self._user})
        away: OSError = OSError("no ResourceManager is named")
        for url in self._urls:
            request = urllib.request.Request(
                f"{url}/ws/v1/cluster/{path}?{asked}",
                data=json.dumps(body).encode() if body is not None else None,
                headers={"Content-Type": "application/json", "Accept": "application/json"},
                method="PUT" if body is not None else "GET",
            )
            try:
                with urllib.request.urlopen(request, timeout=_CALL_S) as answer:
                    found: dict[str, Any] = json.loads(answer.read() or "{}")
                    return found
            except urllib.error.HTTPError as error:
                if error.code in _REFUSED:
                    raise
                away = error
            except OSError as error:
                away = error
            except ValueError:  # the page of one that stands by
                away = OSError(f"{url} is no active ResourceManager")
        raise away
