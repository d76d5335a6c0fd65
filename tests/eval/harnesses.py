"""The agents that are measured: how each is had, and how it is run against an address."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests import aider, npm

PI = "@earendil-works/pi-coding-agent@0.87.1"


@dataclass(frozen=True, slots=True)
class Job:
    """The run that a harness is started for: the server's address ending in /v1, its model, the prompt, its turns."""

    url: str
    model: str
    prompt: str
    turns: int


@dataclass(frozen=True, slots=True)
class Harness:
    """An agent: its command line, and the variables and the files in its home directory that lead it to the server."""

    name: str
    version: str
    argv: Callable[[Job], list[str]]
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Callable[[Job], Mapping[str, str]] = lambda _: {}


class MissingError(Exception):
    """A harness that cannot be had here, with the reason."""


def sagent() -> Harness:
    """Return this checkout's program, as it is set up."""
    program = Path(sys.executable).with_name("sagent")

    def argv(job: Job) -> list[str]:
        flags = ["--permission-mode", "full", "--max-turns", str(job.turns)]
        return [str(program), "--base-url", job.url, "--model", job.model, *flags, "-p", job.prompt]

    return Harness("sagent", _said([str(program), "--version"]), argv)


def find_aider() -> Harness:
    """Return aider: the one on PATH, else one that is installed. Raises MissingError."""
    program = shutil.which("aider")
    if not program:
        try:
            program = str(aider.installed() / "aider")
        except (OSError, subprocess.CalledProcessError) as error:
            raise MissingError(f"{aider.PACKAGE} could not be installed ({_last_line(error)})") from error

    def argv(job: Job) -> list[str]:
        server = ["--model", f"openai/{job.model}", "--openai-api-base", job.url, "--openai-api-key", "none"]
        quiet = ["--no-show-model-warnings", "--no-show-release-notes", "--no-check-update", "--analytics-disable"]
        return [
            program,
            *server,
            *quiet,
            "--yes-always",
            "--no-auto-commits",
            "--no-gitignore",
            "--message",
            job.prompt,
        ]

    version = _said([program, "--version"])
    return Harness("aider", version, argv, {"LITELLM_LOCAL_MODEL_COST_MAP": "True"})  # else it asks the network


def pi() -> Harness:
    """Return pi, installed from npm where it is not there yet. Raises MissingError."""
    try:
        packages = npm.installed(PI)
    except (OSError, AssertionError, subprocess.CalledProcessError) as error:
        raise MissingError(f"{PI} could not be installed ({_last_line(error)})") from error

    def argv(job: Job) -> list[str]:
        flags = ["--offline", "--provider", "eval", "--model", job.model]
        return [str(packages.modules / ".bin" / "pi"), *flags, "-p", job.prompt]

    def files(job: Job) -> Mapping[str, str]:
        model = {"id": job.model, "name": job.model, "contextWindow": 16_384, "maxTokens": 2_048, "input": ["text"]}
        provider = {"baseUrl": job.url, "api": "openai-completions", "apiKey": "none", "models": [model]}
        return {".pi/agent/models.json": json.dumps({"providers": {"eval": provider}})}

    return Harness("pi", PI.rpartition("@")[2], argv, packages.environment, files)


HARNESSES: Mapping[str, Callable[[], Harness]] = {"sagent": sagent, "aider": find_aider, "pi": pi}


def _said(argv: list[str]) -> str:
    """Return the last word that a program prints: its version."""
    environment = {"PATH": os.environ["PATH"], "HOME": os.devnull}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return (done.stdout.split() or ["?"])[-1]


def _last_line(error: Exception) -> str:
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else None
    text = said.decode(errors="replace") if isinstance(said, bytes) else said or str(error)
    return (text.strip().splitlines() or [type(error).__name__])[-1][:200]
