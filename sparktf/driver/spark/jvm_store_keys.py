"""Secrets of object stores that only the driver's JVM can tell: Hadoop's credential providers, and those of S3A."""

from __future__ import annotations

from contextlib import suppress

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from sparktf.driver.spark.jvm import Java, bare_jvm, hadoop_of, has_class, java
from sparktf.storage.store_keys import bucket_keys

PROVIDERS = "hadoop.security.credential.provider.path"
"""The key by which Hadoop finds its credential providers; connectors of stores have others besides."""

_LIST = "org.apache.hadoop.fs.s3a.auth.CredentialProviderListFactory"


def provided_secrets(spark: SparkSession, path: str) -> dict[str, str]:
    """Returns the secrets about stores in Hadoop's credential providers, as properties.

    Args:
        path: As `hadoop.security.credential.provider.path` has it; an earlier provider wins.

    Raises:
        Py4JError: a provider cannot be read.
    """
    return _provided(java(), java().org.apache.hadoop.conf.Configuration(hadoop_of(spark)), path)


def provided_to_command(folder: str, path: str) -> dict[str, str]:
    """Returns the same secrets as `provided_secrets`, by a JVM of some seconds.

    Args:
        folder: HADOOP_CONF_DIR.

    Raises:
        OSError: there is no Java, or a provider cannot be read.
        Py4JError: the JVM does not start.
    """
    with bare_jvm([folder], []) as names:
        try:
            return _provided(names, names.org.apache.hadoop.conf.Configuration(), path)
        except Py4JJavaError as error:  # its text is the JVM's, which ends here
            raise OSError(str(error.java_exception.toString())) from None


def _provided(names: Java, conf: Java, path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    conf.set(PROVIDERS, path)
    for provider in names.org.apache.hadoop.security.alias.CredentialProviderFactory.getProviders(conf):
        for alias in map(str, provider.getAliases()):
            if alias.startswith("fs.") and alias not in found:
                entry = provider.getCredentialEntry(alias)
                found[alias] = str(names.java.lang.String.valueOf(entry.getCredential()))
    return found


class BucketCredentials:
    """The keys that the credential providers of S3A give for a bucket, and renew by themselves."""

    def __init__(self, spark: SparkSession, bucket: str) -> None:
        """Makes the providers, by the JVM's configuration with the bucket's own keys.

        Raises:
            Py4JError: the JVM cannot make them.
        """
        self._bucket = bucket
        conf = java().org.apache.hadoop.fs.s3a.S3AUtils.propagateBucketOptions(hadoop_of(spark), bucket)
        java().org.apache.hadoop.fs.s3a.S3AUtils.patchSecurityCredentialProviders(conf)
        factory: Java = java().org.apache.hadoop.fs.s3a.auth.CredentialProviderListFactory
        self._providers = factory.createAWSCredentialProviderList(java().java.net.URI(f"s3a://{bucket}"), conf)

    def present(self) -> dict[str, str]:
        """Returns the present keys, as properties of Hadoop's.

        Raises:
            Py4JError: the providers have none.
        """
        found = self._providers.resolveCredentials()
        token = ""
        with suppress(Py4JError):  # only keys of some hours have one
            token = str(found.sessionToken())
        return bucket_keys(self._bucket, str(found.accessKeyId()), str(found.secretAccessKey()), token)


def has_s3a() -> bool:
    """Whether the JVM has Hadoop's S3A, with a credential provider list of its own (Hadoop 3.4)."""
    return has_class(_LIST)
