"""Certificates from files, allowed callers, and addresses of this machine."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from chassis import tls
from chassis.errors import PermissionDenied
from chassis.settings import BadSetting, ServiceSettings
from chassis.tls import Callers, Certificates, is_loopback, require_plaintext_allowed
from tests.fakes.authority import Authority


def certificates_in(folder: Path, authority: Authority, *names: str) -> Certificates:
    return Certificates(*authority.issue(folder, *names).values())


def test_without_files_there_is_no_tls() -> None:
    assert Certificates.from_settings(ServiceSettings()) is None


@pytest.mark.parametrize("missing", ["tls_certificate", "tls_key", "tls_authorities"])
def test_one_tls_file_without_the_others_is_refused(tmp_path: Path, missing: str) -> None:
    names = ["tls_certificate", "tls_key", "tls_authorities"]
    files: dict[str, Any] = dict(zip(names, Authority().issue(tmp_path, "a").values(), strict=True))
    settings = ServiceSettings(**{**files, missing: ""})
    with pytest.raises(BadSetting, match=f"HANSEI_{missing.upper()}: TLS needs"):
        Certificates.from_settings(settings)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("tls.crt", None, r"HANSEI_TLS_CERTIFICATE: cannot read .*tls\.crt.*No such file"),
        ("tls.key", b"no key", "HANSEI_TLS_CERTIFICATE, HANSEI_TLS_KEY: .* are not a certificate and its key"),
        ("tls.key", "another's", "KEY_VALUES_MISMATCH"),
        ("ca.crt", b"\xff\xfe", "HANSEI_TLS_AUTHORITIES: .*ca.crt holds no certificates"),
        ("ca.crt", b"", "HANSEI_TLS_AUTHORITIES: .*ca.crt holds no certificates"),
    ],
)
def test_unusable_files_are_named(tmp_path: Path, file: str, content: bytes | str | None, message: str) -> None:
    authority = Authority()
    settings = authority.issue(tmp_path, "a")
    authority.issue(tmp_path / "other", "b")
    if content is None:
        (tmp_path / file).unlink()
    else:
        other = (tmp_path / "other" / file).read_bytes()
        (tmp_path / file).write_bytes(other if isinstance(content, str) else content)
    with pytest.raises(BadSetting, match=message) as caught:
        Certificates(*settings.values())
    assert "PRIVATE KEY" not in str(caught.value)


def test_a_renewed_certificate_is_used_after_the_next_check(tmp_path: Path) -> None:
    authority = Authority()
    certificates = certificates_in(tmp_path, authority, "curator", "curator.hansei.svc")
    first = certificates.get_current(now=True)
    assert first.names == ("curator", "curator.hansei.svc")
    assert certificates.get_current(now=True) is first
    authority.issue(tmp_path, "renewed", valid=timedelta(days=30))
    assert certificates.get_current() is first  # the files are checked only once every few seconds
    renewed = certificates.get_current(now=True)
    assert renewed.names == ("renewed",)
    assert renewed.expires - first.expires > timedelta(days=28)


def test_files_that_do_not_match_yet_are_ignored(tmp_path: Path) -> None:
    authority = Authority()
    certificates = certificates_in(tmp_path, authority, "old")
    authority.issue(tmp_path / "new", "new")
    (tmp_path / "tls.crt").write_bytes((tmp_path / "new" / "tls.crt").read_bytes())
    assert certificates.get_current(now=True).names == ("old",)
    (tmp_path / "tls.key").unlink()
    assert certificates.get_current(now=True).names == ("old",)
    (tmp_path / "tls.key").write_bytes((tmp_path / "new" / "tls.key").read_bytes())
    assert certificates.get_current(now=True).names == ("new",)


def test_the_remaining_time_of_a_certificate_is_measured(tmp_path: Path) -> None:
    certificates = Certificates(*Authority().issue(tmp_path, "a", valid=timedelta(hours=1)).values())
    (observation,) = certificates._observe_remaining(None)  # type: ignore[arg-type]
    assert 3500 < observation.value <= 3600


class Context:
    def __init__(self, *names: str) -> None:
        self._names = [name.encode() for name in names]

    def auth_context(self) -> dict[str, Any]:
        return {"x509_subject_alternative_name": self._names, "x509_common_name": [b"gateway"]}


def test_callers_are_identified_by_the_names_of_their_certificates() -> None:
    callers = Callers(["gateway", "search"])
    callers.check(Context("search.hansei.svc", "search"))
    for names in (["planner"], ["gateway.evil"], []):
        with pytest.raises(PermissionDenied) as caught:
            callers.check(Context(*names))
        assert caught.value.reason == "CALLER_NOT_ALLOWED"
    Callers([tls.ANYONE]).check(Context())


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("127.0.0.1:50051", True),
        ("127.8.9.1:1", True),
        ("localhost:1", True),
        ("dns:///localhost:1", True),
        ("[::1]:50051", True),
        ("unix:/run/hansei.sock", True),
        ("ipv4:127.0.0.1:1,127.0.0.1:2", True),
        ("ipv4:127.0.0.1:1,10.0.0.1:2", False),
        ("0.0.0.0:50051", False),
        ("[::]:50051", False),
        ("curator:50051", False),
        ("dns:///curator.hansei.svc:50051", False),
        ("10.0.0.1:1", False),
        ("localhost.example.com:1", False),
        ("127.0.0.1.example.com:1", False),
    ],
)
def test_loopback_addresses_are_on_this_machine(address: str, loopback: bool) -> None:
    assert is_loopback(address) is loopback


def test_plaintext_beyond_this_machine_needs_the_setting() -> None:
    require_plaintext_allowed("grpc", "127.0.0.1:1", "X", ())
    require_plaintext_allowed("grpc", "0.0.0.0:1", "X", ("grpc",))
    require_plaintext_allowed("metrics", "", "X", ())
    with pytest.raises(BadSetting, match=r"^X: '0\.0\.0\.0:1' is beyond this machine.*HANSEI_PLAINTEXT=metrics$"):
        require_plaintext_allowed("metrics", "0.0.0.0:1", "X", ("grpc",))


def test_an_unknown_kind_of_plaintext_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown: ftp"):
        ServiceSettings(plaintext="grpc, ftp")
    assert ServiceSettings(plaintext=" grpc ,metrics,").plaintext_kinds == ("grpc", "metrics")
