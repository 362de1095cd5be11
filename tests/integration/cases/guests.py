"""Programs in the style of TensorFlowOnSpark's own examples; what they return, a test looks at."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.ml.linalg import Vectors
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.streaming import StreamingContext

from sparktf.compat import tensorflowonspark  # noqa: F401 - the one line that a script gets
from sparktf.errors import ConfigError, SparkTFError

from tensorflowonspark import TFCluster, TFNode, TFParallel  # isort: skip

from tensorflowonspark import pipeline as TFPipeline

SPARK, TENSORFLOW = 1, 0
SIZES = (700, 0, 3, 1, 0, 296)


def uneven(spark: SparkSession) -> Any:
    """Returns rows (id, a list, a text, maybe nothing) in partitions of different sizes, two of them empty."""

    def rows(partition: int, _: Any) -> Any:
        first = sum(SIZES[:partition])
        for i in range(first, first + SIZES[partition]):
            yield (i, [i / 2, float(i)], f"é{i}", None if i % 3 else i)

    return spark.sparkContext.parallelize(range(len(SIZES)), len(SIZES)).mapPartitionsWithIndex(rows)


def noted(args: dict[str, str], ctx: Any) -> None:
    """Writes down all rows, in batches of different sizes, and who the node is."""
    feed = ctx.get_data_feed()
    rows: list[Any] = []
    sizes: list[int] = []
    while not feed.should_stop():
        batch = feed.next_batch(1 + len(sizes) % 64)
        sizes.append(len(batch))
        rows += batch
    assert all(isinstance(row, tuple) and isinstance(row[1], list) for row in rows)
    told = {"job": ctx.job_name, "index": ctx.task_index, "workers": ctx.num_workers, "pid": os.getpid(), "rows": rows}
    told |= {"config": json.loads(os.environ.get("TF_CONFIG", "null")), "path": ctx.absolute_path("x")}
    Path(args["folder"], f"{ctx.executor_id}.json").write_text(json.dumps(told))
    sys.exit()  # as scripts do


def feeding(spark: SparkSession, folder: str) -> DataFrame:
    """Feeds uneven partitions twice, to a chief and a worker."""
    cluster = TFCluster.run(
        spark.sparkContext, noted, {"folder": folder}, 2, 0, input_mode=TFCluster.InputMode.SPARK, master_node="chief"
    )
    cluster.train(uneven(spark), 2)
    assert cluster.nodeRDD.collect() == [0, 1]
    assert cluster.cluster_meta["cluster_template"] == {"chief": [0], "worker": [1]}
    assert cluster.defaultFS == "file://"
    cluster.shutdown()
    return spark.createDataFrame([(json.dumps(cluster.cluster_info),)], "told string")


def patient(args: dict[str, str], ctx: Any) -> None:
    """Writes down the ids of all rows, once it is told to take any."""
    folder = Path(args["folder"])
    (folder / f"{ctx.executor_id}.begun").touch()
    while not (folder / "go").exists():
        time.sleep(0.05)
    feed, ids = ctx.get_data_feed(), []
    while not feed.should_stop():
        ids += [row[0] for row in feed.next_batch(50)]
    (folder / f"{ctx.executor_id}.json").write_text(json.dumps(ids))


def waiting(spark: SparkSession, folder: str) -> DataFrame:
    """Feeds a chief and a worker, who wait until somebody tells them to take rows."""
    cluster = TFCluster.run(
        spark.sparkContext, patient, {"folder": folder}, 2, 0, input_mode=TFCluster.InputMode.SPARK, master_node="chief"
    )
    cluster.train(uneven(spark), 1)
    cluster.shutdown()
    return spark.createDataFrame([("done",)], "told string")


def trained(args: dict[str, Any], ctx: Any) -> None:
    """Trains a line with MultiWorkerMirroredStrategy, as long as there are rows."""
    import numpy as np
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    feed = TFNode.DataFeed(ctx.mgr)
    with strategy.scope():
        weights = tf.Variable(tf.zeros((2, 1)))

    def rows() -> Any:
        while not feed.should_stop():
            batch = feed.next_batch(1)
            if not batch:
                return
            yield np.array(batch[0][1], np.float32), np.float32(batch[0][0])

    spec = (tf.TensorSpec((2,), tf.float32), tf.TensorSpec((), tf.float32))
    data = tf.data.Dataset.from_generator(rows, output_signature=spec).batch(25)

    @tf.function  # type: ignore[untyped-decorator]
    def step(x: Any, y: Any) -> Any:
        def replica(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((tf.squeeze(x @ weights, 1) - y) ** 2)
            gradient = tape.gradient(loss, weights)
            together = tf.distribute.get_replica_context().all_reduce("MEAN", gradient)
            weights.assign_sub(1e-7 * together)
            return loss

        return strategy.run(replica, args=(x, y))

    steps = 0
    for x, y in data:
        step(x, y)
        steps += 1
    told = {"steps": steps, "weights": weights.numpy().ravel().tolist()}
    Path(args["folder"], f"{ctx.executor_id}.json").write_text(json.dumps(told))


def synchronous(spark: SparkSession, folder: str) -> DataFrame:
    """Trains synchronously on partitions of different sizes, of an interval of a stream: workers make as many steps.

    Returns what is said before to a row that cannot be encoded; the cluster goes on.
    """
    streams: Any = StreamingContext(spark.sparkContext, 1)
    rows, fed = streams.queueStream([uneven(spark)]), threading.Event()
    cluster = TFCluster.run(
        spark.sparkContext, trained, {"folder": folder}, 2, 0, input_mode=TFCluster.InputMode.SPARK, master_node="chief"
    )
    said = ""
    try:
        cluster.train(spark.sparkContext.parallelize([(1, "a"), (2, {"at": Path("b")})], 1), 1)
    except SparkTFError as error:
        said = str(error)
    cluster.train(rows)
    rows.foreachRDD(lambda _: fed.set())  # after the rows of the same interval were fed
    streams.start()
    threading.Thread(target=lambda: fed.wait() and streams.stop(stopSparkContext=False)).start()
    cluster.shutdown(streams, grace_secs=1)
    return spark.createDataFrame([(said,)], "said string")


def squared(args: list[str], ctx: Any) -> None:
    """Answers with squares, and to a row of a DataFrame with itself; the last argument is the program's own."""
    assert sys.argv == args
    feed = ctx.get_data_feed(train_mode=False)
    while not feed.should_stop():
        batch = feed.next_batch(100)
        rows = [row for row in batch if isinstance(row, Row)]
        found: list[Any] = [(row["id"], Row(**row.asDict(), norm=float(row["of"]["features"].norm(2)))) for row in rows]
        feed.batch_results(found or [(row[0], row[0] ** 2, row[2]) for row in batch])


