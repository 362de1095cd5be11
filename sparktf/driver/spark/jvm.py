"""The driver's JVM, as far as sparktf needs functions that PySpark does not offer.

py4j's privates, Scala's collections and the classes behind the gateway are used here and in the six files beside:
`jvm_batches` (DataFrames of Arrow's batches), `jvm_executors` (the scheduler's executors and tasks), `jvm_login` (a
login by Kerberos), `jvm_plans` (the structure of a DataFrame), `jvm_store_keys` (secrets of object stores) and
`jvm_tokens` (the user and its tokens). All other code calls their functions, so a release of Spark with other internals
changes these files only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import pyspark
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from sparktf.storage.credentials import own_tokens_hidden

_ENDS_S = 10.0
"""Time for a JVM to end, once nobody talks to it."""

Java: TypeAlias = Any
"""An object of the JVM."""

_SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m")
"""Java's options for a JVM of a few seconds."""


def start_jvm() -> None:
    """Has PySpark start the JVM, or find the one of spark-submit, before there is a session."""
    with own_tokens_hidden():
        SparkContext._ensure_initialized()


@contextmanager
def bare_jvm(folders: Sequence[str], options: Sequence[str]) -> Iterator[Java]:
    """Starts a JVM with Spark's classes, but no Spark, for a question to Hadoop; yields the names of its packages.

    Args:
        folders: On the class path before Spark's jars.
        options: Of Java's command line, besides those of a JVM of a few seconds.

    Raises:
        FileNotFoundError: there is no Java.
        Py4JError, OSError: it does not start.
    """
    home = os.environ.get("JAVA_HOME")
    java_path = shutil.which(Path(home, "bin", "java") if home else "java")
    if java_path is None:  # py4j would leave open files behind
        raise FileNotFoundError("there is no Java: name one in JAVA_HOME")
    # By which kinit found the KDC; Java has a word of its own for it.
    realms = [f"-Djava.security.krb5.conf={path}" for path in [os.environ.get("KRB5_CONFIG")] if path]
    try:
        with own_tokens_hidden():
            gateway = JavaGateway.launch_gateway(
                classpath=os.pathsep.join([*folders, str(Path(pyspark.__file__).parent / "jars" / "*")]),
                javaopts=[*_SHORT_LIVED, *realms, *options],
                java_path=java_path,
                die_on_exit=True,
                enable_auth=True,
                use_shell=False,
            )
    except ValueError as error:  # it says nothing where py4j reads a port
        raise OSError(f"{java_path} does not start: see what it says to -version") from error
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        process = gateway.java_process
        process.stdin.close()  # at which it ends
        with suppress(subprocess.TimeoutExpired):
            process.wait(_ENDS_S)


def java() -> Java:
    """Returns the names of the JVM's packages; for the files beside this one alone."""
    return SparkContext._jvm


def scala_context(context: SparkContext) -> Java:
    """Returns the SparkContext behind PySpark's; for the files beside this one alone."""
    jsc: Any = context._jsc
    return jsc.sc()


def as_list(sequence: Java) -> Java:
    """Returns a sequence of Scala's as py4j reads it."""
    return _converters().seqAsJavaList(sequence)


def as_dict(found: Java) -> Java:
    """Returns a map of Scala's as py4j reads it."""
    return _converters().mapAsJavaMap(found)


def as_scala(values: list[Any]) -> Java:
    """Returns values as a sequence of Scala's."""
    return _converters().asScalaBuffer(values).toSeq()


def ddl_of(schema: StructType) -> str:
    """Returns columns as SQL writes them: "`a` BIGINT, `b` STRING". Spark 3.5's Python has no word for it."""
    return str(java().org.apache.spark.sql.types.DataType.fromJson(schema.json()).toDDL())


def empty_map() -> Java:
    """Returns Scala's immutable map without entries."""
    return getattr(getattr(java().scala.collection.immutable, "Map$"), "MODULE$").empty()


def elements(sequence: Java) -> Iterator[Java]:
    """Yields the elements of a Scala sequence."""
    return (sequence.apply(i) for i in range(sequence.size()))


def class_of(value: Java) -> str:
    """Returns the full name of an object's class."""
    return str(value.getClass().getName())


def has_class(name: str) -> bool:
    """Whether Spark finds a class."""
    return bool(java().org.apache.spark.util.Utils.classIsLoadable(name))


def has_resource(name: str) -> bool:
    """Whether Spark finds a file where it looks for classes."""
    return java().org.apache.spark.util.Utils.getContextOrSparkClassLoader().getResource(name) is not None


