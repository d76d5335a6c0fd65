"""The program with a provider of each family, for attacks that come from the provider."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sagent.testing.server import FakeProviderServer, Received, Script
from tests.attack.plans import MAX_RUN_SECONDS
from tests.forks import Forks

# The model of each family, and the variables that lead to its provider.
FAMILIES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "anthropic": ("anthropic/claude-sonnet-4-6", {"ANTHROPIC_BASE_URL": "{}", "ANTHROPIC_API_KEY": "k"}),
    "responses": ("openai/gpt-5.5", {"OPENAI_BASE_URL": "{}/v1", "OPENAI_API_KEY": "k"}),
    "chat": ("openai-compatible/m", {"OPENAI_COMPATIBLE_BASE_URL": "{}/v1", "OPENAI_COMPATIBLE_API_KEY": "k"}),
    "google": ("google/gemini-3-pro", {"GEMINI_BASE_URL": "{}", "GEMINI_API_KEY": "k"}),
    "converse": (
        "bedrock/amazon.nova-pro-v1:0",
        {
            "ANTHROPIC_BEDROCK_BASE_URL": "{}", "AWS_BEARER_TOKEN_BEDROCK": "k", "AWS_REGION": "eu-west-3",
            "AWS_EC2_METADATA_DISABLED": "true",
        },
    ),
}  # fmt: skip


@dataclass
class Program:
    """A home, a directory to work in, and runs of the program there, with nothing in their way."""

    base: Path
    forks: Forks
    family: str
    requests: list[Received] = field(init=False, default_factory=list[Received])

    def __post_init__(self) -> None:
        for directory in (self.tree, self.home / ".config/sagent"):
            directory.mkdir(parents=True)
        (self.tree / "a.txt").write_text("one\n")

    @property
    def tree(self) -> Path:
        return self.base / "tree"

    @property
    def home(self) -> Path:
        return self.base / "home"

    def configure(self, text: str) -> None:
        """Write the person's settings."""
        (self.home / ".config/sagent/config.toml").write_text(text)

    def run(
        self, script: Script, prompt: str, *flags: str, strict: bool = False
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run the program on a scripted provider. Raises subprocess.TimeoutExpired."""
        model, variables = FAMILIES[self.family]
        with FakeProviderServer(script, strict=strict, repeat_last=not callable(script)).in_thread() as server:
            environment = {
                "PATH": "/usr/bin:/bin", "HOME": str(self.home), "PYTHONPATH": str(Path(__file__).parents[2]),
                **{name: value.format(server.url) for name, value in variables.items()},
            }  # fmt: skip
            argv = ["--model", model, "--permission-mode", "full", "--sandbox", "off", "--output-format", "json"]
            try:
                return self.forks.run(
                    *argv, *flags, prompt, cwd=self.tree, environment=environment, patience=MAX_RUN_SECONDS
                )
            finally:
                self.requests += server.requests


def failed(run: "subprocess.CompletedProcess[bytes]") -> Sequence[str]:
    """Return the effect of a run that should have succeeded and did not."""
    return [f"exit {run.returncode}: {run.stderr.decode(errors='replace')[-300:]}"] if run.returncode else []