def inference(spark: SparkSession) -> DataFrame:
    """Returns what a cluster answers to uneven partitions. Rows of a DataFrame come and go as they are."""
    args, mode, queues = ["--name", "value"], TFCluster.InputMode.SPARK, ["input", "more", "output", "error"]
    cluster = TFCluster.run(spark.sparkContext, squared, args, 2, 0, False, mode, master_node="chief", queues=queues)
    found = cluster.inference(uneven(spark)).collect()
    nested = [
        Row(id=i, of=Row(features=Vectors.dense([3.0, 4.0 * (i % 2)]), day=date(2020, 1, 1 + i))) for i in range(9)
    ]
    answered = cluster.inference(spark.createDataFrame(nested).repartition(3).rdd).collect()
    expected = [Row(**row.asDict(), norm=5.0 if row["id"] % 2 else 3.0) for row in nested]
    assert [repr(row) for _, row in sorted(answered)] == [repr(row) for row in expected], answered
    refused = ""
    try:
        cluster.inference(uneven(spark), qname="more")
    except ConfigError as error:
        refused = str(error)
    assert refused == "this cluster has only the queue 'input' for rows, not 'more'", refused
    cluster.shutdown()
    return spark.createDataFrame(found, "id bigint, squared bigint, text string")


def served(args: dict[str, Any], ctx: Any) -> None:
    """Trains over a parameter server, as TensorFlow's tutorial does: the chief has the worker make updates."""
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if ctx.job_name in ("worker", "ps"):
        server = tf.distribute.Server(
            resolver.cluster_spec(), job_name=ctx.job_name, task_index=ctx.task_index, protocol="grpc", start=True
        )
        server.join()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        total = tf.Variable(0.0)

    @tf.function  # type: ignore[untyped-decorator]
    def update() -> Any:
        total.assign_add(1.0)
        return 0

    for _ in range(20):
        coordinator.schedule(update)
    coordinator.join()
    Path(args["folder"], "total").write_text(str(float(total.numpy())))


def servers(spark: SparkSession, folder: str) -> DataFrame:
    """Trains over a parameter server and a worker that never leave `join()`: nobody waits for them."""
    cluster = TFCluster.run(
        spark.sparkContext,
        served,
        {"folder": folder},
        3,
        1,
        input_mode=TFCluster.InputMode.TENSORFLOW,
        master_node="chief",
    )
    cluster.shutdown()
    return spark.createDataFrame([(json.dumps(cluster.cluster_info),)], "told string")


