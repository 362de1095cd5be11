"""The user and the delegation tokens of the driver's JVM."""

from __future__ import annotations

from pyspark.sql import SparkSession

from sparktf.driver.spark.jvm import Java, hadoop_of, java, scala_context
from sparktf.storage.tokens import HDFS_KIND


def short_user() -> str:
    """Returns the short name of the JVM's user, as `hadoop.security.auth_to_local` makes it of a principal."""
    return str(_user().getShortUserName())


def held_tokens() -> bytes:
    """Returns the tokens for HDFS that the JVM's user holds: a token file. Spark puts new ones there on YARN."""
    return _file_of(_user().getCredentials())


def new_tokens(spark: SparkSession) -> bytes:
    """Returns new tokens for the file systems that Spark knows of, asked for with the JVM's ticket: a token file.

    Raises:
        Py4JError: the NameNode gives none, or there is no ticket.
    """
    found = java().org.apache.hadoop.security.Credentials()
    conf = scala_context(spark.sparkContext).conf()
    manager = java().org.apache.spark.deploy.security.HadoopDelegationTokenManager(conf, hadoop_of(spark), None)
    manager.obtainDelegationTokens(found)
    return _file_of(found)


def _user() -> Java:
    return java().org.apache.hadoop.security.UserGroupInformation.getCurrentUser()


def _file_of(credentials: Java) -> bytes:
    """Returns a token file of the tokens for HDFS alone: others, and Spark's secret, are not for the nodes."""
    kept = java().org.apache.hadoop.security.Credentials()
    for token in java().java.util.ArrayList(credentials.getAllTokens()):
        if str(token.getKind().toString()) == HDFS_KIND:
            kept.addToken(token.getService(), token)
    content = java().java.io.ByteArrayOutputStream()
    kept.writeTokenStorageToStream(java().java.io.DataOutputStream(content))
    return bytes(content.toByteArray())
