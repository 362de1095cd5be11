"""TensorFlowOnSpark's cluster: a function on each node, fed by Spark or reading by itself."""

from __future__ import annotations

import atexit
import importlib
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark import RDD, SparkContext
from pyspark.sql import SparkSession

from sparktf.compat.guests import Guests
from sparktf.compat.tensorflowonspark import ALIAS, install, write_shim
from sparktf.compat.tensorflowonspark.tf_board import Board
from sparktf.compat.tensorflowonspark.tf_checks import (
    check_main,
    check_mode,
    cluster_template,
    context_of,
    rdd_of,
)
from sparktf.compat.tensorflowonspark.tf_inside import inside_names
from sparktf.compat.tensorflowonspark.tf_node import TFNodeContext
from sparktf.compat.tensorflowonspark.tf_versions import note_habits
from sparktf.driver.spark.application import slots_of
from sparktf.errors import ConfigError, LifecycleError
from sparktf.feed.channel.guest_queue import GuestQueue
from sparktf.process.ports import LOOPBACK
from sparktf.wire.guest import GuestNode

_EPOCHS = 10
"""The meaning of `num_epochs=0` in TensorFlowOnSpark: a large number."""
_STREAM_LOOK_S = 1
_UNWANTED = (
    "no function takes the stream's rows any more, for all have returned: wait for its end by TFCluster.shutdown(ssc), "
    "which stops the StreamingContext then"
)


class InputMode:
    """Who reads the data."""

    TENSORFLOW = 0
    SPARK = 1