def leaving(args: dict[str, str], ctx: Any) -> None:
    """Answers full batches, and leaves as it is told to where rows are left over."""
    feed = ctx.get_data_feed(train_mode=False)
    if args["how"] == "takes nothing":
        time.sleep(1e6)
    while not feed.should_stop():
        batch = feed.next_batch(10)
        if len(batch) == 10:
            feed.batch_results([row[0] for row in batch])
        elif batch and args["how"] == "exits":
            os._exit(3)
        elif batch and args["how"].startswith("SIG"):
            os.kill(os.getpid(), signal.Signals[args["how"]])
    if args["how"].startswith("stays"):
        time.sleep(1e6)


def said_of(call: Callable[[], Any]) -> str:
    """Returns what is said where a call raises; "" where it does not."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - also Spark's
        return f"{type(error).__name__}: {error}"
    return ""


def ends(spark: SparkSession) -> DataFrame:
    """Returns what is said, and where, of functions that leave a result out, their process, or nobody in peace."""
    context, said = spark.sparkContext, []
    rows = context.parallelize([(i,) for i in range(25)], 1)
    refused = said_of(lambda: TFCluster.run(context, leaving, {}, 7, 0, input_mode=SPARK))
    said.append(("run", "refused", refused))
    for how in ("leaves out", "exits", "stays"):
        cluster = TFCluster.run(context, leaving, {"how": how}, 2, 0, input_mode=SPARK)
        found = cluster.inference(rows if how != "stays" else context.parallelize([(i,) for i in range(20)], 1))
        calls: dict[str, Callable[[], Any]] = {
            "collect": found.collect,
            "shutdown": lambda cluster=cluster, how=how: cluster.shutdown(  # type: ignore[misc]
                timeout=1 if how == "stays" else 60
            ),
            "again": cluster.shutdown,
            "train": lambda cluster=cluster: cluster.train(rows),  # type: ignore[misc]
            "inference": lambda cluster=cluster: cluster.inference(rows),  # type: ignore[misc]
            "late": found.collect,
        }
        said += [(how, name, said_of(call)) for name, call in calls.items()]
    cluster = TFCluster.run(context, leaving, {"how": "takes nothing"}, 1, 0, input_mode=SPARK)
    said.append(("takes nothing", "train", said_of(lambda: cluster.train(rows, feed_timeout=1))))
    said.append(("takes nothing", "shutdown", said_of(cluster.shutdown)))
    spark.conf.set("spark.sparktf.timeouts.heartbeat", "6")
    spark.conf.set("spark.sparktf.timeouts.after_feed", "1")
    for how in ("SIGTERM", "SIGKILL", "SIGSTOP", "stays on"):
        cluster = TFCluster.run(context, leaving, {"how": how}, 1, 0, input_mode=SPARK)
        found = cluster.inference(rows if how != "stays on" else context.parallelize([(1,)] * 20, 1))
        said += [(how, "collect", said_of(found.collect)), (how, "shutdown", said_of(cluster.shutdown))]
    for name in ("heartbeat", "after_feed"):
        spark.conf.unset(f"spark.sparktf.timeouts.{name}")
    return spark.createDataFrame(said, "how string, call string, said string")


def streamed(args: dict[str, str], ctx: Any) -> None:
    """Takes rows of a stream, and answers them, until it leaves as it is told to."""
    feed = ctx.get_data_feed(train_mode=not args["call"].startswith("inference"))
    for _ in range(2):
        batch = feed.next_batch(4)
        if not feed.train_mode:
            feed.batch_results(batch)
    if args["how"] == "raises":
        raise ValueError("no luck with a stream")
    if args["how"] == "exits":
        os._exit(3)


def streams(spark: SparkSession) -> DataFrame:
    """Returns what is said to whoever waits for a stream whose function leaves."""
    context, said = spark.sparkContext, []
    for call, how in (
        ("train", "raises"),
        ("train", "exits"),
        ("train", "returns"),
        ("train alone", "returns"),
        ("inference", "raises"),
        ("inference", "returns"),
    ):
        interval_s: Any = 0.25  # it takes fractions, though it does not say so
        streams: Any = StreamingContext(context, interval_s)
        rows = streams.queueStream([context.parallelize(range(4), 1)] * 1000)
        cluster = TFCluster.run(context, streamed, {"call": call, "how": how}, 1, 0, input_mode=SPARK)
        if call == "inference":
            cluster.inference(rows).foreachRDD(lambda found: found.count() and None)
        else:
            cluster.train(rows)
        streams.start()
        waited = said_of(streams.awaitTermination) if call == "train alone" else ""
        if waited:
            streams.stop(stopSparkContext=False)
        said.append((call, how, waited, said_of(partial(cluster.shutdown, streams)), str(streams._jssc.getState())))
    return spark.createDataFrame(said, "call string, how string, waited string, shutdown string, state string")


def failing(args: dict[str, str], ctx: Any) -> None:
    """Fails where it is told to, on the second node."""
    if ctx.executor_id == 1 and args["when"] == "before":
        raise ValueError("no luck before")
    feed = ctx.get_data_feed()
    seen = 0
    while not feed.should_stop():
        seen += len(feed.next_batch(10))
        if ctx.executor_id == 1 and args["when"] == "during" and seen >= 20:
            raise ValueError("no luck during")
    if ctx.executor_id == 1 and args["when"] == "after":
        raise ValueError("no luck after")


def failure(spark: SparkSession, when: str) -> DataFrame:
    """Returns what is raised, where, and with which traceback."""
    stage = "run"
    try:
        cluster = TFCluster.run(
            spark.sparkContext, failing, {"when": when}, 2, 0, input_mode=TFCluster.InputMode.SPARK, master_node="chief"
        )
        stage = "train"
        cluster.train(uneven(spark), 5)
        stage = "shutdown"
        cluster.shutdown()
    except SparkTFError as error:
        notes = "\n".join(getattr(error, "__notes__", ()))
        found = (stage, type(error).__name__, str(error), notes)
        return spark.createDataFrame([found], "stage string, kind string, message string, notes string")
    raise AssertionError("nothing was raised")


def enough(args: dict[str, str], ctx: Any) -> None:
    """Takes thirty rows, and wants no more."""
    feed = ctx.get_data_feed()
    rows = feed.next_batch(30)
    feed.terminate()
    Path(args["folder"], f"{ctx.executor_id}.json").write_text(json.dumps(len(rows)))


def terminated(spark: SparkSession, folder: str) -> DataFrame:
    """Feeds more epochs than anybody wants."""
    cluster = TFCluster.run(
        spark.sparkContext, enough, {"folder": folder}, 2, 0, input_mode=TFCluster.InputMode.SPARK, master_node="chief"
    )
    cluster.train(uneven(spark), 1000)
    cluster.shutdown()
    return spark.createDataFrame([("done",)], "told string")


def alone(args: dict[str, str], ctx: Any) -> None:
    """Writes down who it is."""
    told = [ctx.executor_id, ctx.num_workers, os.getpid(), "TF_CONFIG" in os.environ]
    Path(args["folder"], f"{ctx.executor_id}.json").write_text(json.dumps(told))


def parallel(spark: SparkSession, folder: str) -> DataFrame:
    """Runs three instances beside each other."""
    TFParallel.run(spark.sparkContext, alone, {"folder": folder}, 3)
    return spark.createDataFrame([("done",)], "told string")


def learned(args: Any, ctx: Any) -> None:
    """Learns a line from columns, and has the chief export it."""
    import numpy as np
    import tensorflow as tf

    feed = TFNode.DataFeed(ctx.mgr, input_mapping=args.input_mapping)
    seen: dict[str, list[Any]] = {"x": [], "y": []}
    while not feed.should_stop():
        for name, values in feed.next_batch(args.batch_size).items():
            seen[name] += values
    x, y = np.array(seen["x"], np.float32), np.array(seen["y"], np.float32)
    found, *_ = np.linalg.lstsq(x, y, rcond=None)
    if ctx.job_name == "chief":
        module = tf.Module()
        module.w = tf.Variable(found[:, None])

        @tf.function(input_signature=[tf.TensorSpec((None, 2), tf.float32, name="x")])  # type: ignore[untyped-decorator]
        def serve(x: Any) -> Any:
            return {"line": tf.squeeze(x @ module.w, 1), "double": 2 * (x @ module.w)}

        tf.saved_model.save(module, args.export_dir, signatures={"serving_default": serve})


def pipeline(spark: SparkSession, folder: str) -> DataFrame:
    """Fits an estimator, and scores with the model that it has exported, whose numbers are not those of the columns."""
    rows = [(i, [float(i % 7), float(i % 5)], 2.0 * (i % 7) - (i % 5)) for i in range(500)]
    df = spark.createDataFrame(rows, "id bigint, features array<double>, target double")
    estimator = TFPipeline.TFEstimator(learned, {"note": "ours"}).setInputMapping({"features": "x", "target": "y"})
    estimator = (
        estimator.setClusterSize(2).setBatchSize(64).setEpochs(1).setExportDir(f"{folder}/model").setGraceSecs(1)
    )
    model = estimator.fit(df)
    model = model.setInputMapping({"features": "x"}).setOutputMapping({"line": "fitted", "double": "twice"})
    scored: DataFrame = (
        model.setSignatureDefKey("serving_default").setTagSet("serve").transform(df.select("target", "features"))
    )
    assert scored.dtypes == [("twice", "array<double>"), ("fitted", "double")], scored.dtypes
    return scored
