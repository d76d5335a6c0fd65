"""Providers: a server that is described by a row of data, and one whose requests are signed, which takes a class.

ACME_API_KEY=... sagent --plugin examples/plugins/provider.py --model acme-large "hello"
sagent --plugin examples/plugins/provider.py --model signed/large "hello"
"""

from hmac import digest
from time import time

from sagent.plugin import Plugin, ProviderRow
from sagent.providers import ChatProvider

ACME = """
base_url = "https://models.acme.example/v1"
models = ["acme-"]                        # `--model acme-large` is acme/acme-large
default = "acme-large"
structured = "json_schema"                # and whatever else [providers.NAME] takes
abilities = [{ of = "acme-large", images = true }]
"""
SIGNED = """
base_url = "https://signed.acme.example/v1"
base = "SIGNED_BASE_URL"
key = "SIGNED_SECRET"
"""


class Signed(ChatProvider):
    """Chat Completions behind a gateway that wants a signature of the time in place of the key."""

    def headers(self) -> dict[str, str]:
        """Return what every request carries."""
        now = str(int(time()))
        signature = digest(self.keys.current.encode(), now.encode(), "sha256").hex()
        return {**super().headers(), "authorization": f"Signature {now}:{signature}"}


plugin = Plugin(
    "provider",
    "adds two providers: one by its data, one by its class",
    providers=(ProviderRow("acme", ACME), ProviderRow("signed", SIGNED, ":Signed")),
)
