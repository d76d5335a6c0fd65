"""Logins at MCP servers without a person: by a client id and its secret or key, for a server in the settings.

https://modelcontextprotocol.io/extensions/auth/oauth-client-credentials
"""

from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)

from sagent.lib.names import path_of
from sagent.lib.regular import read_given
from sagent.lib.text import why_unread
from sagent.plugins.mcp.login import LoginStore
from sagent.plugins.mcp.server import McpServer


def machine_login(server: McpServer) -> OAuthClientProvider:
    """Return the login for a server with `oauth.issuer`; its tokens stay in memory. Raises OAuthFlowError."""
    given, store = server.oauth, LoginStore(server.url)
    client, issuer, scope = given["client_id"], given["issuer"], given.get("scope")
    if (secret := given.get("client_secret")) is not None:
        return ClientCredentialsOAuthProvider(server.url, store, client, secret, scope=scope, issuer=issuer)
    try:
        key = read_given(path_of(given["private_key"])).decode()
    except (OSError, ValueError) as error:
        raise OAuthFlowError(f"its private_key could not be read: {why_unread(error)}") from error
    algorithm = given.get("algorithm", "ES256")
    signed = SignedJWTParameters(issuer=client, subject=client, signing_key=key, signing_algorithm=algorithm)
    return PrivateKeyJWTOAuthProvider(
        server.url, store, client, signed.create_assertion_provider(), scope=scope, issuer=issuer
    )
