"""Test both clients over TLS, with files from the environment and from `tls=`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from chassis import BadSetting, Certificates, ServiceSettings, serve
from chassis.errors import HanseiError, Unavailable, Unimplemented
from chassis.tests.probe import Probe, service
from hansei.client import AsyncClient, Client
from hansei.client.tls import Tls, TlsChoice
from tests.fakes.authority import Authority

Ask = Callable[[str, TlsChoice], Awaitable[type[Exception]]]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    return Authority().issue(tmp_path, "localhost")


@pytest.fixture
async def address(files: dict[str, str]) -> AsyncIterator[str]:
    """Serve none of the services, so that every call ends with UNIMPLEMENTED."""
    settings = ServiceSettings(
        tls_certificate=files["HANSEI_TLS_CERTIFICATE"],
        tls_key=files["HANSEI_TLS_KEY"],
        tls_authorities=files["HANSEI_TLS_AUTHORITIES"],
        lame_duck_seconds=0,
        drain_grace_seconds=5,
    )
    async with serve(service(Probe()), settings=settings, certificates=Certificates.from_settings(settings)) as running:
        yield running.address.replace("127.0.0.1", "localhost")


async def call_blocking(address: str, tls: TlsChoice) -> type[Exception]:
    def ask() -> type[Exception]:
        with Client(address, tls=tls) as client, pytest.raises(HanseiError) as raised:
            client.playbooks.list_datasets()
        return raised.type

    return await asyncio.to_thread(ask)


async def call_async(address: str, tls: TlsChoice) -> type[Exception]:
    async with AsyncClient(address, tls=tls) as client:
        with pytest.raises(HanseiError) as raised:
            await client.playbooks.list_datasets()
    return raised.type


@pytest.mark.parametrize("ask", [call_blocking, call_async])
async def test_clients_speak_tls(
    address: str, files: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ask: Ask
) -> None:
    authorities = files["HANSEI_TLS_AUTHORITIES"]
    assert await ask(address, Tls(authorities=authorities)) is Unimplemented
    assert await ask(address, None) is Unavailable
    monkeypatch.setenv("HANSEI_TLS_AUTHORITIES", authorities)
    assert await ask(address, None) is Unimplemented
    assert await ask(address, False) is Unavailable
    other = Authority().issue(tmp_path / "other", "localhost")["HANSEI_TLS_AUTHORITIES"]
    assert await ask(address, Tls(authorities=other)) is Unavailable


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="HANSEI_TLS_AUTHORITIES: cannot read"):
        Client(tls=Tls(authorities=str(tmp_path / "none.crt")))
    with pytest.raises(BadSetting, match="belong together"):
        Client(tls=Tls(certificate=str(tmp_path / "tls.crt")))
