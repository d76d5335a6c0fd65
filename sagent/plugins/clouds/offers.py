"""The logins of clouds on this machine, for `/setup` and `sagent doctor`. Nothing is read, started or sent to find
them."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sagent.config import Settings

_AWS = (("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"), ("AWS_CONFIG_FILE", ".aws/config"))
_GOOGLE_FILE = "application_default_credentials.json"


def find_logins(_: "Settings") -> Iterator[tuple[str, str, str]]:
    """Yield provider, label and hint of each login."""
    home = Path(os.environ.get("HOME") or Path("~").expanduser())
    places = (Path(os.environ.get(variable) or home / usual) for variable, usual in _AWS)
    if aws := next(filter(os.path.isfile, places), None):
        lack = "" if find_spec("boto3") else ", which needs the extra bedrock"
        yield "bedrock", "Use Amazon Bedrock by your AWS login", f"{aws}{lack}"
    folder = Path(os.environ.get("CLOUDSDK_CONFIG") or home / ".config/gcloud")
    google = Path(os.environ.get("GOOGLE_APPLICATION_CREDENTIALS") or folder / _GOOGLE_FILE)
    if google.is_file():
        yield "vertex", "Use Vertex AI by your Google Cloud login", str(google)
