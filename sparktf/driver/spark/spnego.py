"""Logins to a cluster's web servers by the user's ticket (SPNEGO), for commands, which have no Spark session.

By the extra `kerberos` where it is installed, else by Java, whose JVM takes some two seconds.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from sparktf.driver.spark.kerberos_reasons import login_fault
from sparktf.driver.spark.kerberos_wait import answer_in_time
from sparktf.errors import PreflightError
from sparktf.knobs import KNOBS

_SPNEGO = "1.3.6.1.5.5.2"


def spnego_token(host: str) -> bytes:
    """Returns a token of SPNEGO for the web server of a host, by the user's ticket; for one request.

    Raises:
        PreflightError: there is no ticket, no way to use it, or no answer of the KDC in time.
    """
    try:
        return answer_in_time(lambda: _token(host), KNOBS.web_login_s)
    except TimeoutError as error:
        raise _refusal(host, str(error)) from error


def _token(host: str) -> bytes:
    library = _library()
    return _by_java(host) if library is None else _by_library(library, host)


def _library() -> ModuleType | None:
    """Returns the Python library of GSS-API; None without the extra `kerberos`."""
    try:
        return importlib.import_module("gssapi")
    except (ImportError, OSError):  # also where MIT's own library is missing
        return None


def _by_library(library: ModuleType, host: str) -> bytes:
    try:
        server = library.Name(f"HTTP@{host}", name_type=library.NameType.hostbased_service)
        mechanism = library.OID.from_int_seq(_SPNEGO)
        return bytes(library.SecurityContext(name=server, mech=mechanism, usage="initiate").step())
    except library.exceptions.GSSError as error:
        raise _no_login(host, error) from error


def _by_java(host: str) -> bytes:
    # PySpark takes a second, which commands on a cluster without Kerberos need not wait for.
    from py4j.protocol import Py4JError  # noqa: PLC0415

    from sparktf.driver.spark.jvm_login import spnego_by_jvm  # noqa: PLC0415

    try:
        return spnego_by_jvm(host)
    except FileNotFoundError as error:
        ways = "Java in JAVA_HOME, or the extra sparktf[kerberos]"
        raise _refusal(host, f"there is neither Java nor Python's gssapi: install one: {ways}") from error
    except (Py4JError, OSError) as error:
        raise _no_login(host, error) from error


def _no_login(host: str, error: Exception) -> PreflightError:
    return _refusal(host, login_fault(error).told())


def _refusal(host: str, why: str) -> PreflightError:
    return PreflightError(f"Kerberos: there is no login to {host}: {why}")
