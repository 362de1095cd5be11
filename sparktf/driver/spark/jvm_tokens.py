"""The user and the delegation tokens of the driver's JVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from sparktf.driver.spark.jvm import Java, bare_jvm, hadoop_of, java, scala_context
from sparktf.storage.tokens import HDFS_KIND


def short_user() -> str:
    """Returns the short name of the JVM's user, as `hadoop.security.auth_to_local` makes it of a principal."""
    return str(_user(java()).getShortUserName())


def held_tokens() -> bytes:
    """Returns the tokens for HDFS that the JVM's user holds: a token file. Spark puts new ones there on YARN."""
    return _file_of(_user(java()).getCredentials(), java())


def new_tokens(spark: SparkSession) -> bytes:
    """Returns new tokens for the file systems that Spark knows of, asked for with the JVM's ticket: a token file.

    The JVM's user has them, too, from then on: by old ones Spark itself could read no more.

    Raises:
        Py4JError: the NameNode gives none, or there is no ticket.
    """
    hadoop = hadoop_of(spark)
    found = java().org.apache.hadoop.security.Credentials()
    conf = scala_context(spark.sparkContext).conf()
    if (real := _user(java()).getRealUser()) is not None:
        # Spark would ask as the present user, whose old token the NameNode takes for no login.
        fresh = java().org.apache.hadoop.security.UserGroupInformation.createProxyUser(short_user(), real)
        _ask_as(fresh, hadoop.get("fs.defaultFS"), hadoop, found)
        _user(java()).addCredentials(found)
        return _file_of(found, java())
    manager = java().org.apache.spark.deploy.security.HadoopDelegationTokenManager(conf, hadoop, None)
    manager.obtainDelegationTokens(found)
    if not _of_hdfs(found, java()):
        # Spark only logs why there is none, or does not ask where there is no ticket.
        _ask(hadoop.get("fs.defaultFS"), hadoop, found, java())
    _user(java()).addCredentials(found)
    return _file_of(found, java())


def tokens_by_ticket(urls: Sequence[str], folder: str, options: Sequence[str]) -> tuple[str, bytes]:
    """Returns the short name of the ticket's user, and new tokens of clusters, as `new_tokens`: without a session.

    Args:
        urls: "hdfs://host:port" or "hdfs://nameservice".
        folder: HADOOP_CONF_DIR.
        options: Of Java's command line.

    Raises:
        OSError: the NameNode gives none, or there is no ticket, or no Java.
        Py4JError: the JVM does not start.
    """
    with bare_jvm([folder], options) as names:
        names.org.apache.hadoop.hdfs.HdfsConfiguration.init()
        conf, found = names.org.apache.hadoop.conf.Configuration(), names.org.apache.hadoop.security.Credentials()
        user = str(_user(names).getShortUserName())
        try:
            for url in urls:
                _ask(url, conf, found, names)
        except Py4JJavaError as error:  # its text is the JVM's, which ends here
            raise OSError(str(error.java_exception.toString())) from None
        return user, _file_of(found, names)


def try_login(conf: SparkConf) -> None:
    """Asks the default file system for a token that nobody keeps, before there is a session; none without Kerberos.

    A user who was given tokens, as in a container, needs no login.

    Args:
        conf: Of the session to come.

    Raises:
        Py4JError: the NameNode gives none, or there is no ticket.
    """
    jconf: Java = conf._jconf
    hadoop = java().org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(jconf)
    java().org.apache.hadoop.hdfs.HdfsConfiguration.init()
    secured = str(hadoop.get("hadoop.security.authentication", "")).lower() == "kerberos"
    url = str(hadoop.get("fs.defaultFS", ""))
    if secured and url.startswith("hdfs:") and not _of_hdfs(_user(java()).getCredentials(), java()):
        _ask(url, hadoop, java().org.apache.hadoop.security.Credentials(), java())


def _ask(url: str, hadoop: Java, found: Java, names: Java) -> None:
    """Asks a file system for tokens for the present user, who may be another one's proxy, as Hadoop's `Credentials`."""
    user = str(_user(names).getShortUserName())
    names.org.apache.hadoop.fs.FileSystem.get(names.java.net.URI(url), hadoop).addDelegationTokens(user, found)


def _ask_as(user: Java, url: str, hadoop: Java, found: Java) -> None:
    """Asks a file system for tokens for a user who holds none, as `_ask`."""
    names, gateway = java(), cast(Java, SparkContext._gateway)
    invoke, file_system = names.java.lang.invoke, names.org.apache.hadoop.fs.FileSystem
    types = gateway.new_array(names.java.lang.Class, 2)
    types[0], types[1] = names.java.net.URI(url).getClass(), names.org.apache.hadoop.conf.Configuration().getClass()
    values = gateway.new_array(names.java.lang.Object, 2)
    values[0], values[1] = names.java.net.URI(url), hadoop
    loaded = types[1].getClassLoader().loadClass(file_system._fqn)
    opened = invoke.MethodHandles.publicLookup().unreflect(loaded.getMethod("newInstance", types))
    bound = invoke.MethodHandles.insertArguments(opened, 0, values)
    action = names.java.lang.Class.forName("java.security.PrivilegedExceptionAction")
    storage = user.doAs(invoke.MethodHandleProxies.asInterfaceInstance(action, bound))
    try:
        storage.addDelegationTokens(str(user.getShortUserName()), found)
    finally:
        storage.close()


def _of_hdfs(credentials: Java, names: Java) -> list[Java]:
    tokens = names.java.util.ArrayList(credentials.getAllTokens())
    return [token for token in tokens if str(token.getKind().toString()) == HDFS_KIND]


def _user(names: Java) -> Java:
    return names.org.apache.hadoop.security.UserGroupInformation.getCurrentUser()


def _file_of(credentials: Java, names: Java) -> bytes:
    """Returns a token file of the tokens for HDFS alone: others, and Spark's secret, are not for the nodes."""
    kept = names.org.apache.hadoop.security.Credentials()
    for token in _of_hdfs(credentials, names):
        kept.addToken(token.getService(), token)
    content = names.java.io.ByteArrayOutputStream()
    kept.writeTokenStorageToStream(names.java.io.DataOutputStream(content))
    return bytes(content.toByteArray())
