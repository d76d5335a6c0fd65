"""Hooks: commands and URLs that are asked at fixed moments of a session."""
