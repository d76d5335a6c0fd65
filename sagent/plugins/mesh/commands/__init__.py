"""Subcommands for buses, and for runs on one."""
