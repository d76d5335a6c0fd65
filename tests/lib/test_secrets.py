"""Secrets are known by their shape, wherever they stand; ordinary text is left alone."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.lib.secrets import _shapes, redact, redact_kinds
from tests.depth import deep, later

ALNUM = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def body(size: int, alphabet: str = ALNUM) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=size, max_size=size)


KEYS = st.one_of(
    body(40).map("sk-ant-api03-".__add__),
    body(48).map("sk-proj-".__add__),
    body(24).map("sk_live_".__add__),
    body(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567").map("AKIA".__add__),
    body(35).map("AIza".__add__),
    body(36).map("ghp_".__add__),
    body(60).map("github_pat_".__add__),
    body(20).map("glpat-".__add__),
    body(30).map("xoxb-".__add__),
    body(36).map("npm_".__add__),
    body(34).map("hf_".__add__),
    body(40).map("xai-".__add__),
    body(40).map("gsk_".__add__),
    st.tuples(body(20), body(40), body(43)).map(lambda parts: f"eyJ{parts[0]}.{parts[1]}.{parts[2]}"),
)
AROUND = st.sampled_from(
    ["", " ", "\n", '"', "'", "=", ": ", "(", "\t", "\\n", "\\t", "\\u000a", "%0A", "\x1b[32m", "`", ">"]
)
AFTER = st.sampled_from(["", " ", "\n", '"', "'", ")", ",", "\\n", "\x1b[0m", "`", "<", ";"])


@settings(max_examples=deep(120, 300), deadline=None)
@given(st.text(max_size=30), AROUND, KEYS, AFTER, st.text(max_size=30))
def test_key_is_found_among_any_text(before, around, key, after, rest) -> None:
    text = f"{before}{around if around or not before[-1:].isalnum() else ' '}{key}{after or ' '}{rest}"
    clean, found = redact(text)
    assert key not in clean
    assert found >= 1
    assert redact(clean)[0] == clean, "what was taken out once is left alone"
    assert redact(text) == (clean, found)


@settings(max_examples=deep(40, 100), deadline=None)
@given(st.text(max_size=20), KEYS)
def test_key_is_found_in_json_too(before, key) -> None:
    for value in (before + "\n" + key, {"env": f"\t{key}"}, [key]):
        assert key not in redact(json.dumps(value))[0]
        assert key not in redact(json.dumps(json.dumps(value)))[0]


@pytest.mark.parametrize(
    ("before", "written"),
    [
        (r"is glpat\-", r"glpat\-"),
        ("is gl&#112;at&#45;", "gl&#112;at&#45;"),
        ("is gl&#x70;at&hyphen;", "gl&#x70;at&hyphen;"),
        ("is glpat%2D", "glpat%2D"),
        (r"is glpat\u002d", r"glpat\u002d"),
        (r"is glpat\\u002D", r"glpat\\u002D"),
        (r"is gl\x70at-", r"gl\x70at-"),
        ("is gl\u200bpat-", "gl\u200bpat-"),
        ("is g\u00ad\u2060lpat\ufeff-", "g\u00ad\u2060lpat\ufeff-"),
    ],
)
def test_key_is_found_behind_escapes(before: str, written: str) -> None:
    key = written + "k3Jd9Qm2Xr7Lw0Zt5Vb8"
    text = f"my\\_file&#95;a%5Fb\\u005f {before}k3Jd9Qm2Xr7Lw0Zt5Vb8, \\_, a\u200bb"
    assert redact(text) == (text.replace(key, "[redacted: token]"), 1)


@settings(max_examples=deep(80, 200), deadline=None)
@given(st.lists(st.sampled_from([*r"\_-%&#;=:x ", "u00", "2d", "95;", "\u200b", "token", "key", "gh"]), max_size=40))
def test_redacted_text_stays_under_escapes(pieces: list[str]) -> None:
    clean, found = redact(text := "".join(pieces) + " ghp\\_k3Jd9Qm2Xr7Lw0Zt5Vb8Ny1Hc4Sf6Ga3Ue9P")
    assert ("k3Jd9" in clean, found >= 1, redact(clean)) == (False, True, (clean, 0)), text


PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,01\n\n"
    + "MIIEpAIBAAKCAQEA7bq98e4\n" * 9
    + "-----END RSA PRIVATE KEY-----"
)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("API_KEY=abcdefgh1234", "API_KEY=[redacted: value]"),
        ("db.password: hunter2hunter2", "db.password: [redacted: value]"),
        ("password=hunter2", "password=[redacted: value]"),
        ("DB_PASSWORD=s3cr3t! make", "DB_PASSWORD=[redacted: value] make"),
        ("DB_PASS=hunter2 make", "DB_PASS=[redacted: value] make"),
        ("passwort=hunter2", "passwort=[redacted: value]"),
        ("curl -s -u me:hunter2 http://h/", "curl -s -u me:[redacted: password] http://h/"),
        ("test_pass: 12 of 13 by_pass=True", "test_pass: 12 of 13 by_pass=True"),
        ("https://x.example/?user=me&password=abc1", "https://x.example/?user=me&password=[redacted: value]"),
        ("connect(password='abc')", "connect(password='[redacted: value]')"),
        ("mysql --password hunter2 -h db", "mysql --password [redacted: value] -h db"),
        ('{"password": "abc,def 123"}', '{"password": "[redacted: value]"}'),
        ('{\\"client_secret\\": \\"abcdefgh1234\\"}', '{\\"client_secret\\": \\"[redacted: value]\\"}'),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MD+bPx", "aws_secret_access_key = [redacted: value]"),
        ("postgres://me:p@ss@host/db", "postgres://[redacted: password]@host/db"),
        ("redis://:letmein@host", "redis://[redacted: password]@host"),
        ("Authorization: Bearer abcdefghijklmnop1234", "Authorization: Bearer [redacted: token]"),
        ("authorization: Basic dXNlcjpwYXNzd29yZA==", "authorization: Basic [redacted: password]"),
        (r"it is ghp\_" + "k3Jd9Qm2Xr7Lw0Zt5Vb8Ny1Hc4Sf6Ga3Ue9P in my\\_file", "it is [redacted: token] in my\\_file"),
        (r"API\_KEY: k3Jd9Qm2Xr7L is for a\_file", r"API\_KEY: [redacted: value] is for a\_file"),
        ("https%3A%2F%2Fme%3Ahunter2%40host%2Fdb", "https%3A%2F%2F[redacted: password]%40host%2Fdb"),
        (f"a\n{PEM}\nb", "a\n[redacted: private key]\nb"),
        (json.dumps(PEM), '"[redacted: private key]"'),
        (
            "\n".join(f"{n:6}\u2192{line}" for n, line in enumerate(PEM.split("\n"))),
            "     0\u2192[redacted: private key]",
        ),
    ],
)
def test_value_named_as_secret_is_redacted(text: str, clean: str) -> None:
    assert redact(text)[0] == clean


def test_unfinished_private_key_is_redacted() -> None:
    assert "MIIE" not in redact(PEM[:150])[0]
    assert redact("The line -----BEGIN RSA PRIVATE KEY----- comes first. (See `ssh`) Then more.")[0].endswith(
        "(See `ssh`) Then more."
    )


@pytest.mark.parametrize(
    "text",
    [
        "token = read_token(path)",
        'secret = os.environ["SECRET"]',
        "max_tokens=16384000",
        "PASSWORD=$DB_PASSWORD",
        "api_key: {{ vault_key }}",
        "risk-management-and-task-scheduling",
        "the key idea: tokenizers split words",
        "https://example.org:8080/path",
        "https://example.org/user@example.org",
        "def test_password_is_hashed(self):",
        "def f(secret: str, token: str | None = None) -> bool:",
        "return replace(settings, max_request_tokens=settings.max_request_tokens, token=self._token)",
        'network, tokenizer = loaded.network, "Node | None"',
        '{"max_tokens": "max_completion_tokens", "api_key": "no-key-needed", "access_key": "written"}',
        'usage = {"input_tokens": usage.total_input, "cachedContentTokenCount": usage.cacheRead}',
        "client = Client(api_key=reach.key, password=settings.db_password)",
        'TOKEN_URL = "https://auth.example.com/oauth/token"',
        'api_key = "{IN_KEYRING}" or token: "<your-token>"',
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == (text, 0)


@pytest.mark.parametrize(
    "piece",
    [
        "ab_c.",
        "a",
        "token",
        "password.",
        "://a:",
        "-----BEGIN ",
        "sk-,",
        "eyJa.",
        "eyJ",
        "-eyJ",
        "\u0130key.",
        "curl ",
        "login a passwor ",
        "mysql -",
        "docker login -",
        "echo a:",
        "<password>",
        "define('A_KEY', ",
        "ldapadd -",
        "$6$",
        "$2b$12$",
        "Private-Lines: 1\n",
        "1/123456789012",
        "--token",
        "token=$",
        "secret:=$",
        "password=$",
        "pwd",
        "pass_",
        "\\",
        "\\_",
        "&#95;",
        "&#0000000",
        "%5F",
        "\u200b",
    ],
)
def test_redaction_time_is_linear_in_text(piece: str) -> None:
    """Where a pattern goes back and forth, this does not end."""
    text = piece * (120_000 // len(piece))
    assert redact(text) == (text, 0)


@pytest.mark.parametrize("piece", ["a", "a.", "a_", "aBcc", "Ab", "AAb_", "|", "[a]", "a1."])
def test_redaction_time_is_linear_in_value(piece: str) -> None:
    for value in (piece * (100_000 // len(piece)), piece * (480 // len(piece))):
        for text in (f"token={value}", f"tokens: '{value}'" * (100_000 // len(value))):
            assert redact(text)[0].startswith("token")


@later
def test_value_is_scanned_once() -> None:
    """Where each of its characters is looked for in the whole of it, this does not end."""
    value = "a1" + "".join(map(chr, range(0x20000, 0x20000 + 600_000)))
    assert redact(f"--token {value}") == ("--token [redacted: value]", 1)


@pytest.mark.parametrize(
    ("kind", "secret"),
    [
        ("GitLab token", "gldt-" + ALNUM[:20]),
        ("Notion token", "ntn_12345678901" + ALNUM[:35]),
        ("Shopify token", "shpat_" + "0a1b2c3d" * 4),
        ("Databricks token", "dapi" + "0a1b2c3d" * 4),
        ("Postman key", "PMAK-" + "0a1b2c3d" * 3 + "-" + "0a" * 17),
        ("Pulumi token", "pul-" + "0a1b2c3d" * 5),
        ("Linear token", "lin_api_" + ALNUM[:40]),
        ("Twilio key", "SK" + "0a1b2c3d" * 4),
        ("Mailchimp key", "0a1b2c3d" * 4 + "-us12"),
        ("Telegram token", "123456789:AA" + ALNUM[:33]),
        ("Discord token", "M" + ALNUM[:23] + ".abcdef." + ALNUM[:27]),
        ("Google secret", "GOCSPX-" + ALNUM[:28]),
        ("Docker token", "dckr_pat_" + ALNUM[:27]),
        ("Terraform token", ALNUM[:14] + ".atlasv1." + ALNUM + "-_"),
        ("age key", "AGE-SECRET-KEY-1" + "Q" * 58),
        ("DigitalOcean token", "doo_v1_" + "0a1b2c3d" * 8),
        ("Azure secret", "abc1Q~" + ALNUM[:34]),
        ("Tailscale key", "tskey-auth-" + ALNUM[:30]),
        ("RubyGems key", "rubygems_" + "0a1b2c3d" * 6),
        ("Sentry token", "sntryu_" + "0a1b2c3d" * 8),
        ("Bedrock key", "bedrock-api-key-" + ALNUM[:60]),
        ("PayPal token", "access_token$production$" + "0a1b2c3d" * 2 + "$" + "0a1b2c3d" * 4),
        ("crates.io token", "cio" + ALNUM[-32:]),
        ("NuGet key", "oy2" + "0a1b2c3d4" * 4 + "a1b2c3d"),
        ("Netlify token", "nfp_" + ALNUM[:36]),
        ("Vercel token", "vcp_" + ALNUM[:56]),
        ("Neon key", "napi_" + "0a1b2c3d" * 7),
        ("Figma token", "figd_" + ALNUM[:40]),
        ("Contentful token", "CFPAT-" + ALNUM[:43]),
        ("New Relic key", "0a1b2c3d" * 4 + "0a1bNRAL"),
        ("Lob key", "live_" + "0a1b2" * 7),
        ("Buildkite token", "bkua_" + "0a1b2c3d" * 5),
        ("CircleCI token", "CCIPAT_" + ALNUM[:22] + "_" + "0a1b2c3d" * 5),
        ("HubSpot token", "pat-na1-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d0a1b"),
        ("password hash", "$6$" + ALNUM[:16] + "$" + (ALNUM * 2)[:86]),
        ("password hash", "$2b$12$" + ALNUM[:53]),
    ],
)
def test_provider_key_is_told_by_its_kind(kind: str, secret: str) -> None:
    assert redact_kinds(f"export IT='{secret}'\n") == (f"export IT='[redacted: {kind}]'\n", [kind])


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("deploy --token 8fj3kd93kd03", "8fj3kd93kd03"),
        ("deploy --api-token 8fj3kd93kd03kd now", "8fj3kd93kd03kd"),
        ("Cookie: sid=8asd7f6asd; theme=dark", "8asd7f6asd"),
        ("curl -b x --cookie 'sid=8asd7f6asd'", "8asd7f6asd"),
        ("curl -s -u me:hunter https://x.example", "hunter"),
        ("svc --user me:pa55word", "pa55word"),
        ("machine h login me password hunter", "hunter"),
        ("db.example.com:5432:app:me:hunter", "hunter"),
        ('{"auths": {"r": {"auth": "bWU6aHVudGVy"}}}', "bWU6aHVudGVy"),
        ("    client-key-data: LS0tLS1CRUdJTiB2", "LS0tLS1CRUdJTiB2"),
        ("//registry.example/:_auth=bWU6aHVudGVy", "bWU6aHVudGVy"),
        ("- `db.example.com:5432:app:me:hunter`", "hunter"),
        ("579\t  login me\n580\t  password hunter2x", "hunter2x"),
        ("secrets.txt:aws_secret_access_key = wJalrXUtnFEMI/K7MD+bPx", "wJalrXUtnFEMI/K7MD+bPx"),
        ("secrets.txt-12-  api_key: wJalrXUtnFEMIK7MDbPx", "wJalrXUtnFEMIK7MDbPx"),
        ("token: api_token = wJalrXUtnFEMIK7MDbPx", "wJalrXUtnFEMIK7MDbPx"),
        ("sshpass -p hunter2x ssh me@host", "hunter2x"),
        ("redis-cli -h r -a hunter2x ping", "hunter2x"),
        ("docker login -u me -p hunter2x ghcr.io", "hunter2x"),
        ("mysql -u root -phunter2x db", "hunter2x"),
        ("openssl rsa -in k -passin pass:hunter2x", "hunter2x"),
        ("ldapsearch -D cn=me -w hunter2x -x", "hunter2x"),
        ("echo 'me:hunter2x' | sudo chpasswd", "hunter2x"),
        ("aws configure set aws_secret_access_key wJalrXUtnFEMI/K7MD+bPx", "wJalrXUtnFEMI/K7MD+bPx"),
        ("<password>hunter2x</password>", "hunter2x"),
        ('<add key="ApiKey" value="k3Jd9Qm2Xr7L"/>', "k3Jd9Qm2Xr7L"),
        ("$cfg['password'] = 'hunter2x';", "hunter2x"),
        ("define('DB_PASSWORD', 'hunter2x');", "hunter2x"),
        ("Authorization: token 3f786850e387550fdab836ed7e6dc881", "3f786850e387550fdab836ed7e6dc881"),
        ("AZURE_DEVOPS_PAT=k3jd9qm2xr7lw0zt5vb8ny1hc4sf", "k3jd9qm2xr7lw0zt5vb8ny1hc4sf"),
        ('psk="hunter2hunter"', "hunter2hunter"),
        ("DD_APP_KEY: 3f786850e387550fdab836ed7e6dc88100000000", "3f786850e387550fdab836ed7e6dc88100000000"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQOYBF\n-----END PGP PRIVATE KEY BLOCK-----", "lQOYBF"),
        ("Encryption: none\nPrivate-Lines: 1\n" + "AAAAgQ" * 10, "AAAAgQAAAAgQ"),
        ("the key my_ghp_3KKRzrJTyQ… and more", "3KKRzr"),
        ("12\tthe key sk-ant-3KKRzr... [25 characters cut]", "3KKRzr"),
    ],
)
def test_value_in_secret_place_is_redacted(text: str, secret: str) -> None:
    clean, found = redact(text)
    assert (secret in clean, found) == (False, 1)
    assert redact(clean) == (clean, 0)


@pytest.mark.parametrize(
    "text",
    [
        "cat: /etc/secret: Permission denied",
        '{"secret": "Permission denied"}',
        "docker run -u 1000:1000 --user node:node x",
        "cookie: the browser keeps it",
        "a.py:5432:12: error",
        "--token expires-tomorrow",
        "mysql -u root -p db",
        "secrets.txt:see there: what a file says",
        "src/token.py:12:    def next_thing(self):",
        "docker login -u me --password-stdin",
        "ldapsearch -x -W",
        "<prm_token>-<prm_other> is a <token> of the text",
        "echo $1$2 costs $5 or $6, a $2 bill",
        'define("KEY", 1) and $cfg["password"] = $password;',
        "its form is ghp_… or sk-ant-..., and ghp_token... [25 characters later]",
        "deploy: live_update test_pub_sub live_reload",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "id 6f1c3a3e-8f0b-4c53-9a55-0f5f2a3f8a11",
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    ],
)
def test_text_about_secrets_stays(text: str) -> None:
    assert redact(text) == (text, 0)


def test_listed_shapes_scan_long_words() -> None:
    listed = _shapes()[0][12:]  # after the common ones, which say that they may be shorter
    assert [(shape.kind, shape.is_long) for shape in listed] == [
        (shape.kind, not re.compile(shape.pattern).groups) for shape in listed
    ]