def quiet_hadoop() -> None:
    """Has the log show errors of Hadoop's classes alone, as Spark's do once there is a session."""
    log4j = java().org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel("org.apache.hadoop", log4j.Level.ERROR)


def log_source() -> str:
    """Returns the address of the file that configures the JVM's log, "" if there is none."""
    context = java().org.apache.logging.log4j.LogManager.getContext(False)
    return str(context.getConfiguration().getConfigurationSource().getLocation() or "")


def ignore_interrupts() -> None:
    """Makes the JVM ignore SIGINT."""
    signals = java().sun.misc
    signals.Signal.handle(signals.Signal("INT"), signals.SignalHandler.SIG_IGN)


def set_property_once(name: str, value: str) -> None:
    """Sets a property of the JVM if it is not set."""
    system = java().java.lang.System
    if system.getProperty(name) is None:
        system.setProperty(name, value)


def iceberg_reads_in_order() -> bool:
    """Whether Iceberg, which must be there, reads manifests on one thread."""
    return not java().org.apache.iceberg.SystemConfigs.SCAN_THREAD_POOL_ENABLED.value()


def application_attempt(spark: SparkSession) -> str:
    """Returns the number of the application's attempt by the cluster manager; "" if it counts none."""
    attempt = scala_context(spark.sparkContext).applicationAttemptId()
    return str(attempt.get()) if attempt.isDefined() else ""


def end_application(spark: SparkSession, exit_code: int) -> None:
    """Stops the application with an exit code.

    Raises:
        Py4JError, OSError: the JVM is gone, or on its way.
    """
    scala_context(spark.sparkContext).stop(exit_code)


def is_stopped(context: SparkContext) -> bool:
    """Whether the application has ended.

    Raises:
        Py4JError, OSError: the JVM is gone.
    """
    return bool(scala_context(context).isStopped())


def hadoop_xml(spark: SparkSession) -> str:
    """Returns the JVM's Hadoop configuration as files and `spark.hadoop.*` make it: XML; one call over py4j."""
    # hdfs-site.xml is only read once the JVM has had to do with HDFS.
    java().org.apache.hadoop.hdfs.HdfsConfiguration.init()
    return _xml_of(hadoop_of(spark))


def ssl_client_xml(spark: SparkSession) -> str:
    """Returns the ssl-client.xml of the JVM's class path, whatever its name is: XML, empty if there is none."""
    found = java().org.apache.hadoop.conf.Configuration(False)
    found.addResource(hadoop_of(spark).get("hadoop.ssl.client.conf", "ssl-client.xml"))
    return _xml_of(found)


def _xml_of(configuration: Any) -> str:
    writer = java().java.io.StringWriter()
    configuration.writeXml(writer)
    return str(writer.toString())


def default_file_system(spark: SparkSession) -> str:
    """Returns the address of the file system of paths that name none."""
    return str(hadoop_of(spark).get("fs.defaultFS"))


def has_client(spark: SparkSession, path: str) -> bool:
    """Whether the JVM has a file system for the scheme of a path."""
    try:
        scheme = path.partition("://")[0].lower()
        java().org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, hadoop_of(spark))
    except Py4JJavaError:  # its class is not there, or none is named
        return False
    return True


def printed_blocks(spark: SparkSession, folder: str) -> Iterator[tuple[str, str]]:
    """Yields the names of a folder's files with the hosts of their blocks: a printed array of Hadoop's BlockLocation.

    Raises:
        Py4JError: the file system cannot be asked.
    """
    path = java().org.apache.hadoop.fs.Path(folder)
    entries = path.getFileSystem(hadoop_of(spark)).listLocatedStatus(path)
    while entries.hasNext():
        entry = entries.next()
        if entry.isFile():
            # One call for all blocks of a file: each crossing to the JVM costs more than reading its answer. (For
            # java.util.Arrays.toString, py4j finds no overload that takes this array.)
            text = str(java().org.apache.commons.lang3.ArrayUtils.toString(entry.getBlockLocations()))
            yield str(entry.getPath().getName()), text


def _converters() -> Java:
    return java().scala.collection.JavaConverters  # Scala 2.12 has no others; 2.13 has these, too


def hadoop_of(spark: SparkSession) -> Java:
    """Returns the JVM's Hadoop configuration; for the files beside this one alone."""
    jsc: Any = spark.sparkContext._jsc
    return jsc.hadoopConfiguration()
