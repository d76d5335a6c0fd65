"""The clouds and logins that the official SDKs own: what goes out, signed and addressed, and what comes back."""

import base64
import json
import struct
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from genai_prices import Usage as TheirUsage
from genai_prices import calc_price

from sagent.cost.prices import PriceBook
from sagent.errors import ModelError, UsageError
from sagent.messages import user
from sagent.model import Model, Reply, Request, TextPart
from sagent.plugins.clouds import Azure, Bedrock, Foundry, Vertex, VertexAnthropic
from sagent.providers import Anthropic, OpenAI, provider_named, read_rows
from sagent.providers.abilities import accepts_images, can_reason
from sagent.providers.registry import row_named
from sagent.usage import Usage
from tests.depth import later
from tests.waiting import until

USAGE = {"input_tokens": 11, "output_tokens": 3}
EVENTS = [
    {"type": "message_start", "message": {"id": "msg_1", "model": "claude-x", "usage": USAGE}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "from the cloud"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": USAGE},
    {"type": "message_stop"},
]
GEMINI = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "from the cloud"}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 3},
}
MESSAGE_ITEM = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "from the cloud", "annotations": []}],
}
RESPONSE = [
    {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "delta": "from the cloud"},
    {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE_ITEM},
    {
        "type": "response.completed",
        "response": {"id": "resp_1", "model": "gpt-x", "status": "completed", "output": [MESSAGE_ITEM], "usage": USAGE},
    },
]


def page(body: bytes, kind: str = "application/json", status: str = "200 OK") -> list[bytes]:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return [head.encode() + body]


def sse(*events: object) -> list[bytes]:
    named = ((event["type"] if isinstance(event, dict) and "type" in event else "message", event) for event in events)
    body = "".join(f"event: {name}\ndata: {json.dumps(event)}\n\n" for name, event in named)
    return page(body.encode(), "text/event-stream")


def frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """A frame of the AWS event stream encoding (docs.aws.amazon.com, "event stream encoding")."""
    told = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack(">II", 16 + len(told) + len(payload), len(told))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + told + payload
    return message + struct.pack(">I", zlib.crc32(message))


def amazon(*events: object) -> bytes:
    chunk = {":message-type": "event", ":event-type": "chunk", ":content-type": "application/json"}
    carried = (json.dumps({"bytes": base64.b64encode(json.dumps(event).encode()).decode()}) for event in events)
    return b"".join(frame(chunk, text.encode()) for text in carried)


class Sent:
    """A request as the server had it."""

    def __init__(self, raw: bytes) -> None:
        head, _, self.body = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.method, self.target, _ = first.split(" ")
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    @property
    def json(self) -> dict:
        return json.loads(self.body)


async def collect(model: Model, **options: object) -> tuple[str, Reply]:
    text, reply = "", None
    async for item in model.stream(Request("c", [user("hi")], **options)):  # pyright: ignore[reportArgumentType]
        assert reply is None
        if isinstance(item, TextPart):
            text += item.text
        elif isinstance(item, Reply):
            reply = item
    assert reply is not None
    return text, reply


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "secret-for-tests",
        "AWS_REGION": "eu-west-3",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def google_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Application default credentials of a service account whose tokens come from a given server."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    pem = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )

    def log_in(url: str) -> None:
        account = {
            "type": "service_account",
            "project_id": "project-of-the-login",
            "private_key_id": "1",
            "private_key": pem.decode(),
            "client_email": "agent@example.test",
            "token_uri": f"{url}/token",
        }
        file = tmp_path / "account.json"
        file.write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))

    return log_in


TOKEN = page(json.dumps({"access_token": "ya29.token", "expires_in": 3600, "token_type": "Bearer"}).encode())


