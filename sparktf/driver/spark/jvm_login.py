"""A login by Java's Kerberos (GSS-API), for which a JVM of its own is started: Python has none without an extra."""

from __future__ import annotations

import os
from pathlib import Path

from py4j.protocol import Py4JJavaError

from sparktf.driver.spark.jvm import bare_jvm

_SPNEGO = "1.3.6.1.5.5.2"
_TICKET_ALONE = Path(__file__).with_name("ticket.jaas")
"""Has Java take the ticket of the user's cache. By its own default it would ask standard input for a password."""

_OPTIONS = (
    # It lives for a second.
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Xmx64m",
    f"-Djava.security.auth.login.config={_TICKET_ALONE}",
    "-Djavax.security.auth.useSubjectCredsOnly=false",
    # What py4j calls are classes behind public interfaces, in a package that Java keeps to itself. Java 8 knows no such
    # option, and needs none.
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-exports=java.security.jgss/sun.security.jgss=ALL-UNNAMED",
)


def spnego_by_jvm(host: str) -> bytes:
    """Returns a token of SPNEGO for the web server of a host, by the ticket of the user's cache.

    Raises:
        FileNotFoundError: there is no Java.
        OSError: there is no ticket, or the KDC gives none for the server.
        Py4JError: the JVM does not start.
    """
    realms = os.environ.get("KRB5_CONFIG")  # by which kinit found the KDC; Java has a word of its own for it
    options = [*_OPTIONS, *([f"-Djava.security.krb5.conf={realms}"] if realms else [])]
    with bare_jvm([], options) as names:
        gss = names.org.ietf.jgss
        manager = gss.GSSManager.getInstance()
        try:
            server = manager.createName(f"HTTP@{host}", gss.GSSName.NT_HOSTBASED_SERVICE)
            context = manager.createContext(server, gss.Oid(_SPNEGO), None, gss.GSSContext.DEFAULT_LIFETIME)
            return bytes(context.initSecContext(bytearray(), 0, 0))
        except Py4JJavaError as error:  # its text is the JVM's, which ends here
            raise OSError(str(error.java_exception.toString())) from None