class TFCluster:
    """A cluster that runs; made by `run`.

    Attributes:
        cluster_info: A dict for each node: executor_id, host, job_name, task_index, port.
        cluster_meta: The cluster's template, number of nodes and folders; `meta` is the same.
        nodeRDD: The numbers of the nodes.
    """

    def __init__(
        self, sc: SparkContext, guests: Guests, input_mode: int, queues: Sequence[str], log_dir: str | None
    ) -> None:
        self.sc = sc
        self.meta = self.cluster_meta = meta = guests.meta()
        self.cluster_id, self.num_executors = meta["id"], meta["num_executors"]
        self.defaultFS, self.working_dir = meta["default_fs"], meta["working_dir"]
        self.nodeRDD = sc.parallelize(range(self.num_executors), self.num_executors)
        self.server = inside_names("TFCluster")["server"]
        self.input_mode = input_mode
        self.queues = list(queues)
        self.cluster_info = guests.info()
        self._guests = guests
        self._board: Board | None = None
        self._log_dir = log_dir
        self._fed_queue = ""
        self._awaits_stream = False
        atexit.register(self.abandon)

    def train(
        self,
        dataRDD: RDD[Any],
        num_epochs: int = 0,
        feed_timeout: int = 600,
        qname: str = "input",
    ) -> None:
        """Feeds an RDD to the workers for each epoch, and returns when its rows were taken.

        Of a DStream, it feeds each interval's rows once, from when its StreamingContext starts; it returns at once. The
        context ends with the error of a function, and once all functions have returned: `shutdown(ssc)` stops it then,
        and `ssc.awaitTermination()` raises.

        Workers get equally many rows, but for one, however the partitions are; where there are parameter servers, each
        gets the partitions that are computed beside it.

        Args:
            num_epochs: 0 for ten.
            feed_timeout: Seconds for a function that has rows to take some: it has failed otherwise.

        Raises:
            SparkTFError: a function failed; its traceback is in the error's notes.
            ConfigError: the cluster was shut down.
        """
        rows = self._checked_rows(dataRDD, qname, "train")
        if num_epochs < 0:
            raise ConfigError(f"num_epochs is {num_epochs}: give a number of epochs, or 0 for ten")
        if (stream := _stream_of(rows)) is not None:

            def feed_interval(rows: RDD[Any]) -> None:
                if not self._feed_once(rows, feed_timeout) and not self._awaits_stream:
                    raise LifecycleError(_UNWANTED)  # which ends the StreamingContext

            stream.foreachRDD(feed_interval)
            return
        for _ in range(num_epochs or _EPOCHS):
            if not self._feed_once(rows, feed_timeout):
                return

    def inference(
        self,
        dataRDD: RDD[Any],
        feed_timeout: int = 600,
        qname: str = "input",
    ) -> RDD[Any]:
        """Returns the result of each row, in the rows' order, evaluated lazily, before `shutdown`.

        A function that leaves out the result of a row has failed. Of a DStream, it returns one of results.

        Args:
            feed_timeout: Seconds for a function that has rows to take some, or give results: it has failed otherwise.

        Raises:
            SparkTFError: a function failed.
            ConfigError: the cluster was shut down.
        """
        rows = self._checked_rows(dataRDD, qname, "inference")
        if (stream := _stream_of(rows)) is not None:
            return stream.transform(lambda rows: self._guests.answers(rows, feed_timeout))  # type: ignore[no-any-return]
        return self._guests.answers(rows, feed_timeout)

    def shutdown(self, ssc: Any = None, grace_secs: float = 0, timeout: float = 259200) -> None:
        """Ends the feed, waits until all workers have returned, and ends the cluster; a second call does nothing.

        A worker within `join()` of a `tf.distribute.Server` serves, and is not waited for.

        Args:
            ssc: The StreamingContext of DStreams: it is waited for, and stopped once no function wants more rows.
            grace_secs: Time for an evaluator, or other running nodes, to go on.
            timeout: In seconds; -1 for none.

        Raises:
            SparkTFError: a function failed, at any time; its traceback is in the error's notes. Or some have not
                returned in time: it names their nodes.
        """
        if self._guests.is_closed:
            return
        try:
            if ssc is not None:
                self._await_stream(ssc)
            self._guests.finish(grace_secs, timeout if timeout > 0 else None)
        finally:
            self.abandon()

    def tensorboard_url(self) -> str | None:
        """Returns TensorBoard's address; None if it was not started."""
        return None if self._board is None else self._board.url

    def show_board(self) -> None:
        """Starts TensorBoard beside the driver.

        It listens at loopback if all nodes are on this machine, else at the driver's address; at TENSORBOARD_PORT of
        the driver's environment, or any free port.

        Raises:
            PreflightError: it is not installed, or cannot be started.
            ConfigError: TENSORBOARD_PORT is no port.
        """
        one_machine = slots_of(SparkSession(self.sc)).master.one_machine
        host = LOOPBACK if one_machine else str(self.sc.getConf().get("spark.driver.host"))
        self._board = Board(host, self._log_dir or tempfile.mkdtemp(prefix="tensorboard-", dir=str(self.sc._temp_dir)))

    def _checked_rows(self, rows: Any, qname: str, what: str) -> Any:
        """Returns the RDD or DStream that is fed."""
        if self._guests.is_closed:
            raise ConfigError(f"TFCluster.{what}() comes after shutdown(): make another cluster by TFCluster.run()")
        if self.input_mode != InputMode.SPARK:
            raise ConfigError(
                f"TFCluster.{what}() feeds no nodes that read by themselves: give TFCluster.run() "
                "input_mode=InputMode.SPARK"
            )
        if qname not in self.queues:
            raise ConfigError(f"there is no queue {qname!r}: name one of {', '.join(self.queues)}")
        self._fed_queue = self._fed_queue or qname
        if qname != self._fed_queue:
            raise ConfigError(f"this cluster has only the queue {self._fed_queue!r} for rows, not {qname!r}")
        return rdd_of(rows, what)

    def _feed_once(self, rows: RDD[Any], timeout_s: float) -> bool:
        """Feeds rows, if any are wanted; returns whether they were."""
        wants_rows = self._guests.wants_rows
        if wants_rows:
            self._guests.feed(rows, timeout_s)
        return wants_rows

    def _await_stream(self, ssc: Any) -> None:
        """Waits until a StreamingContext has ended, and ends it where a function failed, or none wants more rows."""
        self._awaits_stream = True
        try:
            while not ssc.awaitTerminationOrTimeout(_STREAM_LOOK_S):
                if not self._guests.wants_rows:
                    ssc.stop(stopSparkContext=False, stopGraceFully=True)
        except Exception as error:
            ssc.stop(stopSparkContext=False, stopGraceFully=False)
            self._guests.check()  # the failure of a function comes before that of the interval that was fed
            if _UNWANTED not in str(error):
                raise

    def abandon(self) -> None:
        """Ends the cluster at once: nobody waits for its functions."""
        atexit.unregister(self.abandon)
        if self._board is not None:
            self._board.stop()
            self._board = None
        self._guests.close()


