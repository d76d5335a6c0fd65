"""A bus of an operator, with accounts and users as JWTs: a user's credentials file (`.creds`) is all that it takes."""

import json
import time
from base64 import urlsafe_b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import nkeys
import pytest
from buses import Broker, options

from sagent.plugins.mesh.bus import message
from sagent.plugins.mesh.buses.nats import nats_bus
from sagent.plugins.mesh.errors import Refused
from sagent.plugins.mesh.jetstream import connected
from sagent.plugins.mesh.server import ServerOptions, serving

UNLIMITED = ["subs", "data", "payload", "imports", "exports", "conn", "leaf"]
UNLIMITED += ["mem_storage", "disk_storage", "streams", "consumer"]


def _key(prefix: int) -> Any:
    import os

    return nkeys.from_seed(nkeys.encode_seed(os.urandom(32), prefix))


def _jwt(issuer: Any, subject: Any, kind: str, **claims: object) -> str:
    """Signed as NATS has them (its ADR-14)."""

    def part(value: object) -> bytes:
        return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    body = {
        "jti": "x", "iat": int(time.time()), "iss": issuer.public_key.decode(), "name": kind,
        "sub": subject.public_key.decode(), "nats": {**claims, "type": kind, "version": 2},
    }  # fmt: skip
    signed = part({"typ": "JWT", "alg": "ed25519-nkey"}) + b"." + part(body)
    return (signed + b"." + urlsafe_b64encode(issuer.sign(signed)).rstrip(b"=")).decode()


def _credentials(path: Path, issuer: Any) -> Path:
    user = _key(nkeys.PREFIX_BYTE_USER)
    jwt = _jwt(issuer, user, "user", pub={}, sub={}, subs=-1, data=-1, payload=-1)
    path.write_text(
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n------END USER NKEY SEED------\n"
    )
    return path


async def test_credentials_file_opens_account(tmp_path: Path) -> None:
    operator, system, account, other = (
        _key(prefix) for prefix in (nkeys.PREFIX_BYTE_OPERATOR, *[nkeys.PREFIX_BYTE_ACCOUNT] * 3)
    )
    limits = {**dict.fromkeys(UNLIMITED, -1), "wildcards": True}
    known = {key.public_key.decode(): _jwt(operator, key, "account", limits=limits) for key in (account,)}
    plain = {**limits, "mem_storage": 0, "disk_storage": 0}
    known[system.public_key.decode()] = _jwt(operator, system, "account", limits=plain)
    configuration = {
        "operator": _jwt(operator, operator, "operator"), "system_account": system.public_key.decode(),
        "resolver": "MEMORY", "resolver_preload": known,
    }  # fmt: skip
    users = tmp_path / "operator.conf"
    users.write_text(json.dumps(configuration)[1:-1].replace(', "', '\n"'))
    with Broker(replace(options(tmp_path), users=users)) as broker:
        good = _credentials(tmp_path / "good.creds", account)
        async with nats_bus(f"{broker.url}?credentials={good}") as bus:
            await bus.send(message("a", "with a credentials file"))
        bad = _credentials(tmp_path / "bad.creds", other)
        with pytest.raises(Refused):
            async with connected(f"{broker.url}?credentials={bad}"):
                pass


async def test_tls_url_refuses_plain_text(tmp_path: Path) -> None:
    async with serving(ServerOptions(tmp_path, port=0)) as server:
        with pytest.raises(Refused, match="does not use TLS"):
            async with connected(server.url.replace("nats://", "tls://")):
                pass
