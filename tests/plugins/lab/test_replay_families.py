"""Sessions under a cap are rebuilt byte for byte, whichever wire they were on."""

import pytest

from sagent.testing.server import Call, Turn, Usage
from tests.cli.program import Shell

STEPS = [
    Turn("Looking.", thinking="Hm.", calls=(Call("Read", {"file_path": "a.txt"}),), usage=Usage(input=900, output=20)),
    Turn("Done.", usage=Usage(input=950, output=5)),
]


@pytest.mark.costly
@pytest.mark.parametrize(
    "model",
    ["anthropic/claude-haiku-4-5", "openai/gpt-5.2", "google/gemini-3.8-flash", "bedrock/us.amazon.nova-pro-v1:0"],
)
def test_session_under_cap_rebuilt(shell: Shell, model: str) -> None:
    server = shell.serve(STEPS)
    shell.environment |= {
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": f"{server.url}/v1",
        "GEMINI_API_KEY": "k",
        "GEMINI_BASE_URL": server.url,
        "AWS_BEARER_TOKEN_BEDROCK": "k",
        "ANTHROPIC_BEDROCK_BASE_URL": server.url,
        "AWS_REGION": "eu-west-3",
    }
    (shell.cwd / "a.txt").write_text("ä")
    flags = ["--max-budget-usd", "1", "--option", "temperature=0.5", "--output-format", "json"]
    done = shell.run(*flags, "Read a.txt.", model=model)
    assert done.code == 0, done.err
    again = shell.run("replay", str(done.json["session_path"]), model="")
    assert again.code == 0, again.out
    assert "2 of 2 requests byte for byte" in again.out
