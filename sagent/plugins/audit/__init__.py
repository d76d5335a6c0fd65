"""Proof that a session is as it was written: hashes, signatures, bundles; and the repair of one that is not."""

from sagent.plugin import Command, Extra, Plugin

plugin = Plugin(
    "audit",
    "proof that sessions are as they were written, and their repair",
    commands=(
        Command(
            "verify",
            "check that a session, or an exported bundle, has not been changed",
            f"{__name__}.command:run_verify",
        ),
    ),
    extras=(
        Extra("sessions repair", f"{__name__}.repair_command:run_repair", "keep the intact part of a damaged log"),
    ),
)
