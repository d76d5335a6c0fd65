"""Trusted certificates for TLS connections: the system's; SSL_CERT_FILE and SSL_CERT_DIR come first."""

import os
import ssl
import sys


def system_context() -> ssl.SSLContext:
    """Return a context for HTTP/1.1. Takes tens of milliseconds: the roots are read."""
    if sys.platform in ("darwin", "win32") and not (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")):
        import truststore  # the system's own verifier

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
