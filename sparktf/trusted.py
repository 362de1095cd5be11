"""The certificates by which a cluster's HTTPS is trusted: a PEM file's, and a Java truststore's, without Java."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

from sparktf.errors import ConfigError

LOCATION, PASSWORD = "ssl.client.truststore.location", "ssl.client.truststore.password"
"""The keys of ssl-client.xml that say where the truststore is, and what opens it."""

# As curl, OpenSSL and the library requests have them.
_PEM_FILES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
_MAGICS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")  # JKS, and JCEKS, which is laid out alike
_KEY, _CERTIFICATE = 1, 2
_USUAL_PASSWORDS = ("changeit", "")


def trusted(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Returns the context of connections to a cluster's HTTPS.

    It trusts the PEM file of SSL_CERT_FILE or REQUESTS_CA_BUNDLE, and the truststore of ssl-client.xml; if there is
    neither, what the system trusts.

    Args:
        properties: Hadoop's, with those of ssl-client.xml.

    Raises:
        ConfigError: a file cannot be read, or holds no certificate.
    """
    file = next(filter(None, map(os.environ.get, _PEM_FILES)), None)
    store = properties.get(LOCATION)
    context = ssl.create_default_context() if not (file or store) else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if file:
        key = next(key for key in _PEM_FILES if os.environ.get(key))
        try:
            context.load_verify_locations(file)
        except OSError as error:
            raise ConfigError(f"{key}: {file} cannot be read as PEM certificates: {error}: mend it") from error
    if store:
        try:
            context.load_verify_locations(cadata=_certificates_of(Path(store), properties.get(PASSWORD)))
        except (OSError, ValueError) as error:
            if not file:
                raise ConfigError(
                    f"{LOCATION}: {store} cannot be read: {error}: set SSL_CERT_FILE to a PEM file with the "
                    "certificates of the cluster's authority"
                ) from error
    return context


def untrusted(error: BaseException) -> str | None:
    """Returns the fault of a server's certificate, and what to do; None if an error has another cause."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, ssl.SSLCertVerificationError):
        wrapped = getattr(seen, "reason", None) or next(iter(seen.args), None)
        seen = wrapped if isinstance(wrapped, BaseException) else seen.__cause__ or seen.__context__
    if seen is None:
        return None
    what = "name the server as its certificate does"
    if "mismatch" not in seen.verify_message:
        what = (
            f"name the cluster's truststore in ssl-client.xml ({LOCATION}), or in SSL_CERT_FILE a PEM file with its "
            "authority's certificate"
        )
    return f"its certificate is not trusted: {seen.verify_message.rstrip('.')}: {what}"


def _certificates_of(store: Path, password: str | None) -> bytes | str:
    """Returns the certificates of a truststore, as DER or PEM. Raises `OSError`, and `ValueError` if there are none."""
    content = store.read_bytes()
    if b"-----BEGIN CERTIFICATE-----" in content:
        return content.decode("ascii", errors="replace")
    is_jks = content.startswith(_MAGICS)
    found = b"".join(_of_jks(BytesIO(content))) if is_jks else _of_pkcs12(content, password)
    if not found:
        raise ValueError("it holds no certificate")
    return found


def _of_jks(stream: BinaryIO) -> Iterator[bytes]:
    """Yields the certificates. They stand there in clear: the password only guards against changes."""
    _, version, entries = _number(stream), _number(stream), _number(stream)
    for _ in range(entries):
        tag = _number(stream)
        _block(stream, 2)  # the name
        _exactly(stream, 8)  # the date
        if tag not in (_KEY, _CERTIFICATE):
            raise ValueError("it holds other entries than certificates")
        if tag == _KEY:
            _block(stream)
        for _ in range(_number(stream) if tag == _KEY else 1):
            if version > 1:
                _block(stream, 2)  # the type
            certificate = _block(stream)
            if tag == _CERTIFICATE:
                yield certificate


def _block(stream: BinaryIO, width: int = 4) -> bytes:
    return _exactly(stream, _number(stream, width))


def _number(stream: BinaryIO, width: int = 4) -> int:
    return int.from_bytes(_exactly(stream, width))


def _exactly(stream: BinaryIO, nbytes: int) -> bytes:
    found = stream.read(nbytes)
    if len(found) < nbytes:
        raise ValueError("it is cut off")
    return found


def _of_pkcs12(content: bytes, password: str | None) -> bytes:
    """Returns the certificates. A password is needed, of which nodes may have none: then usual ones are tried."""
    failed: ValueError | None = None
    for tried in (password,) if password is not None else _USUAL_PASSWORDS:
        try:
            found = pkcs12.load_pkcs12(content, tried.encode()).additional_certs
        except ValueError as error:
            failed = error
        else:
            return b"".join(each.certificate.public_bytes(Encoding.DER) for each in found)
    raise ValueError(f"it is neither JKS, PEM nor PKCS12 that {PASSWORD} opens") from failed
