"""Functions of guests on executors: reserved as a gang, each in a process of its own, fed by Spark, and watched."""

from __future__ import annotations

import subprocess
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyarrow import flight
from pyspark import RDD
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sparktf.clock import ListeningClock
from sparktf.compat.guest_books import ATTEMPT, SERVING, GuestBooks
from sparktf.config.job import JobConfig
from sparktf.driver.attempt.health import rhythm_of
from sparktf.driver.code.function_module import name_functions
from sparktf.driver.gang.roster import AgentRecord, Roster
from sparktf.driver.gang.site import Handler
from sparktf.driver.spark.agents import SparkAgents
from sparktf.driver.spark.application import slots_of
from sparktf.driver.spark.jvm import default_file_system
from sparktf.driver.spark.shipping import code_places
from sparktf.driver.spark_site import SparkSite
from sparktf.errors import NodeLostError, ReservationError
from sparktf.executor.agent import AgentSettings
from sparktf.executor.detached_agent import start_beside
from sparktf.executor.guest_feeder import GuestFeedSettings, answer_guests, feed_guests
from sparktf.feed.channel.client import connected
from sparktf.feed.channel.guest_feed import END
from sparktf.process.ports import LOOPBACK
from sparktf.topology import ClusterSpec, NodeId, role_of_job
from sparktf.wire.control import Action, AgentHeartbeat, Failed, Heartbeat, Ready, Registration, TrainerExited
from sparktf.wire.flight import call_options
from sparktf.wire.guest import DealRequest, GuestNode, GuestPlace
from sparktf.wire.trainer_spec import Function
from sparktf.wire.uploads import Finished

_TICK_S = 0.2
_CAUSE_S = 5.0
"""So long a failed feed waits for what a node has to say of it."""

Main = Callable[[GuestNode, Any], Any]


