"""`sagent run`, `--advisor` and `--config`: the headless run in the words of the seeds."""

import json

import pytest
from program import Shell

from sagent.testing.server import Turn
from tests.depth import later


def test_run_is_headless_with_an_executor(shell: Shell) -> None:
    server = shell.serve([Turn(text="Four."), Turn(text="Five.")])
    done = shell.run("run", "--executor", "anthropic/claude-sonnet-4-6", "--ephemeral", "two and two?", model="")
    assert (done.code, done.out) == (0, "Four.\n"), done.err
    done = shell.run("run", "--executor", "anthropic/claude-haiku-4-5", "--output-format", "json", stdin="?", model="")
    assert done.json["result"] == "Five."
    assert [request.json["model"] for request in server.requests] == ["claude-sonnet-4-6", "claude-haiku-4-5"]


def test_executor_server_is_where_told(shell: Shell) -> None:
    server = shell.serve([Turn(text="Here.")])
    del shell.environment["ANTHROPIC_BASE_URL"]
    done = shell.run(
        "run", "--executor", "ollama/llama3", "--executor-api-base", server.url, "--ephemeral", "where?", model=""
    )
    assert (done.code, done.out) == (0, "Here.\n"), done.err
    assert server.requests[0].path == "/v1/chat/completions"  # Ollama's address is told without its /v1
    assert server.requests[0].json["model"] == "llama3"


def test_task_is_quoted(shell: Shell) -> None:
    done = shell.run("run", "the", "tests", model="")
    assert done.code == 2
    assert 'Quote the task: sagent run "the tests"' in done.err
    assert "sagent -- run the tests" in done.err
    server = shell.serve([Turn(text="I did.")])
    assert shell.run("--", "run", "the", "tests").out == "I did.\n"
    assert "run the tests" in str(server.requests[0].json["messages"])


def test_wrong_run_arguments_are_told(shell: Shell) -> None:
    for argv, says in (
        (["--executor", "a/b", "--model", "c/d", "x"], "--executor and --model are the same setting"),
        (["--executr", "a/b", "x"], "Did you mean --executor"),
        (["--advisor", "a/b", "--advisor", "c/d", "x"], "two advisors are called 'advisor'"),
        (["--advisor-api-base", "http://x", "x"], "advisors: 0, addresses: 1"),
        ([], "Nothing to do"),
    ):
        done = shell.run("run", *argv, model="")
        assert done.code == 2, argv
        assert says in done.err
    done = shell.run("run", "--advisor-mode", "mine", "--output-format", "json", "x", model="")
    assert (done.code, done.json["error"]["kind"]) == (2, "config")  # pyright: ignore[reportIndexIssue]


@pytest.mark.plugin("exports")
def test_help_has_executor_and_advisor_flags(shell: Shell) -> None:
    done = shell.run("run", "--help", model="")
    assert done.code == 0
    for word in [
        "--executor",
        "--executor-api-base",
        "--advisor",
        "--advisor-api-base",
    ]:
        assert word in done.out
    for word in [
        "--max-turns",
        "--advisor",
        "--advisor-mode",
        "--advisor-stop",
        "--advisor-panel",
        "--trace",
        "--config",
        "run",
        "trace",
    ]:
        assert word in shell.run("help", "all", model="").out


@later
def test_named_file_counts_as_the_persons(shell: Shell) -> None:
    shell.serve([Turn(text="Yes.")])
    file = shell.cwd / "mine.yaml"
    file.write_text(
        "executor:\n  model: anthropic/claude-haiku-4-5\n  api_key: ${KEY_OF_MINE}\n"
        "  api_base: ${ANTHROPIC_BASE_URL}\npolicy: {max_turns: 1}\n"
    )
    done = shell.run("--config", "mine.yaml", "hello", model="")
    assert done.code == 2
    assert f"{file}:3: executor.api_key: " in done.err and "KEY_OF_MINE" in done.err
    del shell.environment["ANTHROPIC_API_KEY"]
    shell.environment["KEY_OF_MINE"] = "k-of-mine"
    done = shell.run("--config", "mine.yaml", "--ephemeral", "hello", model="")
    assert done.out == "Yes.\n", done.err
    assert shell.server is not None
    assert shell.server.requests[0].headers["x-api-key"] == "k-of-mine"
    shown = shell.run("config", "show", "--config", "mine.yaml", model="")
    assert "anthropic/claude-haiku-4-5" in shown.out
    assert "k-of-mine" not in shown.out
    gone = shell.run("--config", "gone.yaml", "--output-format", "json", "hello", model="")
    assert (gone.code, "no such file" in gone.err, json.loads(gone.out)["is_error"]) == (2, True, True)


