"""Roots that this machine trusts, read when a handshake needs them and not before.

To read them takes tens of milliseconds, and each client of a library for HTTP has them read, though all that tests
reach is on loopback and most of it without TLS: this was a tenth of what all tests take. A bundle that could be read
once is noted in a context, and read before the first use of it, in this process and its forks.
"""

import os
import ssl
from collections.abc import Callable
from typing import Any

LARGE = 50_000  # bytes: a certificate that a test makes is read at once
USES = ("_wrap_socket", "_wrap_bio", "cert_store_stats", "get_ca_certs")
UNREAD = "_unread_roots"


def defer() -> None:
    """Let contexts of this process read bundles late."""
    kind = ssl.SSLContext
    if "load_verify_locations" in kind.__dict__:
        return
    read, read_default, seen = kind.load_verify_locations, kind.set_default_verify_paths, set[tuple[str, int, int]]()

    def load_verify_locations(self: ssl.SSLContext, cafile: Any = None, capath: Any = None, cadata: Any = None) -> None:
        key = _bundle(cafile) if cadata is None else None
        if key in seen:
            self.__dict__.setdefault(UNREAD, []).append((cafile, capath))
            return
        read(self, cafile, capath, cadata)
        if key:
            seen.add(key)

    def set_default_verify_paths(self: ssl.SSLContext) -> None:
        found = ssl.get_default_verify_paths()
        if (
            os.environ.get("SSL_CERT_FILE")
            or os.environ.get("SSL_CERT_DIR")
            or not os.path.isfile(found.openssl_cafile)
        ):
            read_default(self)
        else:
            capath = found.openssl_capath if os.path.isdir(found.openssl_capath) else None
            self.load_verify_locations(found.openssl_cafile, capath)

    def reading_first(use: Callable[..., Any]) -> Callable[..., Any]:
        def called(self: ssl.SSLContext, *args: Any, **options: Any) -> Any:
            for cafile, capath in self.__dict__.pop(UNREAD, ()):
                read(self, cafile, capath, None)
            return use(self, *args, **options)

        return called

    for name in USES:
        setattr(kind, name, reading_first(getattr(kind, name)))
    kind.load_verify_locations, kind.set_default_verify_paths = load_verify_locations, set_default_verify_paths


def _bundle(cafile: object) -> tuple[str, int, int] | None:
    """Return what tells a large bundle from what may stand at its place later."""
    if not isinstance(cafile, (str, os.PathLike)) or not os.path.isfile(cafile):
        return None
    about = os.stat(cafile)
    return (os.fspath(cafile), about.st_mtime_ns, about.st_size) if about.st_size > LARGE else None
