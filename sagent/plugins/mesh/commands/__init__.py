"""Subcommands about a bus, and runs on one."""