async def test_bedrock_signed_and_frames_read(aws: None, raw_server) -> None:
    async with raw_server(page(amazon(*EVENTS), "application/vnd.amazon.eventstream")) as server:
        provider = Bedrock.from_env(base_url=server.url)
        model = provider.model("eu.anthropic.claude-sonnet-4-6-v1:0")
        text, reply = await collect(model, max_output=99, options=_frozen({"betas": ["beta-1"]}))
        await provider.aclose()
    (sent,) = map(Sent, server.requests)
    assert (text, reply.message.stop, reply.usage.input) == ("from the cloud", "end", 11)
    assert sent.target == "/model/eu.anthropic.claude-sonnet-4-6-v1:0/invoke-with-response-stream"
    assert sent.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "/eu-west-3/bedrock/aws4_request" in sent.headers["authorization"]
    assert sent.json["anthropic_version"] == "bedrock-2023-05-31"
    assert sent.json["anthropic_beta"] == ["beta-1"]
    assert not {"model", "stream"} & sent.json.keys()
    assert signature_of(sent, server.url) == sent.headers["authorization"].rpartition("Signature=")[2]
    assert model.limits.window == 1_000_000 or model.limits.window == 200_000


async def test_arn_in_signed_path(aws: None, raw_server) -> None:
    profile = "arn:aws:bedrock:eu-west-3:123456789012:application-inference-profile/abc123def456"
    answer = json.dumps({"message": "no"}).encode()
    async with raw_server(page(answer, status="404 Not Found")) as server:
        provider = Bedrock.from_env(base_url=server.url)
        with pytest.raises(ModelError):
            await collect(provider.model(profile))
        with pytest.raises(ModelError):
            await provider.models()
        await provider.aclose()
    asked, listed = map(Sent, server.requests)
    assert asked.target == f"/model/{profile.replace('/', '%2F')}/converse-stream"
    for sent in (asked, listed):
        assert signature_of(sent, server.url) == sent.headers["authorization"].rpartition("Signature=")[2]