def _stream_of(rows: Any) -> Any:
    """Returns a DStream as it is; None for an RDD."""
    return rows if type(rows).__name__.endswith("DStream") else None


def run(  # noqa: PLR0913, PLR0917 - theirs
    sc: SparkContext,
    map_fun: Callable[[Any, TFNodeContext], Any],
    tf_args: Any,
    num_executors: int,
    num_ps: int = 0,
    tensorboard: bool = False,
    input_mode: int = InputMode.TENSORFLOW,
    log_dir: str | None = None,
    driver_ps_nodes: bool = False,
    master_node: str | None = None,
    reservation_timeout: float = 600,
    queues: Sequence[str] = ("input", "output", "error"),
    eval_node: bool = False,
    release_port: bool = True,
) -> TFCluster:
    """Reserves the nodes, and runs `map_fun(tf_args, ctx)` on each, in a process of its own.

    Args:
        sc: Also a SparkSession.
        num_executors: Nodes in all: parameter servers, an evaluator and a master among them.
        tensorboard: Start TensorBoard, beside the driver.
        log_dir: For TensorBoard.
        driver_ps_nodes: Parameter servers run beside the driver.
        master_node: "chief" or "master": a node has that name, and TF_CONFIG is set on all.
        reservation_timeout: Seconds for all nodes to come.
        eval_node: One node is an evaluator.
        release_port: False gives each function a socket at its node's port, `ctx.tmp_socket`, until it calls
            `ctx.release_port()`. TensorFlow can take the port at any time.

    Raises:
        ConfigError: there are too few nodes, or settings do not go together.
        PreflightError: there are fewer slots than nodes.
        ReservationError: not all nodes came in time.
        SparkTFError: a function failed at once.
    """
    sc = context_of(sc)
    check_mode(input_mode)
    fed = input_mode == InputMode.SPARK
    if driver_ps_nodes and fed:
        raise ConfigError("driver_ps_nodes needs input_mode=InputMode.TENSORFLOW: give it, or leave the former out")
    if eval_node and fed:
        raise ConfigError("eval_node needs input_mode=InputMode.TENSORFLOW: give it, or leave the former out")
    template = cluster_template(num_executors, num_ps, master_node, eval_node=eval_node)
    here = num_ps if driver_ps_nodes else 0
    context = TFNodeContext.of if release_port else TFNodeContext.holding
    guests = make_guests(
        sc, map_fun, tf_args, template, fed=fed, reserve_s=reservation_timeout, here=here, context=context
    )
    cluster = TFCluster(sc, guests, input_mode, queues, log_dir)
    if tensorboard:
        cluster.show_board()
    return cluster


def make_guests(
    sc: SparkContext,
    function: Callable[[Any, TFNodeContext], Any],
    args: Any,
    template: dict[str, list[int]],
    *,
    fed: bool,
    reserve_s: float,
    here: int = 0,
    context: Callable[[GuestNode, GuestQueue | None], TFNodeContext] = TFNodeContext.of,
) -> Guests:
    """Returns functions that have begun on the nodes.

    Args:
        context: Makes the context of a function.
        here: The number of first nodes that run beside the driver.
    """
    check_main(function)
    shim = Path(str(sc._temp_dir)) / "sparktf-tensorflowonspark.zip"
    if not shim.exists():
        sc.addPyFile(str(write_shim(shim)))

    def main(node: GuestNode, queue: GuestQueue | None) -> None:
        install()
        importlib.import_module(ALIAS)  # which shows what the function logs
        if isinstance(args, list):
            sys.argv = args
        try:
            function(args, context(node, queue))
        except Exception as error:
            note_habits(error)
            raise

    main.__name__ = getattr(function, "__name__", type(function).__name__)
    guests = Guests(SparkSession(sc), main, template, fed=fed, reserve_s=reserve_s, here=here)
    try:
        guests.start()
    except BaseException:
        guests.close()
        raise
    return guests
