"""Spark's own settings about the network between driver and executors, and whether a run may be less protected."""

from __future__ import annotations

from collections.abc import Mapping

from sparktf.errors import PreflightError

AUTHENTICATE = "spark.authenticate"
ENCRYPT = "spark.network.crypto.enabled"

_ENCRYPTING = (ENCRYPT, "spark.authenticate.enableSaslEncryption", "spark.ssl.rpc.enabled")


def check_encryption(conf: Mapping[str, str], tls: str, *, kerberos: bool = False) -> str | None:
    """Returns a warning if Spark leaves the network open that its executors' closures cross, None if it does not.

    Args:
        conf: The application's settings; its executors are on other machines.
        tls: `security.tls`.
        kerberos: Whether the driver hands delegation tokens to the nodes.

    Raises:
        PreflightError: Spark's own traffic is protected, or tokens are sent, and the run's is not to be.
    """
    if tls == "off" and kerberos:
        raise PreflightError(
            "security.tls: off would send the delegation tokens of HDFS unencrypted, on a cluster that wants Kerberos: "
            "leave security.tls at auto"
        )
    protecting = [key for key in (AUTHENTICATE, *_ENCRYPTING) if conf.get(key, "").lower() == "true"]
    if tls == "off" and protecting:
        raise PreflightError(
            "security.tls: off would send the run's secret and rows unencrypted, although Spark protects its own "
            f"traffic ({protecting[0]}=true): leave security.tls at auto"
        )
    if AUTHENTICATE in protecting and len(protecting) > 1:
        return None
    return (
        f"{AUTHENTICATE} and {ENCRYPT} are not both on, so anyone who can read the network traffic could take the "
        "run's secret from Spark's closures and join the run: set both, as sparktf submit does on YARN "
        "(docs/cluster/security.md)"
    )
