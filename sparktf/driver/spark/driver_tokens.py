"""The driver's delegation tokens for HDFS under Kerberos, which it hands to the nodes.

On YARN Spark gets new tokens in time, and puts them where the JVM's user is (with a keytab, or a ticket that is
renewed). Where it gets none, or does not renew what it has got at the start, the driver asks for its own with the JVM's
ticket.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from sparktf.driver.gang.site import Handler
from sparktf.driver.spark.jvm_tokens import held_tokens, new_tokens, short_user
from sparktf.driver.spark.login import no_token
from sparktf.driver.spark.masters import master_of
from sparktf.hadoop import HadoopConf
from sparktf.knobs import KNOBS
from sparktf.message import Message
from sparktf.storage.credentials import (
    TOKEN_FILE,
    Credentials,
    KnownTokens,
    SimpleCredentials,
    credentials_here,
    name_service_of,
    own_token_path,
    services_of,
    write_token_file,
)
from sparktf.storage.tokens import Token, edition_of, parse_tokens, token_file
from sparktf.wire.control import Action, AgentHeartbeat

_RENEW = "dfs.namenode.delegation.token.renew-interval"
_DAY_MS = 86_400_000

_STALE = 0.85
"""Fraction of a token's life after which the driver asks for its own; Spark gets another one at three quarters."""

_OLD = 0.25
"""Fraction after which it asks for a job's tokens: nobody renews what a job was given."""

_AGAIN = 0.05
"""Fraction of it after which it asks again, where none was given."""


def credentials_of(spark: SparkSession, hadoop: HadoopConf, now_s: Callable[[], float]) -> Credentials:
    """Returns the credentials of the driver, for its JVM's user: tokens where the cluster wants Kerberos.

    Raises:
        PreflightError: it does, and there is no token to be had.
    """
    if hadoop.is_secure:
        return DriverTokens(spark, hadoop, now_s)
    here, user = credentials_here(), short_user()
    return here if here.user() == user else SimpleCredentials(user)  # spark-submit --proxy-user


def spelled(tokens: Sequence[Token], hadoop: HadoopConf) -> list[Token]:
    """Returns tokens in all spellings of their services: hdfs-native looks for that of the path.

    A path may name one NameNode of a name service, too, which takes the token of the service.
    """
    default = hadoop.default_fs.partition("://")[2].strip("/")
    rpc = [value for key, value in hadoop.properties.items() if key.startswith("dfs.namenode.rpc-address")]
    found = {token.service: token for token in tokens}
    for name in hadoop.name_services:
        if own := found.get(name_service_of(name)):
            for node in hadoop.namenodes(name):
                found.setdefault(node.rpc, own.named(node.rpc))
    for authority in filter(None, (default, *rpc)):
        if authority in found or hadoop.is_name_service(authority):
            continue
        for service in services_of(authority):
            if service in found:
                found.setdefault(authority, found[service].named(authority))
    return list(found.values())


def newest(*held: Sequence[Token]) -> tuple[Token, ...]:
    """Returns of several drivers' tokens those that were given last."""
    return tuple(max(held, key=lambda tokens: max((token.issued_s() for token in tokens), default=-1.0)))


def are_stale(tokens: Sequence[Token], life_s: float, now_s: float, share: float = _STALE) -> bool:
    """Whether there are no tokens, or ones that end soon unless somebody else renews them.

    Args:
        life_s: How long the NameNode takes a token that nobody renews.
        now_s: Seconds since 1970.
        share: Of their life, after which they are.
    """
    return not tokens or now_s - max(token.issued_s() for token in tokens) >= life_s * share


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


def tokens_for_job(credentials: Credentials) -> bytes:
    """Returns young tokens for the tasks of a job: a token file; b"" without Kerberos."""
    return credentials.for_job() if isinstance(credentials, DriverTokens) else b""


@contextmanager
def kept_fresh(credentials: Credentials) -> Iterator[None]:
    """Has the driver get new tokens in time for the duration of a block, in which no agent asks for them."""
    if not isinstance(credentials, DriverTokens):
        yield
        return
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(KNOBS.token_poll_s):
            credentials.content()

    thread = threading.Thread(target=look, name="tokens", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


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
        if master_of(str(spark.sparkContext.master)).runs_in_driver:
            # For what scores, which has no agent that would be handed tokens, and no container with YARN's.
            spark.sparkContext.environment[TOKEN_FILE] = str(self._path)
        self._user = short_user()
        self._looked_s = self._asked_s = float("-inf")
        self._own: tuple[Token, ...] = ()
        self._life_s = int(hadoop.properties.get(_RENEW, _DAY_MS)) / 1000
        self._content = b""
        self._known = KnownTokens()
        try:
            self._look()
        except Py4JError as error:
            raise no_token(error) from error

    def user(self) -> str:
        return self._user

    def token(self, authority: str) -> str | None:
        self._look_again()
        return self._known.url_string(authority)

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

    def for_job(self) -> bytes:
        """Returns tokens that are young, if any can be had: a token file. What there is may serve, too."""
        with suppress(Py4JError, OSError):
            self._look(_OLD)
        return self._content

    def _look_again(self) -> None:
        if self._now_s() - self._looked_s < KNOBS.token_poll_s:
            return
        try:
            self._look()
        except (Py4JError, OSError):
            # The present ones may hold on; if they do not, HDFS says so.
            self._looked_s = self._now_s()

    def _look(self, share: float = _STALE) -> None:
        with self._lock:
            now_s = self._looked_s = self._now_s()
            found = newest(parse_tokens(held_tokens()), self._own)
            if are_stale(found, self._life_s, time.time(), share) and now_s - self._asked_s >= self._life_s * _AGAIN:
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
                self._content, self._known = content, KnownTokens(tokens)
