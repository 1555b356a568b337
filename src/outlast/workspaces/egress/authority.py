"""The authority by which a sandbox trusts us as the hosts that credentials are for, and as no other.

It is made for one session. What goes into the sandbox is its certificate, beside those of the authorities that this
machine trusts; its key stays outside. Its certificate says itself for which names it may speak (RFC 5280, 4.2.1.10), so
that even with the key nothing else could be feigned.

The key is written down only where the sandbox may outlive its worker, since programs that run on in it trust what they
trusted: in the directory that is the session's own, for as long as any sandbox can stand that nobody holds.
"""

import datetime as dt
import os
import ssl
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Final

import certifi

from outlast.clock import Clock
from outlast.errors import ExtraMissing
from outlast.workspaces.egress.hosts import address_of, canonical

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError as absent:  # pragma: no cover - every environment of ours has it
    raise ExtraMissing(what="A credential for https", install="pip install 'outlast[sandbox]'") from absent

_VALID: Final = dt.timedelta(days=60)
_LEFT: Final = dt.timedelta(days=14)
"""A kept authority with less than that is made anew: a sandbox may live on for days."""
_FILE: Final = "authority.pem"
_KEPT_S: Final = 8 * 86_400.0
"""A sandbox may outlive its worker by a week."""
_EARLIER: Final = dt.timedelta(hours=1)
"""Clocks inside may be behind."""
_CONTEXTS: Final = 32
"""Hosts that are remembered at a time."""


class Authority:
    """Made by `open_authority`."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate, clock: Clock) -> None:
        self._key = key
        self._certificate = certificate
        self._clock = clock
        self._contexts: dict[str, ssl.SSLContext] = {}

    @property
    def pem(self) -> bytes:
        """Its certificate."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def context(self, host: str) -> ssl.SSLContext:
        """For a server that is `host`, to whoever asks for that; who asks for another is refused."""
        known = self._contexts.get(host)
        if known is None:
            if len(self._contexts) >= _CONTEXTS:  # below a suffix there are names without end
                del self._contexts[next(iter(self._contexts))]
            known = self._contexts[host] = self._made(host)
        return known

    def _made(self, host: str) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        address = address_of(host)
        name = x509.DNSName(host) if address is None else x509.IPAddress(address)
        certificate = (
            self._from(self._certificate.subject, key, x509.Name([]))
            .add_extension(x509.SubjectAlternativeName([name]), critical=True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(_known_by(self._key), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        context.sni_callback = _only(host)
        chain = _private(key) + certificate.public_bytes(serialization.Encoding.PEM) + self.pem
        with _in_a_file(chain) as file:
            context.load_cert_chain(file)
        return context

    def _from(
        self, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, subject: x509.Name
    ) -> x509.CertificateBuilder:
        return _begun(issuer, key, subject, self._clock)


def open_authority(directory: Path | None, hosts: Sequence[str], clock: Clock) -> Authority:
    """The authority of a session for `hosts`, names and `*.suffix`: the one that is kept in `directory`, or a new one.

    A sandbox that outlived its worker goes on to trust what it trusted. None: it is kept nowhere.

    Raises:
        OSError: it cannot be written there.
    """
    file = None if directory is None else directory / _FILE
    kept = None if file is None else _kept(file, hosts, clock)
    if kept is not None:
        return kept
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "outlast, of one sandbox")])
    certificate = (
        _begun(name, key, name, clock)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_may_sign(), critical=True)
        .add_extension(_constraints(hosts), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    made = Authority(key, certificate, clock)
    if file is None:
        return made
    new = file.with_suffix(".new")
    new.unlink(missing_ok=True)
    _write(new, _private(key) + made.pem)
    new.replace(file)
    return made


def keep_on(directory: Path, now_s: float) -> None:
    """The authority that is kept here, if one is, was in use until now."""
    with suppress(OSError):
        os.utime(directory / _FILE, (now_s, now_s))


def forget_authorities(above: Path, now_s: float) -> None:
    """Remove from the directories of ways out the keys that no sandbox trusts any more: long unused."""
    for file in above.glob(f"*/{_FILE}"):
        with suppress(OSError):
            if now_s - file.stat().st_mtime > _KEPT_S:
                file.unlink()


def roots() -> bytes:
    """The certificates of the authorities that this process trusts."""
    named = os.environ.get("SSL_CERT_FILE", "")
    return Path(named if named and Path(named).is_file() else certifi.where()).read_bytes()


def _kept(file: Path, hosts: Sequence[str], clock: Clock) -> Authority | None:
    try:
        pem = file.read_bytes()
        key = serialization.load_pem_private_key(pem, None)
        certificate = x509.load_pem_x509_certificate(pem)
        constraints = certificate.extensions.get_extension_for_class(x509.NameConstraints).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        return None
    fresh = certificate.not_valid_after_utc - _LEFT > _now(clock)
    if not fresh or constraints != _constraints(hosts) or not isinstance(key, ec.EllipticCurvePrivateKey):
        return None
    return Authority(key, certificate, clock)


def _begun(
    issuer: x509.Name, key: ec.EllipticCurvePrivateKey, subject: x509.Name, clock: Clock
) -> x509.CertificateBuilder:
    now = _now(clock)
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + _VALID)
    )


def _constraints(hosts: Sequence[str]) -> x509.NameConstraints:
    permitted: list[x509.GeneralName] = []
    for host in sorted(set(hosts)):
        address = address_of(host)
        permitted.append(x509.DNSName(host.removeprefix("*.")) if address is None else _alone(host))
    # What no name of a kind is permitted for would be free: an address that none has closes that kind.
    if not any(isinstance(each, x509.DNSName) for each in permitted):
        permitted.append(x509.DNSName("invalid"))
    if not any(isinstance(each, x509.IPAddress) for each in permitted):
        permitted += [_alone("0.0.0.0"), _alone("::")]  # noqa: S104 - nothing listens there
    return x509.NameConstraints(permitted_subtrees=permitted, excluded_subtrees=None)


def _alone(host: str) -> x509.IPAddress:
    return x509.IPAddress(ip_network(ip_address(host)))


def _may_sign() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _known_by(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _only(host: str) -> Callable[[ssl.SSLObject, str, ssl.SSLContext], int | None]:
    def asked_for(_: ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> int | None:
        try:
            same = name is None or canonical(name) == host
        except ValueError:
            same = False
        return None if same else ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

    return asked_for


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


@contextmanager
def _in_a_file(data: bytes) -> Generator[str]:
    """Python reads keys from files only: from one that is in memory, where there are such."""
    if not hasattr(os, "memfd_create"):
        with tempfile.TemporaryDirectory(prefix="outlast-") as directory:
            _write(Path(directory, "leaf.pem"), data)
            yield str(Path(directory, "leaf.pem"))
            return
    fd = os.memfd_create("outlast")
    with os.fdopen(fd, "wb") as memory:
        memory.write(data)
        memory.flush()
        yield f"/proc/self/fd/{fd}"


def _write(file: Path, data: bytes) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(data)


def _now(clock: Clock) -> dt.datetime:
    return dt.datetime.fromtimestamp(clock.now(), dt.UTC)
