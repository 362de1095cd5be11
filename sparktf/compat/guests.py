"""TensorFlowOnSpark's programs on a gang: the nodes' names, and how Spark feeds them."""

from __future__ import annotations

import math
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyarrow import flight
from pyspark import RDD
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sparktf.clock import Clock
from sparktf.compat.guest_settings import check_guest_slots, guest_timeouts
from sparktf.driver.attempt.functions import SERVING
from sparktf.driver.code.function_module import name_functions
from sparktf.driver.gang.function_gang import FunctionGang
from sparktf.driver.gang.roster import AgentRecord
from sparktf.driver.spark.agents import SparkAgents
from sparktf.driver.spark.allocation import check_outlives_tasks
from sparktf.driver.spark.application import slots_of
from sparktf.driver.spark.jvm import default_file_system
from sparktf.driver.spark.shipping import code_places, ship_code
from sparktf.driver.spark_site import SparkSite
from sparktf.errors import NodeLostError
from sparktf.executor.agent import AgentSettings
from sparktf.executor.detached_agent import start_beside
from sparktf.executor.guest_feeder import GuestFeedSettings, answer_guests, feed_guests
from sparktf.feed.channel.client import connected
from sparktf.feed.channel.guest_feed import END
from sparktf.told import log_of
from sparktf.wire.flight import call_options
from sparktf.wire.guest import GuestCall, GuestNode, GuestPlace

_TICK_S = 0.2
_CAUSE_S = 5.0
"""Time for a node to report why a feed failed."""
_TELL_S = 60.0
"""Interval of saying who is waited for."""

_log = log_of(__name__)

Main = Callable[[GuestNode, Any], Any]


