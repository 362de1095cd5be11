"""The calling side of the control channel: Arrow Flight actions with JSON bodies."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from pyarrow import flight
from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    stop_after_delay,
    stop_all,
    wait_random_exponential,
)

from sparktf.errors import ControlError, DriverLostError, RefusedError
from sparktf.knobs import KNOBS
from sparktf.message import Message
from sparktf.told import line_of_error
from sparktf.wire.control import Action
from sparktf.wire.flight import call_options, client_options
from sparktf.wire.security import ControlAccess
from sparktf.wire.sender import NodeMessage

_GONE_WORDS = ("onnection refused", "No such file or directory", "Not a directory")

_Answer = TypeVar("_Answer", bound=Message)


class Numbers:
    """Numbers the messages of one process, so that the driver recognizes repeated ones: see `NodeMessage.number`.

    Each action has one message in flight at a time: of two, the driver would refuse the one that arrives second.
    """

    def __init__(self) -> None:
        self._sent = dict.fromkeys(Action, 0)
        self._locks = {action: threading.Lock() for action in Action}

    @contextmanager
    def numbered(self, action: Action, message: Message) -> Iterator[Message]:
        """Gives a node's message its number, which it keeps when it is sent again."""
        if not isinstance(message, NodeMessage):
            yield message
            return
        with self._locks[action]:
            self._sent[action] += 1
            yield message.model_copy(update={"number": self._sent[action]})


class ControlClient:
    """Calls the driver's control server. Thread-safe; every call has a deadline."""

    def __init__(self, access: ControlAccess) -> None:
        self.access = access
        self._numbers = Numbers()
        self._client = flight.FlightClient(access.location, **client_options(access.tls))
        self._secret = access.secret
        self._location = access.location

    def call(self, action: Action, request: Message, answer: type[_Answer], *, timeout_s: float = 10.0) -> _Answer:
        """Sends one request and returns its answer.

        Raises:
            DriverLostError: the server cannot be reached, or does not answer in time.
            RefusedError: wrong secret or certificate, or a request the server does not accept.
            ControlError: the server failed.
        """
        options = call_options(self._secret, timeout_s)
        # The reader fills in defaults, which are half of a heartbeat and of a coordinator's report about its workers.
        body = flight.Action(action.value, request.model_dump_json(exclude_defaults=True).encode())
        try:
            results = list(self._client.do_action(body, options))
        except (flight.FlightUnauthenticatedError, flight.FlightUnauthorizedError) as e:
            raise RefusedError(f"the driver at {self._location} refused {action}: {_reason(e)}") from e
        except (flight.FlightUnavailableError, flight.FlightTimedOutError) as e:
            raise DriverLostError(f"no answer to {action} from the driver at {self._location}: {_reason(e)}") from e
        except (flight.FlightError, OSError) as e:
            raise ControlError(f"{action} failed at the driver at {self._location}: {_reason(e)}") from e
        return answer.model_validate_json(results[0].body.to_pybytes())

    def call_patiently(self, action: Action, request: Message, answer: type[_Answer], *, patience_s: float) -> _Answer:
        """Like `call`, but retries with growing pauses for `patience_s` while the driver cannot be reached.

        It calls at least twice: the first call fails if this process was stopped for longer than that.
        """
        retrying = Retrying(
            retry=retry_if_exception_type(DriverLostError),
            stop=stop_all(stop_after_delay(patience_s), stop_after_attempt(2)),
            wait=wait_random_exponential(multiplier=0.1, max=2.0),
            reraise=True,
        )
        with self._numbers.numbered(action, request) as numbered:
            said: _Answer = retrying(self.call, action, numbered, answer)
        return said

    def close(self) -> None:
        self._client.close()


class Silence:
    """The time for which the driver has not answered a caller that keeps trying."""

    def __init__(self, driver_lost_s: float) -> None:
        """Args: driver_lost_s: Silence after which the driver counts as lost; shorter if its process is gone."""
        self._driver_lost_s = driver_lost_s
        self._since_s: float | None = None

    def end(self) -> None:
        self._since_s = None

    def is_too_long(self, error: ControlError, *, began_s: float, ended_s: float, timeout_s: float) -> bool:
        """Notes a failed call, and returns whether the driver counts as lost.

        It does if the call *began* after that much silence: earlier calls prove nothing. A call that returns long after
        its deadline says nothing about the driver: the caller was stopped, because it was frozen or because TensorFlow
        held Python's lock, as `MultiWorkerMirroredStrategy()` does while a peer is missing.
        """
        if ended_s - began_s > timeout_s + KNOBS.late_s:
            return False
        if self._since_s is None:
            self._since_s = began_s
        patience_s = min(KNOBS.driver_gone_s, self._driver_lost_s) if is_gone(error) else self._driver_lost_s
        return began_s - self._since_s > patience_s


def is_gone(error: ControlError) -> bool:
    """Whether a failed call shows that the driver's process is gone.

    A refused connection or a missing socket does: no other process will ever listen at its address.
    """
    return isinstance(error, DriverLostError) and any(words in str(error) for words in _GONE_WORDS)


def _reason(error: Exception) -> str:
    """Returns the first line of a Flight error, without gRPC's debug context."""
    return line_of_error(error).partition(" gRPC client debug context:")[0].rstrip(". ")
