"""Sessions over HTTP and server-sent events, and a page that shows them. Needs sagent[serve]."""

from sagent.plugin import SERVERS, Command, Extra, Plugin, SecretFolder, Variable

PACKAGES = "starlette uvicorn"
"""Packages of the extra serve."""
plugin = Plugin(
    "serve",
    "sessions over HTTP, for programs and the browser",
    commands=(
        Command(
            "serve",
            "serve sessions over HTTP, for programs and the browser",
            "sagent.plugins.serve.command:run_serve",
            elsewhere=("server", "web"),
            group=SERVERS,
        ),
    ),
    variables=(Variable("SAGENT_SERVE_TOKEN", each=True),),
    secret_folders=(SecretFolder("serve"),),  # the server's token
    needs=("exports", "hosting"),
    extras=(Extra("examples", "./examples.txt"),),
)