def test_repository_cannot_name_an_advisor(shell: Shell) -> None:
    shell.serve([Turn(text="Fine.")])
    (shell.cwd / ".git").mkdir()
    (shell.cwd / ".sagent").mkdir()
    (shell.cwd / ".sagent" / "config.toml").write_text('advisor = "openai/spy"\n')
    done = shell.run("--ephemeral", "hello")
    assert (done.code, done.out) == (0, "Fine.\n")
    assert "advisors is ignored" in done.err


SEED = """
executor:
  model: "anthropic/claude-haiku-4-5"
  api_base: "{url}"
advisor:
  model: "openai/gpt-4o"
  api_key: "${{OPENAI_API_KEY}}"   # env var reference
policy:
  max_advisor_calls: 5        # hard budget cap
  failure_threshold: 2        # consecutive failures before calling advisor
  confidence_threshold: 0.4   # executor self-reported confidence floor
  stagnation_turns: 4         # turns without progress before calling advisor
  cooldown_turns: 2           # min turns between advisor calls
max_turns: 20
logging:
  level: "INFO"
  trace_file: "traces/run.jsonl"
search:
  enabled: false
"""


@pytest.mark.plugin("exports")
def test_file_of_other_tools_runs_unchanged(shell: Shell) -> None:
    server = shell.serve([Turn(text="Yes.")] * 3)
    shell.environment["OPENAI_API_KEY"] = "sk-1"
    file = shell.cwd / "config.yaml"
    file.write_text(SEED.format(url=server.url))
    done = shell.run("run", "--ephemeral", "--config", "config.yaml", "hello", model="")
    assert (done.code, done.out) == (0, "Yes.\n"), done.err
    assert (shell.cwd / "traces" / "run.jsonl").read_text().count("\n") > 2
    assert server.requests[0].json["model"] == "claude-haiku-4-5"


@pytest.mark.plugin("exports")
def test_folder_file_is_used_once_trusted(shell: Shell) -> None:
    server = shell.serve([Turn(text="Yes.")] * 6)
    shell.environment["OPENAI_API_KEY"] = "sk-1"
    file = shell.cwd / "config.yaml"
    file.write_text(SEED.format(url=server.url))

    def run() -> tuple[object, str]:
        done = shell.run("run", "--ephemeral", "hello", model="")
        assert (done.code, done.out) == (0, "Yes.\n"), done.err
        return server.requests[-1].json["model"], done.err

    shell.environment["SAGENT_MODEL"] = "anthropic/claude-sonnet-4-6"
    model, told = run()
    assert model == "claude-sonnet-4-6"
    assert f"{file} is ignored" in told
    assert "sagent config trust config.yaml" in told
    del shell.environment["SAGENT_MODEL"]
    asked = len(server.requests)
    done = shell.run("run", "--ephemeral", "hello", model="")
    assert (done.code, done.out, len(server.requests)) == (2, "", asked), "a model that nobody chose is not paid"
    assert f"{file} is ignored" in done.err and "--model M runs without it" in done.err
    done = shell.run("config", "trust", "config.yaml", model="")
    assert (done.code, "anthropic/claude-haiku-4-5" in done.out) == (0, True), done.err
    model, told = run()
    assert (model, "is ignored" in told) == ("claude-haiku-4-5", False)
    file.write_text(file.read_text() + "effort: low\n")
    shell.environment["SAGENT_MODEL"] = "anthropic/claude-sonnet-4-6"
    assert f"{file} is ignored" in run()[1], "what was trusted is not what is there now"


def test_foreign_config_is_not_mentioned(shell: Shell) -> None:
    shell.serve([Turn(text="Yes.")])
    (shell.cwd / "config.yaml").write_text("title: my site\nmodel: [x\n")
    done = shell.run("run", "--ephemeral", "hello", model="")
    assert "config.yaml" not in done.err
    done = shell.run("config", "trust", "config.yaml", model="")
    assert (done.code, "set an executor or an advisor" in done.err) == (2, True)


def test_run_words_work_everywhere(shell: Shell) -> None:
    server = shell.serve([Turn(text="Yes.")] * 2)
    done = shell.run("--executor", "anthropic/claude-haiku-4-5", "--ephemeral", "hello", model="")
    assert (done.code, done.out) == (0, "Yes.\n"), done.err
    shell.environment["SAGENT_EXECUTOR"] = "anthropic/claude-haiku-4-5"
    assert shell.run("--ephemeral", "hello", model="").code == 0
    assert [request.json["model"] for request in server.requests] == ["claude-haiku-4-5"] * 2
