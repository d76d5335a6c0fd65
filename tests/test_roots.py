"""Roots that contexts of these tests read late."""

import ssl
from pathlib import Path

import certifi

from tests.certificates import write_certificate
from tests.roots import UNREAD, defer


def test_late_roots_are_all_there() -> None:
    defer()
    first, second = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context in (first, second):
        context.load_verify_locations(certifi.where())
    assert UNREAD in second.__dict__
    assert len(second.get_ca_certs()) > 50
    assert first.get_ca_certs() == second.get_ca_certs()


def test_use_reads_roots() -> None:
    defer()
    used = [ssl.create_default_context(cafile=certifi.where()) for _ in range(2)][1]
    assert UNREAD in used.__dict__
    used.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="example.org")
    assert UNREAD not in used.__dict__
    assert used.cert_store_stats()["x509"] > 50


def test_small_bundle_read_at_once(tmp_path: Path) -> None:
    defer()
    certificate = write_certificate(tmp_path / "own.pem", "example.org")
    for _ in range(2):
        context = ssl.create_default_context(cafile=certificate)
        assert UNREAD not in context.__dict__
        assert context.get_ca_certs()
