"""Anthropic Messages, and services that speak the same wire."""
