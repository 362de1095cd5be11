"""Makes the certificates of a run, on the driver: no other process loads the libraries for it."""

from __future__ import annotations

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sparktf.wire.security import NODE_NAME, TlsMaterial

_CLOCKS_DIFFER = datetime.timedelta(days=1)
_LIFETIME = datetime.timedelta(days=3653)
"""An expired certificate would end a healthy run: each new trainer and feeder makes a handshake, to the last day. A
short lifetime would protect nothing: the authority's key is gone once it has signed, and its certificates are worthless
once the run's server is gone."""


def new_tls_material(now: datetime.datetime) -> TlsMaterial:
    """Returns certificates of a new authority, valid on hosts whose clocks differ, and for longer than any run."""
    authority_key, node_key = _new_key(), _new_key()
    window = (now - _CLOCKS_DIFFER, now + _LIFETIME)
    authority = _certificate("sparktf-run", authority_key, None, authority_key, window)
    node = _certificate(NODE_NAME, node_key, authority.subject, authority_key, window)
    return TlsMaterial(
        authority=_pem(authority),
        certificate=_pem(node),
        key=node_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
    )


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name | None,
    issuer_key: ec.EllipticCurvePrivateKey,
    window: tuple[datetime.datetime, datetime.datetime],
) -> x509.Certificate:
    """Returns a certificate; one without an issuer is the authority itself."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer or subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(window[0])
        .not_valid_after(window[1])
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if issuer is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(NODE_NAME)]), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())
