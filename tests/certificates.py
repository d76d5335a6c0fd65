"""Certificates for servers and clients of tests, each signed by an authority of its own or by one that is given."""

import datetime as dt
from pathlib import Path

import trustme


def write_certificate(path: Path, *hosts: str, authority: trustme.CA | None = None, days: int = 1) -> Path:
    """A certificate, its authority's and its key in one PEM file; it holds for `days`, or ended so many days ago."""
    authority = authority or trustme.CA()
    made = authority.issue_cert(*hosts, not_after=dt.datetime.now(dt.UTC) + dt.timedelta(days))
    parts = (made.private_key_pem, *made.cert_chain_pems, authority.cert_pem)
    path.write_bytes(b"".join(part.bytes() for part in parts))
    return path