class Guests(FunctionGang):
    """One gang of guests: `start`, then feed them, then `finish`; `close` in any case."""

    def __init__(
        self,
        spark: SparkSession,
        main: Main,
        template: Mapping[str, Sequence[int]],
        *,
        fed: bool,
        reserve_s: float,
        here: int = 0,
    ) -> None:
        """Starts nothing yet.

        Args:
            main: Runs on each node, in a process of its own.
            template: Name -> numbers of the nodes that have it.
            fed: Whether Spark feeds the nodes that are no servers.
            reserve_s: The time for all nodes to come.
            here: The number of first nodes that run beside the driver.

        Raises:
            PreflightError: there are fewer slots than nodes.
            ConfigError: a setting of Spark's for the nodes is wrong, or the function cannot be sent.
        """
        self._spark = spark
        self._called = main.__name__
        self._template = {number: (job, i) for job, nodes in template.items() for i, number in enumerate(nodes)}
        self._fed = fed
        self._reserve_s = reserve_s
        self._here = here
        self._id = uuid.uuid4().hex
        self._feed_timeout_s = math.inf  # Of the last feed
        self._spark_site = SparkSite(spark)
        self._scratch = Path(str(spark.sparkContext._temp_dir))
        self._code = self._scratch / "functions"
        self._function = name_functions({"main": main}, self._code)["main"]
        conf = dict(spark.sparkContext.getConf().getAll()) | spark.conf.getAll  # also what a notebook has set since
        task_cpus = int(conf.get("spark.task.cpus", "1"))
        if fed:
            check_outlives_tasks(conf)
        check_guest_slots(slots_of(spark), task_cpus, len(self._template) - here, "num_executors")
        limits = guest_timeouts(conf)
        self._after_feed_s = limits.after_feed_s
        super().__init__(self._spark_site, len(self._template), limits.nodes)

    def start(self) -> None:
        """Reserves the nodes and starts the function on each; returns when all of them have begun.

        Raises:
            ReservationError: they did not come in time.
            PreflightError: the function cannot run on an executor.
            SparkTFError: a function failed at once.
        """
        module = self._function.partition(":")[0]
        ship_code(self._spark, {"function": module}, self._code)
        agents = self.reserve(module, self._reserve_s, self._spark_site.serve_functions, self._start_agents)
        self.begin(self._function, self._nodes(agents), agents, str(self._scratch / "guests"))

    def _start_agents(self, settings: AgentSettings) -> _Agents:
        waiting_s = self.roster.rhythm.waiting_s if self._fed else None
        return _Agents(self._spark, len(self._template), self._here, settings, self.site.clock, waiting_s)

    def _nodes(self, agents: Sequence[AgentRecord]) -> list[GuestNode]:
        """Returns the identities of the agents' nodes, by number, which is that of their partition."""
        cluster: dict[str, tuple[str, ...]] = {}
        for number, (job, _) in sorted(self._template.items()):
            cluster[job] = (*cluster.get(job, ()), agents[number].address)
        default_fs = default_file_system(self._spark)
        return [
            GuestNode(
                number=number,
                job=job,
                index=index,
                cluster=cluster,
                default_fs=default_fs.removesuffix("/") if len(default_fs) > len("file://") else default_fs,
                working_dir=str(Path.cwd()),
                is_fed=self._fed and job not in SERVING,
            )
            for number, (job, index) in sorted(self._template.items())
        ]

    # ---- feeding ----

    @property
    def wants_rows(self) -> bool:
        """Whether a node that takes rows still works. Raises the first failure, if any."""
        self.check()
        with self.roster.changed:
            return self.functions.wants_rows

    def info(self) -> list[dict[str, Any]]:
        """Returns the nodes in the form of TensorFlowOnSpark."""
        return told_of(self.functions.guests.values())

    def meta(self) -> dict[str, Any]:
        """Returns the cluster's template and folders, in the form of TensorFlowOnSpark."""
        guests = sorted(self.functions.guests.values(), key=lambda guest: guest.number)
        template: dict[str, list[int]] = {}
        for guest in guests:
            template.setdefault(guest.job, []).append(guest.number)
        places = {"default_fs": guests[0].default_fs, "working_dir": guests[0].working_dir}
        return {"id": self._id, "cluster_template": template, "num_executors": len(guests), **places}

    def feed(self, rows: RDD[Any], timeout_s: float) -> None:
        """Feeds all rows, and returns when they were taken, or no node wants more.

        Args:
            timeout_s: For a function that has rows to take some; it fails otherwise.

        Raises:
            SparkTFError: a node failed, or rows cannot be fed.
        """
        settings = self._feed_settings(timeout_s)

        def feed_partition(split: int, part: Any) -> Any:
            feed_guests(split, part, settings)
            return iter(())

        self._run(lambda: rows.mapPartitionsWithIndex(feed_partition).count())

    def answers(self, rows: RDD[Any], timeout_s: float) -> RDD[Any]:
        """Returns the results of all rows, evaluated lazily; `timeout_s` as in `feed`, also to give results."""
        settings = self._feed_settings(timeout_s)
        return rows.mapPartitionsWithIndex(partial(answer_guests, settings=settings))

    def _feed_settings(self, timeout_s: float) -> GuestFeedSettings:
        self.check()
        self._feed_timeout_s, functions = timeout_s, self.functions
        with self.roster.changed:
            places = functions.places()
        deals = len(places) > 1 and not any(guest.job == "ps" for guest in functions.guests.values())
        return GuestFeedSettings(
            self.access,
            places,
            deals,
            driver_lost_s=self._timeouts.driver_lost,
            feed_timeout_s=timeout_s,
            cause_s=self.roster.rhythm.silence_s + _CAUSE_S,
            function=self._called,
        )

    def _run(self, job: Callable[[], Any]) -> None:
        """Runs a job of Spark's that feeds; ends it at the first failure of a node."""
        context = self._spark.sparkContext
        group = f"sparktf-guests-{uuid.uuid4().hex}"
        runs = threading.Lock()
        is_done = False

        def cancel() -> bool:
            with runs:  # a finished job is not cancelled: Spark may be gone by then
                fails = self.cause is not None and not is_done
                if fails:
                    context.cancelJobGroup(group)
                return not fails and not is_done

        before: Any = context.getLocalProperty("spark.jobGroup.id")
        context.setJobGroup(group, "sparktf feeds guests", interruptOnCancel=False)
        self.clock.every("guests-cancel", _TICK_S, cancel)
        try:
            job()
        except (PySparkException, Py4JError) as error:
            self._explain(error)
        finally:
            with runs:
                is_done = True
            context.setLocalProperty("spark.jobGroup.id", before)
        self.check()

    def _explain(self, error: Exception) -> None:
        """Raises the error of a node for a feed that failed, else Spark's."""
        from sparktf.driver.spark.feeders import explained  # noqa: PLC0415 - only of what failed

        found = explained(error, "feeding the nodes")
        deadline_s = self.clock.now_s() + _CAUSE_S
        with self.roster.changed:
            while self.cause is None and self.clock.now_s() < deadline_s and isinstance(found, NodeLostError):
                self.clock.wait(self.roster.changed, _TICK_S)
        self.check()
        raise found from error

    # ---- the end ----

    def finish(self, grace_s: float = 0.0, timeout_s: float | None = None) -> None:
        """Ends the feed, and waits until all functions but those of servers have returned.

        Args:
            grace_s: For servers to go on after that. A function that is fed may go on as long after its last rows, too,
                if that is longer than the setting for it.
            timeout_s: For all of them to return; None for no limit.

        Raises:
            SparkTFError: one failed; everything is stopped.
        """
        try:
            self.check()
            for place in self.functions.places():
                self._end_feed(place, max(self._after_feed_s, grace_s))
            self.clock.every("guests-wait", _TELL_S, self._tell_who_is_missing)
            self.await_until(lambda: self.functions.is_done, timeout_s)
            if grace_s:
                until_s = self.clock.now_s() + grace_s
                self.await_until(lambda: self.functions.is_over or self.clock.now_s() >= until_s)
        finally:
            self.close()

    def _tell_who_is_missing(self) -> bool:
        """Logs which nodes are waited for; returns whether there are any."""
        with self.roster.changed:
            goes_on = not self.is_closed and self.cause is None and not self.functions.is_done
            if goes_on:
                _log.warning("waiting for functions: %s", self.unreturned)
            return goes_on

    def _end_feed(self, place: GuestPlace, after_s: float) -> None:
        """Tells a node that no more rows come; of one that does not listen, waits for what became of it."""
        access, functions = self.access, self.functions
        header = GuestCall(feed_timeout_s=self._feed_timeout_s, after_feed_s=after_s).model_dump_json().encode()
        node = next(node for node, guest in functions.guests.items() if guest.number == place.number)
        deadline_s = self.clock.now_s() + self.roster.rhythm.silence_s + _CAUSE_S
        while functions.trainers[node].finished is None:
            try:
                with connected(place.data, access.tls) as (client, _):
                    list(client.do_action(flight.Action(END, header), call_options(access.secret, _CAUSE_S)))
                return
            except (flight.FlightError, NodeLostError) as error:
                self.check()
                if self.clock.now_s() > deadline_s:
                    raise NodeLostError(f"{node} cannot be told that no more rows come: {error}") from error
                self.tick()


