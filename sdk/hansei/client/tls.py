"""TLS of the clients: whom they believe, and what certificate they show."""

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
    """Names of PEM files, read when the client is made."""

    authorities: str = ""
    """The certificates of the authorities that may have signed the gateway's. Empty: those that gRPC comes with."""

    certificate: str = ""
    """The certificate to show, with its chain; only a server that names its callers asks for one."""

    key: str = ""
    """The private key of that certificate."""

    @classmethod
    def from_environment(cls) -> Self | None:
        """That of HANSEI_TLS_AUTHORITIES, HANSEI_TLS_CERTIFICATE and HANSEI_TLS_KEY; None, plaintext, without them."""
        given = {name: os.environ.get(variable, "") for name, variable in _VARIABLES.items()}
        return cls(**given) if any(given.values()) else None

    def credentials(self) -> grpc.ChannelCredentials:
        """For a gRPC channel. Raises `BadSetting` for a file that cannot be read, and a certificate without its key."""
        if bool(self.certificate) != bool(self.key):
            raise BadSetting("HANSEI_TLS_CERTIFICATE and HANSEI_TLS_KEY: a certificate and its key belong together")
        return grpc.ssl_channel_credentials(
            _content("authorities", self.authorities),
            _content("key", self.key),
            _content("certificate", self.certificate),
        )


TlsChoice = Tls | Literal[False] | None
"""What a client is given: files, False for plaintext, or None for what the environment says."""


def credentials_of(choice: TlsChoice) -> grpc.ChannelCredentials | None:
    """The credentials of a choice; None: plaintext."""
    chosen = Tls.from_environment() if choice is None else choice
    return chosen.credentials() if chosen else None


def _content(name: str, path: str) -> bytes | None:
    try:
        return Path(path).read_bytes() if path else None
    except OSError as error:
        raise BadSetting(f"{_VARIABLES[name]}: cannot read {path!r}: {error.strerror}") from error