def signature_of(sent: Sent, url: str) -> str:
    """The signature that AWS's own library computes for what arrived."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    signed = sent.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    headers = {name: sent.headers[name] for name in signed if name in sent.headers}
    request = AWSRequest(sent.method, url + sent.target, headers=headers, data=sent.body)
    request.context["timestamp"] = sent.headers["x-amz-date"]
    auth = SigV4Auth(Credentials("AKIDEXAMPLE", "secret-for-tests"), "bedrock", "eu-west-3")
    return auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)  # pyright: ignore[reportReturnType]


async def test_bedrock_exception_becomes_error(aws: None, raw_server) -> None:
    thrown = {":message-type": "exception", ":exception-type": "throttlingException"}
    body = amazon(*EVENTS[:3]) + frame(thrown, b'{"message":"Too many tokens"}')
    async with raw_server(page(body, "application/vnd.amazon.eventstream")) as server:
        provider = Bedrock.from_env(base_url=server.url)
        with pytest.raises(ModelError) as caught:
            await collect(provider.model("anthropic.claude-haiku-4-5"))
        await provider.aclose()
    assert caught.value.kind == "rate_limit"
    assert "Too many tokens" in str(caught.value)


async def test_bedrock_with_own_key(aws: None, raw_server) -> None:
    async with raw_server(page(amazon(*EVENTS), "application/vnd.amazon.eventstream")) as server:
        provider = Bedrock.from_key("bedrock-key", base_url=server.url)
        await collect(provider.model("anthropic.claude-haiku-4-5"))
        await provider.aclose()
    assert Sent(server.requests[0]).headers["authorization"] == "Bearer bedrock-key"


async def test_claude_on_vertex(google_login, monkeypatch: pytest.MonkeyPatch, raw_server) -> None:
    async with raw_server(TOKEN, sse(*EVENTS)) as server:
        google_login(server.url)
        monkeypatch.setenv("CLOUD_ML_REGION", "europe-west1")
        provider = VertexAnthropic.from_env(base_url=f"{server.url}/v1")
        text, _ = await collect(provider.model("claude-sonnet-4-5@20250929"))
        await provider.aclose()
    _, sent = map(Sent, server.requests)
    place = "/v1/projects/project-of-the-login/locations/europe-west1/publishers/anthropic/models/"
    assert sent.target == f"{place}claude-sonnet-4-5@20250929:streamRawPredict"
    assert sent.headers["authorization"] == "Bearer ya29.token"
    assert sent.json["anthropic_version"] == "vertex-2023-10-16"
    assert sent.json["stream"] is True
    assert "model" not in sent.json
    assert text == "from the cloud"


@later
async def test_gemini_on_vertex(google_login, monkeypatch: pytest.MonkeyPatch, raw_server) -> None:
    async with raw_server(TOKEN, sse(GEMINI)) as server:
        google_login(server.url)
        monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "my-project")
        monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "europe-west1")
        provider = Vertex.from_env(base_url=server.url)
        text, reply = await collect(provider.model("gemini-3.8-flash"))
        await provider.aclose()
    _, sent = map(Sent, server.requests)
    place = "/v1/projects/my-project/locations/europe-west1/publishers/google/models/"
    assert sent.target == f"{place}gemini-3.8-flash:streamGenerateContent?alt=sse"
    assert sent.headers["authorization"] == "Bearer ya29.token"
    assert (text, reply.usage.input) == ("from the cloud", 11)


async def test_claude_on_foundry(monkeypatch: pytest.MonkeyPatch, raw_server) -> None:
    async with raw_server(sse(*EVENTS)) as server:
        monkeypatch.setenv("ANTHROPIC_FOUNDRY_API_KEY", "foundry-key")
        monkeypatch.setenv("ANTHROPIC_FOUNDRY_BASE_URL", f"{server.url}/anthropic")
        provider = Foundry.from_env()
        text, _ = await collect(provider.model("claude-opus-4-6"))
        await provider.aclose()
    sent = Sent(server.requests[0])
    assert sent.target == "/anthropic/v1/messages"
    assert "foundry-key" in (sent.headers.get("api-key"), sent.headers.get("x-api-key"))
    assert sent.json["model"] == "claude-opus-4-6"
    assert text == "from the cloud"


@pytest.mark.parametrize(
    ("version", "target"),
    [("", "/openai/v1/responses"), ("2025-04-01-preview", "/openai/responses?api-version=2025-04-01-preview")],
)
async def test_azure(monkeypatch: pytest.MonkeyPatch, raw_server, version: str, target: str) -> None:
    async with raw_server(sse(*RESPONSE)) as server:
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", "azure-key")
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.url)
        if version:
            monkeypatch.setenv("OPENAI_API_VERSION", version)
        provider = Azure.from_env()
        text, reply = await collect(provider.model("my-deployment"))
        await provider.aclose()
    sent = Sent(server.requests[0])
    assert sent.target == target
    assert sent.headers.get("api-key") == "azure-key" or sent.headers["authorization"] == "Bearer azure-key"
    assert sent.json["model"] == "my-deployment"
    assert (text, reply.usage.output) == ("from the cloud", 3)


async def test_azure_with_entra_token(monkeypatch: pytest.MonkeyPatch, raw_server) -> None:
    async with raw_server(sse(*RESPONSE)) as server:
        monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "entra-token")
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.url)
        provider = Azure.from_env()
        await collect(provider.model("my-deployment"))
        await provider.aclose()
    assert Sent(server.requests[0]).headers["authorization"] == "Bearer entra-token"


@pytest.mark.parametrize("version", ["", "2025-04-01-preview"])
async def test_azure_with_machine_identity(monkeypatch: pytest.MonkeyPatch, raw_server, version: str) -> None:
    """azure-identity asks the service that a machine of Azure's has for it, over HTTP; the token is asked for once.
    In the end that connection is closed too."""
    token = page(json.dumps({"access_token": "entra-1", "expires_on": "4102444800", "token_type": "Bearer"}).encode())
    async with raw_server(token, sse(*RESPONSE), sse(*RESPONSE)) as server:
        for name, value in {
            "AZURE_TOKEN_CREDENTIALS": "ManagedIdentityCredential",
            "IDENTITY_ENDPOINT": f"{server.url}/msi/token",
            "IDENTITY_HEADER": "secret-header",
            "AZURE_OPENAI_ENDPOINT": server.url,
            **({"OPENAI_API_VERSION": version} if version else {}),
        }.items():
            monkeypatch.setenv(name, value)
        provider = Azure.from_env()
        for _ in range(2):
            text, _ = await collect(provider.model("my-deployment"))
        await provider.aclose()
        await until(lambda: not server.open, "every connection is closed")
    asked, first, second = map(Sent, server.requests)
    assert asked.target.startswith("/msi/token?")
    assert "cognitiveservices.azure.com" in asked.target
    assert asked.headers["x-identity-header"] == "secret-header"
    assert first.headers["authorization"] == second.headers["authorization"] == "Bearer entra-1"
    assert text == "from the cloud"


async def test_azure_without_login_names_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "azure.identity", None)
    provider = Azure.from_env()
    with pytest.raises(ModelError, match=r"AZURE_OPENAI_API_KEY, or AZURE_OPENAI_AD_TOKEN .*azure") as caught:
        await collect(provider.model("m"))
    assert caught.value.kind == "auth"
    await provider.aclose()


async def test_workload_identity_exchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw_server) -> None:
    token = page(json.dumps({"access_token": "sk-ant-oat-1", "expires_in": 3600, "token_type": "Bearer"}).encode())
    async with raw_server(token, sse(*EVENTS)) as server:
        identity = tmp_path / "identity.jwt"
        identity.write_text("a.b.c")
        for name, value in {
            "ANTHROPIC_FEDERATION_RULE_ID": "fdrl_1",
            "ANTHROPIC_ORGANIZATION_ID": "org_1",
            "ANTHROPIC_IDENTITY_TOKEN_FILE": str(identity),
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_CONFIG_DIR": str(tmp_path),
        }.items():
            monkeypatch.setenv(name, value)
        provider = Anthropic.from_credentials()
        text, _ = await collect(provider.model("claude-sonnet-5-5"))
        await provider.aclose()
    exchange, sent = map(Sent, server.requests)
    assert b"a.b.c" in exchange.body
    assert sent.target == "/v1/messages"
    assert sent.headers["authorization"] == "Bearer sk-ant-oat-1"
    assert sent.headers["anthropic-version"] == "2023-06-01"
    assert "x-api-key" not in sent.headers
    assert text == "from the cloud"


@pytest.mark.parametrize("refused", [False, True])
async def test_openai_workload_identity_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw_server, refused: bool
) -> None:
    from openai.auth._workload import WorkloadIdentityAuth  # its address of exchange is fixed, but for this

    granted = page(json.dumps({"access_token": "oa-token", "expires_in": 3600}).encode())
    denied = page(b'{"error":"access_denied"}', status="403 Forbidden")
    async with raw_server(denied if refused else granted, sse(*RESPONSE)) as server:
        monkeypatch.setitem(
            WorkloadIdentityAuth.__init__.__kwdefaults__,  # pyright: ignore[reportArgumentType] -- it has defaults
            "token_exchange_url",
            f"{server.url}/oauth/token",
        )
        identity = tmp_path / "identity.jwt"
        identity.write_text("a.b.c")
        for name, value in {
            "OPENAI_IDENTITY_PROVIDER_ID": "idp_1",
            "OPENAI_SERVICE_ACCOUNT_ID": "sa_1",
            "OPENAI_IDENTITY_TOKEN_FILE": str(identity),
            "OPENAI_BASE_URL": f"{server.url}/v1",
        }.items():
            monkeypatch.setenv(name, value)
        provider = OpenAI.from_credentials()
        try:
            if refused:
                with pytest.raises(ModelError) as caught:
                    await collect(provider.model("gpt-5.2"))
                assert (caught.value.kind, caught.value.retryable) == ("auth", False)
                return
            text, _ = await collect(provider.model("gpt-5.2"))
        finally:
            await provider.aclose()
    exchange, sent = map(Sent, server.requests)
    assert exchange.target == "/oauth/token"
    assert (exchange.json["subject_token"], exchange.json["identity_provider_id"]) == ("a.b.c", "idp_1")
    assert exchange.json["service_account_id"] == "sa_1"
    assert (sent.target, sent.headers["authorization"]) == ("/v1/responses", "Bearer oa-token")
    assert text == "from the cloud"


@pytest.mark.parametrize("name", ["anthropic", "azure", "foundry", "bedrock", "vertex", "vertex-anthropic", "openai"])
async def test_missing_login_is_final_error(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing.json"))
    provider = provider_named(name, auth="credentials")
    with pytest.raises(ModelError) as caught:
        await collect(provider.model("m"))
    await provider.aclose()
    assert caught.value.kind == "auth"
    assert not caught.value.retryable
    assert len(str(caught.value)) > 40
    if name == "openai":
        assert "OPENAI_IDENTITY_PROVIDER_ID" in str(caught.value)


async def test_missing_token_file_is_auth_error(tmp_path, monkeypatch) -> None:
    for name in ("OPENAI_IDENTITY_PROVIDER_ID", "OPENAI_SERVICE_ACCOUNT_ID"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("OPENAI_IDENTITY_TOKEN_FILE", str(tmp_path / "missing.jwt"))
    provider = OpenAI.from_credentials()
    with pytest.raises(ModelError, match=r"missing\.jwt") as caught:
        await collect(provider.model("gpt-5.2"))
    await provider.aclose()
    assert (caught.value.kind, caught.value.retryable) == ("auth", False)


async def test_missing_extra_named(monkeypatch) -> None:
    for name in ("botocore", "botocore.auth", "botocore.session", "boto3"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    provider = provider_named("bedrock")
    with pytest.raises(ModelError, match=r"\[bedrock\]") as caught:
        await collect(provider.model("m"))
    await provider.aclose()
    assert caught.value.kind == "auth"


async def test_missing_server_is_network_error() -> None:
    provider = OpenAI.from_key("k", base_url="http://127.0.0.1:9/v1", transport="sdk")
    with pytest.raises(ModelError) as caught:
        await collect(provider.model("gpt-5.2"))
    await provider.aclose()
    assert (caught.value.kind, caught.value.retryable) == ("network", False)  # as through the direct transport


@pytest.mark.parametrize(
    ("provider", "model", "like"),
    [
        ("bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0", "aws"),
        ("bedrock", "us.anthropic.claude-opus-4-6-v1", "aws"),
        ("foundry", "claude-opus-4-6", "azure"),
        ("azure", "gpt-5.2", "azure"),
        ("vertex", "gemini-3.8-flash", "google"),
        ("vertex-anthropic", "claude-sonnet-5-5", "google"),
    ],
)
def test_cloud_price_used(provider: str, model: str, like: str) -> None:
    usage = Usage(input=1_000, output=100, cache_read=50)
    theirs = calc_price(
        TheirUsage(input_tokens=1_050, output_tokens=100, cache_read_tokens=50), model, provider_id=like
    )
    assert PriceBook().price(provider, model, usage) == theirs.total_price


def test_googles_tiers_hold_on_vertex() -> None:
    usage = Usage(1_000, output=30)
    prices = [PriceBook().price(name, "gemini-3.1-pro-preview", usage, tier="flex") for name in ("google", "vertex")]
    assert prices[0] == prices[1] is not None


@pytest.mark.parametrize(
    ("name", "sight", "thought"),
    [
        ("anthropic.claude-opus-4-6-v1", True, True),
        ("us.amazon.nova-2-lite-v1:0", True, True),
        ("amazon.nova-micro-v1:0", None, False),
        ("openai.gpt-oss-120b-1:0", None, True),
    ],
)
def test_models_of_bedrock_are_known(name: str, sight: bool | None, thought: bool) -> None:
    row = row_named("bedrock")
    assert (accepts_images(row, name), can_reason(row, name)) == (sight, thought)


def test_class_names_its_provider() -> None:
    for kind in (Azure, Bedrock, Foundry, Vertex, VertexAnthropic):
        assert row_named(kind.__name__).name == kind.row_name


def test_own_row_can_use_cloud() -> None:
    table = {"base_url": "http://127.0.0.1:9", "key": "MY_KEY"}
    rows = read_rows({"mine": {**table, "family": "anthropic", "via": "foundry"}}, "config.toml")
    assert type(provider_named("mine", key="k" * 8, rows=rows)) is Foundry
    for via in ("mars", "azure"):
        rows = read_rows({"mine": {**table, "family": "anthropic", "via": via}}, "config.toml")
        with pytest.raises(UsageError, match=f"via = '{via}'.*bedrock"):
            provider_named("mine", key="k" * 8, rows=rows)


@pytest.mark.parametrize("name", ["azure", "foundry"])
@pytest.mark.parametrize("url", ["http://host/v1?api-version=1", "nonsense"])
def test_cloud_address_checked(name: str, url: str) -> None:
    with pytest.raises(UsageError, match="is not a base URL"):
        provider_named(name, key="key-for-tests", base_url=url)


def test_cloud_needs_sdk_transport() -> None:
    with pytest.raises(UsageError, match="--transport sdk"):
        provider_named("bedrock", transport="direct")


def _frozen(value: dict[str, object]):
    from sagent.lib.json import json_freeze_object

    return json_freeze_object(value)