class Guests:
    """One gang of guests: `start`, then feed them, then `finish`; `close` in any case.

    What fails first is raised by whatever is called next, and by what is called already.
    """

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
            reserve_s: So long all nodes have to come.
            here: So many of the first nodes run beside the driver.
        """
        self._spark = spark
        self._template = {number: (job, i) for job, nodes in template.items() for i, number in enumerate(nodes)}
        self._fed = fed
        self._reserve_s = reserve_s
        self._here = here
        self._beside: list[subprocess.Popen[bytes]] = []
        self._site = SparkSite(spark)
        scratch = Path(str(spark.sparkContext._temp_dir))
        named = name_functions({"main": main}, scratch / "functions")
        self._config = JobConfig.model_validate(
            {
                "name": "guest",
                "model": named["main"],
                "data": {"inputs": {"x": "x"}, "targets": {"y": "y"}},
                "cluster": {"workers": len(self._template), "nursery": "off"},
                "output": {"path": str(scratch / "guests")},
                "train": {"batch_size": max(len(self._template), 1)},
            }
        ).in_folder(scratch / "functions")
        rhythm = rhythm_of(self._config)
        self._clock = ListeningClock(self._site.clock)
        waits = self._site.duplicates_wait
        self.roster = Roster(self._clock.now_s, rhythm.silence_s, duplicates_wait=waits, rhythm=rhythm)
        self.books = GuestBooks(self.roster, self._clock, rhythm.silence_s)
        self._closed = False
        self._server: Any = None
        self._job: SparkAgents | None = None

    # ---- reserving ----

    def start(self) -> None:
        """Reserves the nodes and starts the function on each; returns when all of them have begun.

        Raises:
            ReservationError: they did not come in time.
            SparkTFError: a function failed at once.
        """
        handlers = {
            Action.REGISTER: Handler(Registration, self.roster.register),
            Action.AGENT_HEARTBEAT: Handler(AgentHeartbeat, self.roster.heartbeat),
            Action.TRAINER_EXITED: Handler(TrainerExited, self.books.exited),
            Action.READY: Handler(Ready, self.books.ready),
            Action.HEARTBEAT: Handler(Heartbeat, self.books.heartbeat),
            Action.FAILED: Handler(Failed, self.books.failed),
            Action.FINISHED: Handler(Finished, self.books.finished),
            Action.DEAL: Handler(DealRequest, self.books.deal),
        }
        self._site.ship_code(self._config)
        self._server = self._site.serve(self._config, handlers)
        settings = AgentSettings(
            access=self._server.access(),
            host=LOOPBACK if self._site.one_machine else "",
            node_ports=self._config.cluster.node_ports,
            model_module=self._config.model_module,
            heartbeat_s=self._config.timeouts.heartbeat,
            driver_lost_s=self._config.timeouts.driver_lost,
            nursery="off",
        )
        count = len(self._template)
        code = code_places(self._spark)
        self._beside = [start_beside(partition, settings, code) for partition in range(self._here)]
        slots = slots_of(self._spark)
        self._job = SparkAgents(self._spark, count - self._here, slots, settings, detached=self._fed, first=self._here)
        self._begin(self._gathered(count))
        self._clock.beside("guests", self._watched)
        self._await(lambda: all(t.ready is not None for t in self.books.trainers.values()), self._config.timeouts.start)

    def _gathered(self, count: int) -> list[AgentRecord]:
        deadline_s = self._clock.now_s() + self._reserve_s
        while True:
            self.roster.sweep()
            here = [agent for agent in self.roster.here() if agent.is_free]
            if len({agent.registration.partition for agent in here}) >= count:
                return here
            reason = self._job.ended() if self._job is not None else None
            if reason is not None or self._clock.now_s() > deadline_s:
                missing = sorted(set(range(count)) - {agent.registration.partition for agent in here})
                why = f": {reason}" if reason else ""
                raise ReservationError(
                    f"{len(here)} of {count} nodes came within {self._reserve_s:g} s; missing: nodes {missing} on "
                    f"{self._site.place}{why} (are there as many executors, or free slots?)"
                )
            with self.roster.changed:
                self._clock.wait(self.roster.changed, _TICK_S)

    def _begin(self, agents: Sequence[AgentRecord]) -> None:
        by_partition = {agent.registration.partition: agent for agent in agents}
        names = self._site.file_systems
        cluster: dict[str, tuple[str, ...]] = {}
        for number, (job, _) in sorted(self._template.items()):
            cluster[job] = (*cluster.get(job, ()), by_partition[number].address)
        nodes = {number: NodeId(role=role_of_job(job), index=i) for number, (job, i) in self._template.items()}
        spec_cluster = ClusterSpec.at({nodes[number]: agent.address for number, agent in by_partition.items()})
        default_fs = default_file_system(self._spark)
        now_s = self._clock.now_s()
        specs = []
        for number, (job, index) in self._template.items():
            node, agent = nodes[number], by_partition[number]
            guest = GuestNode(
                number=number,
                job=job,
                index=index,
                cluster=cluster,
                default_fs=default_fs.removesuffix("/") if len(default_fs) > len("file://") else default_fs,
                working_dir=str(Path.cwd()),
                is_fed=self._fed and job not in SERVING,
            )
            self.books.add(node, guest, agent, now_s)
            spec = Function(
                run_id=self._spark.sparkContext.applicationId,
                run_root=self._config.output.path,
                attempt=ATTEMPT,
                node=node,
                cluster=spec_cluster,
                hadoop=names.hadoop.for_nodes(),
                name=self._config.name,
                function=self._config.model,
                guest=guest,
                timeouts=self._config.timeouts,
                node_ports=self._config.cluster.node_ports,
            )
            specs.append((agent.id, spec))
        with self.roster.changed:
            self.roster.start(specs)

    # ---- watching ----

    def _watched(self) -> None:
        """Notices what is lost, and stops everything at the first failure.

        Books that fail are a defect, and the books' own time limits end the gang.
        """
        while not self._closed:
            with self.roster.changed:
                self.books.look(self._clock.now_s())
                self._clock.wait(self.roster.changed, _TICK_S)

    def _await(self, done: Callable[[], bool], limit_s: float | None) -> None:
        """Waits until something is so.

        Raises:
            SparkTFError: a node failed before.
            NodeLostError: the time is over.
        """
        deadline_s = None if limit_s is None else self._clock.now_s() + limit_s
        with self.roster.changed:
            while not done():
                self.check()
                if deadline_s is not None and self._clock.now_s() > deadline_s:
                    raise NodeLostError(f"the nodes did not come so far within {limit_s:g} s")
                self._clock.wait(self.roster.changed, _TICK_S)
        self.check()

    def check(self) -> None:
        """Raises the error of what failed first, if anything has."""
        self.books.check()

    # ---- feeding ----

    @property
    def wants_rows(self) -> bool:
        """Whether a node still works that takes rows. Raises what `check` does."""
        with self.roster.changed:
            self.check()
            return self.books.wants_rows

    def info(self) -> list[dict[str, Any]]:
        """Returns who the nodes are, as TensorFlowOnSpark tells it."""
        return self.books.info()

    def feed(self, rows: RDD[Any]) -> None:
        """Feeds all rows, and returns when they were taken, or nobody wants more.

        Raises:
            SparkTFError: a node failed, or rows cannot be fed.
        """
        settings = self._feed_settings()

        def feed_partition(split: int, part: Any) -> Any:
            feed_guests(split, part, settings)
            return iter(())

        self._run(lambda: rows.mapPartitionsWithIndex(feed_partition).count())

    def answers(self, rows: RDD[Any]) -> RDD[Any]:
        """Returns the results of all rows, computed when someone asks for them."""
        settings = self._feed_settings()
        return rows.mapPartitionsWithIndex(partial(_answers, settings=settings))

    def _feed_settings(self) -> GuestFeedSettings:
        self.check()
        jobs = [guest.job for guest in self.books.guests.values()]
        places = self.books.places()
        deals = len(places) > 1 and "ps" not in jobs
        return GuestFeedSettings(self._server.access(), places, deals, self._config.timeouts.driver_lost)

    def _run(self, job: Callable[[], Any]) -> None:
        """Runs a job of Spark's that feeds; ends it at the first failure of a node."""
        context = self._spark.sparkContext
        group = f"sparktf-guests-{uuid.uuid4().hex}"
        runs = threading.Lock()
        is_done = False

        def cancel() -> bool:
            with runs:  # what is done is not cancelled: Spark may be gone by then
                fails = self.books.failure is not None and not is_done
                if fails:
                    context.cancelJobGroup(group)
                return not fails and not is_done

        before: Any = context.getLocalProperty("spark.jobGroup.id")
        context.setJobGroup(group, "sparktf feeds guests", interruptOnCancel=False)
        self._clock.every("guests-cancel", _TICK_S, cancel)
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
        """Raises what a node has to say of a feed that failed, else what Spark says."""
        from sparktf.driver.spark.feeders import explained  # noqa: PLC0415 - only of what failed

        deadline_s = self._clock.now_s() + _CAUSE_S
        found = explained(error, "feeding the nodes")
        with self.roster.changed:
            while self.books.failure is None and self._clock.now_s() < deadline_s and isinstance(found, NodeLostError):
                self._clock.wait(self.roster.changed, _TICK_S)
        self.check()
        raise found from error

    # ---- the end ----

    def finish(self, grace_s: float = 0.0, timeout_s: float | None = None) -> None:
        """Says that no more rows come, and waits until all functions but those of servers have returned.

        Raises:
            SparkTFError: one failed; everything is stopped.
        """
        try:
            self.check()
            for place in self.books.places():
                self._end_feed(place)
            working = [node for node, guest in self.books.guests.items() if guest.job not in SERVING]
            self._await(lambda: all(self.books.trainers[node].finished is not None for node in working), timeout_s)
            if grace_s:
                self._await_failure(grace_s)
        finally:
            self.close()

    def _await_failure(self, grace_s: float) -> None:
        """Waits for servers that still do something; what fails meanwhile is raised."""
        deadline_s = self._clock.now_s() + grace_s
        with self.roster.changed:
            while self._clock.now_s() < deadline_s and self.books.failure is None:
                if all(t.finished is not None for t in self.books.trainers.values()):
                    break
                self._clock.wait(self.roster.changed, _TICK_S)
        self.check()

    def _end_feed(self, place: GuestPlace) -> None:
        access = self._server.access()
        try:
            with connected(place.data, access.tls) as (client, _):
                list(client.do_action(flight.Action(END, b""), call_options(access.secret)))
        except (flight.FlightError, NodeLostError) as error:
            trainer = next(t for n, t in self.books.trainers.items() if self.books.guests[n].number == place.number)
            if trainer.finished is None:
                self._await(lambda: trainer.finished is not None, _CAUSE_S)
                raise NodeLostError(f"node {place.number} cannot be told that no more rows come: {error}") from error

    def close(self) -> None:
        """Stops whatever runs, and gives the executors back."""
        if self._closed:
            return
        limit_s = self._config.timeouts.stop + rhythm_of(self._config).silence_s
        deadline_s = self._clock.now_s() + limit_s
        with self.roster.changed:
            self.books.stop()
            while not self.roster.is_quiet() and self._clock.now_s() < deadline_s:
                self.roster.sweep()
                self._clock.wait(self.roster.changed, _TICK_S)
            self._closed = True
            self.roster.dismiss()
        if self._job is not None:
            self._job.close(limit_s)
        while any(process.poll() is None for process in self._beside):
            self._clock.sleep(_TICK_S)
        self._await_homeward(deadline_s)
        if self._server is not None:
            server, self._server = self._server, None
            server.withdraw()
            self._site.clock.beside("control-shutdown", server.shutdown)

    def _await_homeward(self, deadline_s: float) -> None:
        """Waits until detached agents have heard that they are dismissed."""
        if self._fed:
            self._clock.sleep(min(rhythm_of(self._config).waiting_s * 2, max(deadline_s - self._clock.now_s(), 0.0)))


def _answers(split: int, rows: Any, settings: GuestFeedSettings) -> Any:
    return answer_guests(split, rows, settings)
