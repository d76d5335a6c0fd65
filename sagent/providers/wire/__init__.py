"""Bytes to a provider and back: connections, exchanges, request bodies and errors. Knows no family."""
