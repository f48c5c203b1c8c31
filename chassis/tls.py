"""TLS for every server and channel, from files that may be replaced at any time.

A process has one certificate, which it uses as a server and as a client, and one set of authorities, by which it
verifies peers. It checks the three files again when a connection is made, so a renewed certificate needs no restart.
Files that do not match, as while they are being replaced, are ignored until they match.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
from opentelemetry.metrics import CallbackOptions, Observation

from chassis.errors import PermissionDenied, shorten
from chassis.logging import get_logger
from chassis.settings import BadSetting, ServiceSettings
from chassis.telemetry import meter

log = get_logger("hansei.tls")

ANYONE = "*"
"""The entry of `tls_callers` that allows every certificate of the authorities."""

_CHECK_SECONDS = 5.0
_SCHEMES = ("dns:///", "dns:", "ipv4:", "ipv6:")
_NAMES_KEY = "x509_subject_alternative_name"


@dataclass(frozen=True, slots=True)
class Bundle:
    """The contents of the files at one moment, as PEM, and the names and the expiry of the certificate.

    ``for_http`` is the context for Python's own servers.
    """

    certificate: bytes
    key: bytes
    authorities: bytes
    names: tuple[str, ...]
    expires: datetime
    for_http: ssl.SSLContext


class Certificates:
    """The current certificate, key and authorities of this process. Thread-safe."""

    def __init__(self, certificate: str, key: str, authorities: str) -> None:
        """Read the files. Raises `BadSetting` for files that are missing, unreadable or do not match."""
        self._paths = {
            "HANSEI_TLS_CERTIFICATE": certificate,
            "HANSEI_TLS_KEY": key,
            "HANSEI_TLS_AUTHORITIES": authorities,
        }
        missing = [variable for variable, path in self._paths.items() if not path]
        if missing:
            raise BadSetting(f"{', '.join(missing)}: TLS needs a certificate, its key and the authorities of peers")
        self._lock, self._handshake_lock = threading.Lock(), threading.Lock()
        self._loaded_stamps = self._stat_files()
        self._checked = time.monotonic()
        self._bundle = self._read()

    @classmethod
    def from_settings(cls, settings: ServiceSettings) -> Certificates | None:
        """Return the certificates of the settings; None if they name no file, which means plaintext."""
        files = settings.tls_certificate, settings.tls_key, settings.tls_authorities
        return cls(*files) if any(files) else None

    def get_current(self, *, now: bool = False) -> Bundle:
        """Return the contents of the files, which are checked every five seconds, or `now`."""
        with self._lock:
            moment = time.monotonic()
            if now or moment - self._checked >= _CHECK_SECONDS:
                self._checked = moment
                self._renew()
            return self._bundle

    def _renew(self) -> None:
        stamps = self._stat_files()
        if stamps == self._loaded_stamps:
            return
        try:
            self._bundle = self._read()
        except BadSetting as error:
            log.warning("new certificate is not usable yet; using the old one", error=str(error))
            return
        self._loaded_stamps = stamps
        log.info("certificate loaded again", names=self._bundle.names, expires=self._bundle.expires.isoformat())

    def _stat_files(self) -> list[tuple[int, int, int]]:
        """Return values that change when a file does. Follows links, by which Kubernetes replaces files in a volume."""
        return [_stamp(path) for path in self._paths.values()]

    def _read(self) -> Bundle:
        certificate, key, authorities = (_read_content(variable, path) for variable, path in self._paths.items())
        context = self._create_ssl_context()
        self._check_authorities(authorities)
        names, expires = _read_names_and_expiry(certificate)
        return Bundle(certificate, key, authorities, names, expires, context)

    def _create_ssl_context(self) -> ssl.SSLContext:
        """Return the context of the certificate and its key. Raises BadSetting if they do not match."""
        certificate, key, _ = self._paths.values()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(certificate, key, password=_refuse_password)
        except (ssl.SSLError, OSError) as error:
            raise BadSetting(
                f"HANSEI_TLS_CERTIFICATE, HANSEI_TLS_KEY: {certificate} and {key} are not a certificate and its key"
                f" ({_describe_reason(error)})"
            ) from error
        return context

    def _check_authorities(self, content: bytes) -> None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=content.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            path = self._paths["HANSEI_TLS_AUTHORITIES"]
            raise BadSetting(
                f"HANSEI_TLS_AUTHORITIES: {path} holds no certificates ({_describe_reason(error)})"
            ) from error

    def for_server(self, *, require_client_certificate: bool) -> grpc.ServerCredentials:
        """Return the credentials of a gRPC server.

        With `require_client_certificate`, callers must present a certificate that the authorities signed.
        """
        used_bundle = self.get_current(now=True)

        def renew_configuration() -> Any:
            """Return the new configuration for a handshake; None, which keeps the current one, without a renewal.

            gRPC replaces its configuration without a lock: with a new one for each handshake, it crashed about once in
            2,000 simultaneous handshakes (grpcio 1.85, docs/adr/090-tls.md). So it gets one for each renewal.
            """
            nonlocal used_bundle
            with self._handshake_lock:
                bundle = self.get_current(now=True)
                if bundle is used_bundle:
                    return None
                used_bundle = bundle
            return _build_configuration(bundle, require_client_certificate)

        return grpc.dynamic_ssl_server_credentials(
            _build_configuration(used_bundle, require_client_certificate),
            renew_configuration,
            require_client_authentication=require_client_certificate,
        )

    def for_http(self) -> ssl.SSLContext:
        """Return the context for Python's own servers, which requests no client certificates."""
        context = self.get_current().for_http
        context.sni_callback = self._renew_context
        return context

    def _renew_context(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        """Set the current certificate for the connection of a handshake."""
        connection.context = self.get_current(now=True).for_http

    def watch_expiry(self) -> None:
        """Report the remaining validity of the certificate as a metric."""
        meter.create_observable_gauge(
            "hansei.tls.certificate.remaining",
            [self._observe_remaining],
            unit="s",
            description="Seconds until the certificate of this process expires.",
        )

    def _observe_remaining(self, _: CallbackOptions) -> Iterable[Observation]:
        yield Observation((self.get_current().expires - datetime.now(UTC)).total_seconds())


def _build_configuration(bundle: Bundle, require_client_certificate: bool) -> Any:
    pairs = [(bundle.key, bundle.certificate)]
    return grpc.ssl_server_certificate_configuration(pairs, bundle.authorities if require_client_certificate else None)


def build_credentials(bundle: Bundle) -> grpc.ChannelCredentials:
    """Return the credentials of a channel with the certificate, which accepts servers of the authorities."""
    return grpc.ssl_channel_credentials(bundle.authorities, bundle.key, bundle.certificate)


class Callers:
    """The callers that are allowed, by the subject alternative names of their certificates."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    def check(self, context: Any) -> None:
        """Raise `PermissionDenied` unless the caller of this gRPC context may call."""
        if ANYONE in self._names:
            return
        caller_names = [name.decode("utf-8", "replace") for name in context.auth_context().get(_NAMES_KEY, ())]
        if self._names.isdisjoint(caller_names):
            caller = shorten(", ".join(caller_names)) or "a caller without a name"
            raise PermissionDenied(f"{caller} may not call this service", reason="CALLER_NOT_ALLOWED")


def is_loopback(address: str) -> bool:
    """Return whether an address, or each of several with commas between, stays on this machine."""
    if address.startswith(("unix:", "unix-abstract:")):
        return True
    for scheme in _SCHEMES:
        address = address.removeprefix(scheme)
    return all(_is_loopback_host(part) for part in address.split(","))


def _is_loopback_host(address: str) -> bool:
    host = (address.rpartition(":")[0] or address).strip("[]")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_plaintext_allowed(kind: str, address: str, variable: str, settings_plaintext: Iterable[str]) -> None:
    """Raise `BadSetting` for plaintext of a `kind` at an address beyond loopback, unless the settings allow it."""
    if address and not is_loopback(address) and kind not in settings_plaintext:
        raise BadSetting(
            f"{variable}: {address!r} is beyond this machine, and {kind} there would be plaintext. Set the"
            f" HANSEI_TLS_* files, or allow plaintext: HANSEI_PLAINTEXT={kind}"
        )


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_ino, status.st_size)


def _read_content(variable: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise BadSetting(f"{variable}: cannot read {path!r}: {error.strerror}") from error


def _read_names_and_expiry(chain: bytes) -> tuple[tuple[str, ...], datetime]:
    """Return the names of the first certificate, and when it expires."""
    from cryptography import x509

    leaf = x509.load_pem_x509_certificates(chain)[0]
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return (), leaf.not_valid_after_utc
    subjects = (*names.get_values_for_type(x509.DNSName), *names.get_values_for_type(x509.UniformResourceIdentifier))
    return subjects, leaf.not_valid_after_utc


def _refuse_password() -> str:
    raise ValueError("the private key is encrypted; it must have no password")


def _describe_reason(error: Exception) -> str:
    return getattr(error, "reason", "") or getattr(error, "strerror", "") or str(error)