class _Agents:
    """See `AgentJob`: agents on executors, and the first of them beside the driver."""

    spares = 0

    def __init__(
        self,
        spark: SparkSession,
        count: int,
        here: int,
        settings: AgentSettings,
        clock: Clock,
        waiting_s: float | None,
    ) -> None:
        """Starts them.

        Args:
            here: The number of them beside the driver.
            waiting_s: Between two heartbeats of one that outlives its task; None where none does.
        """
        self._start_beside = partial(_started_beside, here, settings, code_places(spark))
        self._beside = self._start_beside()
        self._clock = clock
        self._heard_s, slots = 2 * (waiting_s or 0.0), slots_of(spark)
        self._job = SparkAgents(spark, count - here, slots, settings, detached=waiting_s is not None, first=here)

    def ended(self) -> str | None:
        """See `AgentJob`."""
        return self._job.ended()

    def restart(self) -> None:
        """See `AgentJob`. Those beside the driver were dismissed with the others."""
        self._job.restart()
        self._beside += self._start_beside()

    def close(self, wait_s: float) -> None:
        """See `AgentJob`."""
        self._job.close(wait_s)
        while any(process.poll() is None for process in self._beside):
            self._clock.sleep(_TICK_S)
        self._clock.sleep(self._heard_s)  # an agent that outlives its task learns of its dismissal by its next beat


def _started_beside(here: int, settings: AgentSettings, code: Sequence[str]) -> list[subprocess.Popen[bytes]]:
    return [start_beside(partition, settings, code) for partition in range(here)]


def told_of(guests: Iterable[GuestNode]) -> list[dict[str, Any]]:
    """Returns nodes in the form of TensorFlowOnSpark, by number; "host" is where others reach them."""
    found: list[dict[str, Any]] = []
    for guest in sorted(guests, key=lambda guest: guest.number):
        host, _, port = guest.cluster[guest.job][guest.index].rpartition(":")
        who = {"executor_id": guest.number, "host": host, "job_name": guest.job, "task_index": guest.index}
        found.append({**who, "port": int(port), "tb_pid": 0, "tb_port": 0})
    return found
