"""Secrets of object stores that only the driver's JVM can tell: Hadoop's credential providers, and those of S3A."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from sparktf.driver.spark.jvm import Java, hadoop_of, has_class, java
from sparktf.storage.store_keys import bucket_keys

_PROVIDERS = "hadoop.security.credential.provider.path"
_LIST = "org.apache.hadoop.fs.s3a.auth.CredentialProviderListFactory"


def provided_secrets(spark: SparkSession, paths: Iterable[str]) -> dict[str, str]:
    """Returns the secrets about stores in Hadoop's credential providers, as properties.

    Args:
        paths: Those that only connectors of stores look at, besides `hadoop.security.credential.provider.path`; in
            each, providers are separated by commas. An earlier one wins.

    Raises:
        Py4JError: a provider cannot be read.
    """
    found: dict[str, str] = {}
    for path in filter(None, [*paths, str(hadoop_of(spark).get(_PROVIDERS) or "")]):
        conf = java().org.apache.hadoop.conf.Configuration(hadoop_of(spark))
        conf.set(_PROVIDERS, path)
        for provider in java().org.apache.hadoop.security.alias.CredentialProviderFactory.getProviders(conf):
            for alias in map(str, provider.getAliases()):
                if alias.startswith("fs.") and alias not in found:
                    entry = provider.getCredentialEntry(alias)
                    found[alias] = str(java().java.lang.String.valueOf(entry.getCredential()))
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
