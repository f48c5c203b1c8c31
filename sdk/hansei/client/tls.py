"""TLS of the clients: the authorities that they trust, and the certificate that they present."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import grpc

from chassis.errors import BadSetting

_VARIABLES = {
    "authorities": "HANSEI_TLS_AUTHORITIES",
    "certificate": "HANSEI_TLS_CERTIFICATE",
    "key": "HANSEI_TLS_KEY",
}


@dataclass(frozen=True, slots=True)
class Tls:
    """The names of PEM files, which are read when the client is made."""

    authorities: str = ""
    """The certificates of the authorities that may have signed the gateway's. Empty: those built into gRPC."""

    certificate: str = ""
    """The client's certificate with its chain; only a server with `HANSEI_TLS_CALLERS` requires one."""

    key: str = ""
    """The private key of that certificate."""

    @classmethod
    def from_environment(cls) -> Self | None:
        """Return the files of the HANSEI_TLS_* variables; None, which means plaintext, if all are unset."""
        files = {name: os.environ.get(variable, "") for name, variable in _VARIABLES.items()}
        return cls(**files) if any(files.values()) else None

    def credentials(self) -> grpc.ChannelCredentials:
        """Return the credentials of a gRPC channel.

        Raises:
            BadSetting: a file cannot be read, or a certificate is set without its key.
        """
        if bool(self.certificate) != bool(self.key):
            raise BadSetting("HANSEI_TLS_CERTIFICATE and HANSEI_TLS_KEY belong together: set both, or none")
        return grpc.ssl_channel_credentials(
            _read_content("authorities", self.authorities),
            _read_content("key", self.key),
            _read_content("certificate", self.certificate),
        )


TlsChoice = Tls | Literal[False] | None
"""The TLS files of a client, False for plaintext, or None for the files that the environment names."""


def build_credentials(choice: TlsChoice) -> grpc.ChannelCredentials | None:
    """Return the credentials of a choice; None means plaintext."""
    tls = Tls.from_environment() if choice is None else choice
    return tls.credentials() if tls else None


def _read_content(name: str, path: str) -> bytes | None:
    try:
        return Path(path).read_bytes() if path else None
    except OSError as error:
        raise BadSetting(f"{_VARIABLES[name]}: cannot read {path!r}: {error.strerror}") from error
