"""Credentials as an attacker would use them: forged, expired, revoked, of another kind."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from sqlalchemy import create_engine, text

from chassis.errors import HanseiError, InvalidArgument, NotFound
from chassis.guard import own_credential, read_credential
from chassis.settings import BadSetting
from gateway.access.adapters.issuer_tokens import IssuerTokens, TokenIssuer
from gateway.access.adapters.sql.repository import AccessRepository
from gateway.access.adapters.sql.schema import MIGRATIONS
from gateway.access.bootstrap import build_access
from gateway.access.domain.api_key import ApiKey, ApiKeyRequest
from gateway.access.domain.errors import CredentialInvalid, CredentialMissing
from gateway.access.domain.principal import SYSTEM, Allowance, build_tenant_prefix, validate_tenant
from gateway.access.settings import AccessSettings
from gateway.access.tests.access_system import AccessSystem, open_access
from gateway.access.usecases.api_keys import ApiKeys
from gateway.contract import load_contract
from libs.storage.database import Database

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())


async def test_a_key_authenticates_its_principal(tmp_path: Path) -> None:
    async with open_access(tmp_path) as system:
        who = await system.guard.authenticate(await system.key("acme", "read", "learn", calls_per_day=5))
    assert (who.tenant, who.scopes, who.allowance.calls_per_day) == ("acme", {"read", "learn"}, 5)
    assert who.name.startswith("test.")


async def test_a_key_is_stored_as_a_hash(tmp_path: Path) -> None:
    async with open_access(tmp_path) as system:
        credential = await system.key("acme", "read")
    secret = credential.split("_", 2)[2]
    for file in list(tmp_path.iterdir()):  # noqa: ASYNC240
        assert secret.encode() not in file.read_bytes()


@pytest.mark.parametrize("wrong", ["", "Basic eDp5", "Bearer", "Bearer ", "token", "Bearer\t"])
async def test_a_missing_credential_is_reported_as_missing(tmp_path: Path, wrong: str) -> None:
    async with open_access(tmp_path) as system:
        with pytest.raises(CredentialMissing):
            await system.guard.authenticate(wrong)


async def test_a_forged_key_is_refused_without_a_hint(tmp_path: Path) -> None:
    async with open_access(tmp_path) as system:
        good = await system.key("acme", "read")
        head, _, secret = good.rpartition("_")
        unknown = "Bearer hansei_" + "0" * 16 + "_" + secret
        forged = [
            f"{head}_{'A' * 43}",
            unknown,
            good[:-1],
            good + "A",
            good.upper(),
            "Bearer hansei_x",
            "Bearer \u00e9",
        ]
        messages = {str(await refusal(system, credential)) for credential in forged}
    assert messages == {str(CredentialInvalid())}  # the same error for all


async def refusal(system: AccessSystem, credential: str) -> HanseiError:
    with pytest.raises(CredentialInvalid) as caught:
        await system.guard.authenticate(credential)
    return caught.value


async def test_a_key_expires_at_its_expiry(tmp_path: Path) -> None:
    async with open_access(tmp_path) as system:
        credential = await system.key("acme", "read", seconds=60)
        system.clock.move(59)
        await system.guard.authenticate(credential)
        system.clock.move(1)
        await refusal(system, credential)


async def test_a_revoked_key_is_refused_at_once_here_and_soon_by_other_gateways(tmp_path: Path) -> None:
    async with open_access(tmp_path) as here, open_access(tmp_path) as elsewhere:
        credential = await here.key("acme", "read")
        who = await here.guard.authenticate(credential)
        await elsewhere.guard.authenticate(credential)
        await here.access.keys.revoke_key(who.key_id, "")
        await refusal(here, credential)
        await elsewhere.guard.authenticate(credential)  # its cached keys are still fresh
        elsewhere.clock.move(5)
        await refusal(elsewhere, credential)


class OvertakenStore:
    """A store whose first read returns when it may, with the key as it was when it was read."""

    def __init__(self, repository: AccessRepository) -> None:
        self._repository = repository
        self.has_read, self.may_return = asyncio.Event(), asyncio.Event()

    async def find_key(self, key_id: str) -> ApiKey | None:
        key = await self._repository.find_key(key_id)
        if not self.has_read.is_set():
            self.has_read.set()
            await self.may_return.wait()
        return key

    def __getattr__(self, name: str) -> Any:
        return getattr(self._repository, name)


async def test_a_read_that_a_revocation_overtakes_does_not_keep_the_key_valid(tmp_path: Path) -> None:
    async with open_access(tmp_path) as system:
        store = OvertakenStore(system.access.repository)
        keys = ApiKeys(store, seconds=system.clock.monotonic, now=system.clock.now, cache_seconds=5)
        key, credential = await keys.create_key(ApiKeyRequest("test", "acme", ["read"], Allowance(), None), "test")
        reading = asyncio.create_task(keys.authenticate(credential))
        await store.has_read.wait()
        await keys.revoke_key(key.id, "acme")
        store.may_return.set()
        await reading
        with pytest.raises(CredentialInvalid):
            await keys.authenticate(credential)


async def test_a_tenant_revokes_its_own_keys_only(tmp_path: Path) -> None:
    async with open_access(tmp_path) as system:
        who = await system.guard.authenticate(await system.key("acme", "read"))
        with pytest.raises(NotFound) as others:
            await system.access.keys.revoke_key(who.key_id, "evil")
        with pytest.raises(NotFound) as unknown:
            await system.access.keys.revoke_key("0" * 16, "evil")
        assert (await system.access.keys.revoke_key(who.key_id, "acme")).revoked_at is not None
    assert (others.value.reason, unknown.value.reason) == ("KEY_NOT_FOUND", "KEY_NOT_FOUND")


async def test_the_last_use_of_a_key_is_stored(tmp_path: Path) -> None:
    async with open_access(tmp_path) as system:
        await system.guard.authenticate(await system.key("acme", "read"))
        used_at = system.clock.now()
        await system.access.synchronization.synchronize()
        (key,) = await system.access.repository.list_keys("acme", "", 10)
    assert key.last_used_at == used_at


async def test_an_earlier_use_at_another_gateway_does_not_replace_the_last_use(tmp_path: Path) -> None:
    async with open_access(tmp_path) as slow, open_access(tmp_path) as fast:
        credential = await slow.key("acme", "read")
        await slow.guard.authenticate(credential)
        fast.clock.move(3)
        await fast.guard.authenticate(credential)
        for system in (fast, slow):
            await system.access.synchronization.synchronize()
        (key,) = await slow.access.repository.list_keys("acme", "", 10)
    assert key.last_used_at == fast.clock.now()


async def test_the_credential_of_the_process_authenticates_the_system(tmp_path: Path) -> None:
    async with open_access(tmp_path) as system:
        assert await system.guard.authenticate(own_credential()) is SYSTEM


async def test_a_broken_database_admits_no_caller(tmp_path: Path) -> None:
    async with open_access(tmp_path) as system:
        credential = await system.key("acme", "read")
        with create_engine(f"sqlite:///{tmp_path / 'gateway.db'}").begin() as connection:
            connection.execute(text("ALTER TABLE access_key RENAME TO gone"))
        with pytest.raises(HanseiError) as caught:
            await system.guard.authenticate(credential)
        assert caught.value.code == "INTERNAL"
        assert "access_key" not in caught.value.message
        with create_engine(f"sqlite:///{tmp_path / 'gateway.db'}").begin() as connection:
            connection.execute(text("ALTER TABLE gone RENAME TO access_key"))


def test_several_credentials_count_as_none() -> None:
    assert read_credential([("authorization", "Bearer a")]) == "Bearer a"
    assert read_credential([("authorization", "Bearer a"), ("authorization", "Bearer b")]) == ""
    assert read_credential([("authorization", b"Bearer a")]) == ""


@pytest.mark.parametrize("tenant", ["a--b", "-a", "a-", "A", "a_b", "a b", "a" * 33, "é"])
def test_a_tenant_cannot_be_mistaken_for_another(tenant: str) -> None:
    with pytest.raises(InvalidArgument):
        validate_tenant(tenant)


def test_no_tenant_prefix_begins_with_another() -> None:
    tenants = ["a", "ab", "a-b", "a1", "a-b-c"]
    prefixes = [build_tenant_prefix(validate_tenant(tenant)) for tenant in tenants]
    assert [(x, y) for x in prefixes for y in prefixes if x != y and y.startswith(x)] == []


# Tokens of an issuer


def build_key_set(*keys: tuple[str, Any]) -> dict[str, Any]:
    made = []
    for kid, key in keys:
        form = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
        made.append({**json.loads(form.to_jwk(key.public_key())), "kid": kid, "use": "sig"})
    return {"keys": made}


def jwks(folder: Path, *keys: tuple[str, Any]) -> str:
    file = folder / "jwks.json"
    file.write_text(json.dumps(build_key_set(*keys)))
    return str(file)


def claims(system: AccessSystem, **changes: Any) -> dict[str, Any]:
    payload = {
        "iss": "https://id.example",
        "aud": "hansei",
        "sub": "ann",
        "exp": system.clock.now() + timedelta(minutes=5),
        "tenant": "acme",
        "scope": "openid read learn",
        **changes,
    }
    return {name: value for name, value in payload.items() if value is not None}


def sign(payload: Mapping[str, Any], key: Any = RSA, alg: str | None = "RS256", **header: Any) -> str:
    return "Bearer " + jwt.encode(dict(payload), key, algorithm=alg, headers={"kid": "one", **header})


async def test_a_token_names_the_principal_and_the_expiry(tmp_path: Path) -> None:
    async with open_access(tmp_path, **issuer_at(tmp_path)) as system:
        who = await system.guard.authenticate(sign(claims(system)))
        listed = await system.guard.authenticate(sign(claims(system, scope=["admin", "root"])))
        elliptic = await system.guard.authenticate(sign(claims(system), EC, "ES256", kid="two"))
    assert (who.name, who.tenant, who.scopes) == ("oidc:ann", "acme", {"read", "learn"})  # unknown scopes are none
    assert who.expires_at == system.clock.now() + timedelta(minutes=5, seconds=30)
    assert listed.scopes == {"admin"}
    assert elliptic == who


def issuer_at(folder: Path) -> dict[str, Any]:
    settings = {"oidc_issuer": "https://id.example", "oidc_audience": "hansei"}
    return {**settings, "oidc_jwks": jwks(folder, ("one", RSA), ("two", EC))}


async def test_forged_tokens_are_refused(tmp_path: Path) -> None:
    async with open_access(tmp_path, **issuer_at(tmp_path)) as system:
        good = claims(system)
        public = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        header, payload, signature = sign(good).removeprefix("Bearer ").split(".")
        admin = jwt.encode({**good, "scope": "admin"}, OTHER, algorithm="RS256").split(".")[1]
        now = system.clock.now()
        forged = {
            "alg none": sign(good, None, "none"),
            "no signature": f"Bearer {header}.{payload}.",
            "other key": sign(good, OTHER),
            "claims exchanged": f"Bearer {header}.{admin}.{signature}",
            "public key as secret": "Bearer " + sign_hmac(good, public),
            "unknown kid": sign(good, OTHER, kid="three"),
            "key of another algorithm": sign(good, EC, "ES256", kid="one"),
            "own key in the header": sign(good, OTHER, jwk=json.loads(RSAAlgorithm.to_jwk(OTHER.public_key()))),
            "critical header": sign(good, crit=["exp"], exp=1),
            "expired": sign({**good, "exp": now - timedelta(seconds=30)}),
            "not yet": sign({**good, "nbf": now + timedelta(seconds=31)}),
            "from the future": sign({**good, "iat": now + timedelta(seconds=31)}),
            "other issuer": sign({**good, "iss": "https://evil.example"}),
            "other audience": sign({**good, "aud": "another"}),
            "no end": sign(claims(system, exp=None)),
            "endless": sign({**good, "exp": 10**30}),
            "no subject": sign(claims(system, sub=None)),
            "no tenant": sign(claims(system, tenant=None)),
            "empty tenant": sign({**good, "tenant": ""}),
            "tenant of another shape": sign({**good, "tenant": ["acme"]}),
            "tenant with a prefix in it": sign({**good, "tenant": "acme--x"}),
            "scopes as an object": sign({**good, "scope": {"admin": True}}),
            "scopes as a number": sign({**good, "scope": 7}),
            "scopes with a number among them": sign({**good, "scope": ["admin", 1]}),
            "subject with a line break": sign({**good, "sub": "a\nb"}),
            "too long": "Bearer " + "a" * 20_000,
            "no token": "Bearer a.b.c",
        }
        for name, credential in forged.items():
            with pytest.raises(CredentialInvalid):
                raise AssertionError(f"{name}: {await system.guard.authenticate(credential)}")


def sign_hmac(payload: Mapping[str, Any], secret: bytes) -> str:
    """Return a token whose HMAC secret is the public key: PyJWT refuses to sign it."""

    def part(value: bytes) -> str:
        return base64.urlsafe_b64encode(value).decode().rstrip("=")

    header = json.dumps({"alg": "HS256", "kid": "one"}).encode()
    head = f"{part(header)}.{part(json.dumps(payload, default=lambda at: at.timestamp()).encode())}"
    return f"{head}.{part(hmac.new(secret, head.encode(), hashlib.sha256).digest())}"


async def test_only_the_named_tenant_is_the_operator(tmp_path: Path) -> None:
    settings = issuer_at(tmp_path)
    async with open_access(tmp_path, oidc_operator_tenant="ops", **settings) as system:
        operator = await system.guard.authenticate(sign(claims(system, tenant="ops", scope="read")))
        tenant = await system.guard.authenticate(sign(claims(system)))
    assert (operator.tenant, tenant.tenant) == ("", "acme")


async def test_new_issuer_keys_are_loaded_and_an_outage_keeps_the_cached_ones(tmp_path: Path) -> None:
    async with open_access(tmp_path, **issuer_at(tmp_path)) as system:
        await system.guard.authenticate(sign(claims(system)))
        jwks(tmp_path, ("one", RSA), ("new", OTHER))
        system.clock.move(10)
        await system.guard.authenticate(sign(claims(system), OTHER, kid="new"))
        (tmp_path / "jwks.json").unlink()
        system.clock.move(400)
        await system.guard.authenticate(sign(claims(system), OTHER, kid="new"))


async def test_tokens_that_arrive_during_the_first_fetch_of_the_keys_wait_for_it(tmp_path: Path) -> None:
    fetches: asyncio.Queue[asyncio.Future[dict[str, Any]]] = asyncio.Queue()

    async def fetch_key_set() -> dict[str, Any]:
        fetch: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        fetches.put_nowait(fetch)
        return await fetch

    async with open_access(tmp_path) as system:
        issuer = TokenIssuer("https://id.example", "hansei", ["RS256"], 30.0, "tenant", "scope", "", Allowance())
        tokens = IssuerTokens(issuer, fetch_key_set, seconds=system.clock.monotonic, now=system.clock.now)
        token = sign(claims(system)).removeprefix("Bearer ")
        async with asyncio.timeout(30):
            left, *arriving = [asyncio.create_task(tokens.authenticate(token)) for _ in range(3)]
            await fetches.get()
            left.cancel()  # its caller did not wait; the next one fetches the keys
            (await fetches.get()).set_result(build_key_set(("one", RSA)))
        assert [principal.name for principal in await asyncio.gather(*arriving)] == ["oidc:ann"] * 2
    assert (left.cancelled(), fetches.empty()) == (True, True)


# Calls that require a credential


@pytest.mark.parametrize(
    ("settings", "address", "outcome"),
    [
        ({}, "127.0.0.1:0", False),
        ({}, "[::1]:0", False),
        ({"auth": "off"}, "0.0.0.0:80", False),
        ({"GATEWAY_API_TOKEN": "t"}, "127.0.0.1:0", True),
        ({"auth": "on"}, "127.0.0.1:0", True),
        ({}, "0.0.0.0:80", "HANSEI_HTTP_ADDRESS"),
        ({}, "10.0.0.1:80", "HANSEI_HTTP_ADDRESS"),
        ({"auth": "off", "GATEWAY_API_TOKEN": "t"}, "127.0.0.1:0", "GATEWAY_API_TOKEN"),
        ({"oidc_issuer": "https://id"}, "127.0.0.1:0", "HANSEI_OIDC_AUDIENCE"),
        ({"oidc_issuer": "https://id", "oidc_audience": "a"}, "127.0.0.1:0", "HANSEI_OIDC_JWKS"),
        (
            {"oidc_issuer": "https://id", "oidc_audience": "a", "oidc_jwks": "http://id.example/keys"},
            "127.0.0.1:0",
            "HANSEI_OIDC_JWKS",
        ),
        (
            {"oidc_issuer": "https://id", "oidc_audience": "a", "oidc_jwks": "f", "oidc_algorithms": "RS256,HS256"},
            "127.0.0.1:0",
            "HANSEI_OIDC_ALGORITHMS",
        ),
    ],
)
def test_the_gateway_does_not_listen_for_other_machines_without_authentication(
    tmp_path: Path, settings: dict[str, Any], address: str, outcome: bool | str
) -> None:
    database = Database(str(tmp_path / "gateway.db"), MIGRATIONS, service="gateway", store="access store")
    if isinstance(outcome, str):
        with pytest.raises(BadSetting, match=outcome):
            build_access(AccessSettings(**settings), database, load_contract(), {"HANSEI_HTTP_ADDRESS": address})
    else:
        made = build_access(AccessSettings(**settings), database, load_contract(), {"HANSEI_HTTP_ADDRESS": address})
        assert (made.guard is not None) is outcome
