"""The driver's delegation tokens for HDFS under Kerberos, which it hands to the nodes.

On YARN Spark gets new tokens in time, and puts them where the JVM's user is (with a keytab, or a ticket that is
renewed). Where it gets none, or does not renew what it has got at the start, the driver asks for its own with the JVM's
ticket.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from sparktf.driver.gang.site import Handler
from sparktf.driver.spark.jvm_tokens import held_tokens, new_tokens, short_user
from sparktf.errors import PreflightError
from sparktf.hadoop import HadoopConf
from sparktf.knobs import KNOBS
from sparktf.message import Message
from sparktf.storage.credentials import (
    Credentials,
    credentials_here,
    own_token_path,
    services_of,
    token_for,
    write_token_file,
)
from sparktf.storage.tokens import Token, edition_of, parse_tokens, token_file
from sparktf.told import line_of_error
from sparktf.wire.control import Action, AgentHeartbeat

_RENEW = "dfs.namenode.delegation.token.renew-interval"
_DAY_MS = 86_400_000
_REASONS = (
    ("Client cannot authenticate via", "there is no ticket"),
    ("Failed to find any Kerberos tgt", "there is no ticket, or it has expired"),
    ("Ticket expired", "the ticket has expired"),
    ("Clock skew too great", "the clocks of this machine and the KDC differ by more than five minutes"),
    ("Server not found in Kerberos database", "the ticket's realm does not know this cluster"),
    ("Cannot find KDC for realm", "krb5.conf names no KDC for the cluster's realm"),
    ("Cannot locate KDC", "krb5.conf names no KDC for the ticket's realm"),
)
"""What Hadoop's client and Java say, in plain words."""

_STALE = 0.85
"""Fraction of a token's life after which the driver asks for its own; Spark gets another one at three quarters."""

_AGAIN = 0.05
"""Fraction of it after which it asks again, where none was given."""


def credentials_of(spark: SparkSession, hadoop: HadoopConf, now_s: Callable[[], float]) -> Credentials:
    """Returns the credentials of the driver: tokens where the cluster wants Kerberos.

    Raises:
        PreflightError: it does, and there is no token to be had.
    """
    return DriverTokens(spark, hadoop, now_s) if hadoop.is_secure else credentials_here()


def no_token(error: Exception) -> PreflightError:
    """Returns the refusal of whoever gets no token, with the reason that Hadoop's client gives."""
    said = str(error)
    why = next((words for sign, words in _REASONS if sign in said), line_of_error(error))
    return PreflightError(
        f"Kerberos: HDFS gives no token: {why}: get a ticket with kinit (klist shows it), or give a principal and its "
        "keytab (submit.principal, submit.keytab; spark-submit --principal, --keytab)"
    )


def spelled(tokens: Sequence[Token], hadoop: HadoopConf) -> list[Token]:
    """Returns tokens in all spellings of their services: hdfs-native looks for that of the path."""
    default = hadoop.default_fs.partition("://")[2].strip("/")
    rpc = [value for key, value in hadoop.properties.items() if key.startswith("dfs.namenode.rpc-address")]
    found = {token.service: token for token in tokens}
    for authority in filter(None, (default, *rpc)):
        for service in services_of(authority):
            if service in found:
                found.setdefault(authority, found[service].named(authority))
    return list(found.values())


def newest(*held: Sequence[Token]) -> tuple[Token, ...]:
    """Returns of several drivers' tokens those that were given last."""
    return tuple(max(held, key=lambda tokens: max((token.issued_s() for token in tokens), default=-1.0)))


def are_stale(tokens: Sequence[Token], life_s: float, now_s: float) -> bool:
    """Whether there are no tokens, or ones that end soon unless somebody else renews them.

    Args:
        life_s: How long the NameNode takes a token that nobody renews.
        now_s: Seconds since 1970.
    """
    return not tokens or now_s - max(token.issued_s() for token in tokens) >= life_s * _STALE


def handing_out(credentials: Credentials, handlers: Mapping[Action, Handler]) -> Mapping[Action, Handler]:
    """Returns handlers that answer an agent's heartbeat with the driver's tokens, too, where it has others."""
    beat = handlers.get(Action.AGENT_HEARTBEAT)
    if not isinstance(credentials, DriverTokens) or beat is None:
        return handlers

    def answer(message: AgentHeartbeat) -> Message:
        orders, content = beat.answer(message), credentials.content()
        if edition_of(content) == message.tokens:
            return orders
        return orders.model_copy(update={"tokens": base64.b64encode(content).decode()})

    return {**handlers, Action.AGENT_HEARTBEAT: Handler(AgentHeartbeat, answer)}


class DriverTokens:
    """See `Credentials`: the JVM's tokens, also in a file of this process's own; thread-safe."""

    def __init__(self, spark: SparkSession, hadoop: HadoopConf, now_s: Callable[[], float]) -> None:
        """Gets the first tokens.

        Args:
            now_s: A clock, in seconds.

        Raises:
            PreflightError: there is no token to be had.
        """
        self._spark = spark
        self._hadoop = hadoop
        self._now_s = now_s
        self._lock = threading.Lock()
        # Not in Spark's own temporary folder: the JVM deletes that at its end, and a run's last files come after it.
        self._path = own_token_path(self)
        self._user = short_user()
        self._looked_s = self._asked_s = float("-inf")
        self._own: tuple[Token, ...] = ()
        self._life_s = int(hadoop.properties.get(_RENEW, _DAY_MS)) / 1000
        self._content = b""
        self._tokens: tuple[Token, ...] = ()
        try:
            self._look()
        except Py4JError as error:
            raise no_token(error) from error

    def user(self) -> str:
        return self._user

    def token(self, authority: str) -> str | None:
        self._look_again()
        found = token_for(authority, self._tokens)
        return None if found is None else found.url_string()

    def edition(self) -> str:
        self._look_again()
        return edition_of(self._content)

    def token_file(self) -> str:
        return str(self._path)

    def forget(self) -> None:
        self._looked_s = float("-inf")

    def content(self) -> bytes:
        """Returns the present tokens: a token file, for the nodes."""
        self._look_again()
        return self._content

    def _look_again(self) -> None:
        if self._now_s() - self._looked_s < KNOBS.token_poll_s:
            return
        try:
            self._look()
        except (Py4JError, OSError):
            # The present ones may hold on; if they do not, HDFS says so.
            self._looked_s = self._now_s()

    def _look(self) -> None:
        with self._lock:
            now_s = self._looked_s = self._now_s()
            found = newest(parse_tokens(held_tokens()), self._own)
            if are_stale(found, self._life_s, time.time()) and now_s - self._asked_s >= self._life_s * _AGAIN:
                self._asked_s = now_s
                try:
                    self._own = parse_tokens(new_tokens(self._spark))
                except Py4JError:
                    if not found:
                        raise  # else YARN may renew what there is
                found = newest(found, self._own)
            tokens = spelled(found, self._hadoop)
            content = token_file(tokens)
            if found and content != self._content:
                write_token_file(self._path, content)
                self._content, self._tokens = content, tuple(tokens)
