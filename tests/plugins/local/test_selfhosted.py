"""Local weights: a real model of real (tiny, random) weights, generated from with transformers itself, on the CPU.

What it says is rigged at its very end: the logits of the next token of a script are raised, so that everything before
them (template, tokens, attention, cache) and after them (sampling, decoding, streaming) is the real thing.
"""

# Parts of recordings, JSON and SDK objects are read as what they must be; a wrong one fails the test.
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportGeneralTypeIssues=false, reportOptionalMemberAccess=false, reportOptionalSubscript=false

import asyncio
import contextlib
import functools
import json
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from sagent.errors import ModelError, UsageError
from sagent.lib.json import json_freeze_object
from sagent.messages import (
    Document,
    Image,
    Message,
    Private,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    user,
)
from sagent.model import Billed, Model, ModelLimits, Provider, Reply, Request, TextPart, ThinkingPart, ToolSpec
from sagent.plugins.local.answer import LoadedModel
from sagent.plugins.local.selfhosted import ChatTemplateDialect, SelfHosted, SelfHostedModel, hub_cache, read_weights
from sagent.plugins.local.template import Habits, adapt_conversation, learn_habits
from sagent.plugins.local.weights import Weights
from sagent.providers.wire.encoding import EncodingCache
from sagent.providers.wire.exchange import ReportsWaiting
from sagent.testing.model_suite import TIMEOUT_SECONDS, MakeModel, ModelSuite, collect, failure, texts
from sagent.testing.script import Stall, Step, Turn
from sagent.usage import Charge, Usage

pytest.register_assert_rewrite("sagent.testing.model_suite")
needs_torch = pytest.mark.needs("torch")

CHATML = """\
{%- if tools %}<|system|>{{ messages[0].content if messages[0].role == 'system' }}
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|end|>{% elif messages[0].role == 'system' %}<|system|>{{ messages[0].content }}<|end|>{% endif %}
{%- for message in messages %}
{%- if message.role == 'user' %}<|user|>{{ message.content }}<|end|>
{%- elif message.role == 'tool' %}<|user|><tool_response>{{ message.content }}</tool_response><|end|>
{%- elif message.role == 'assistant' %}<|go|>
{%- if message.reasoning_content %}<think>
{{ message.reasoning_content }}
</think>

{% endif %}{{ message.content }}
{%- for call in message.tool_calls or [] %}<tool_call>
{{ call.function | tojson }}
</tool_call>{% endfor %}<|end|>
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{% if enable_thinking is defined and not enable_thinking %}<|quiet|>{% endif -%}
<|go|>{% endif %}"""

SPECIAL = ("<|system|>", "<|user|>", "<|go|>", "<|end|>", "<|quiet|>", "<|pad|>", "[TOOL_CALLS]")
ADDED = ("<think>", "</think>", "<tool_call>", "</tool_call>")
WINDOW = 60_000


def make_tokenizer(template: str | None) -> object:
    """A tokenizer of bytes: every character beyond ASCII is several tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers  # pyright: ignore[reportMissingImports] -- an extra, not installed for checks
    from transformers import PreTrainedTokenizerFast  # pyright: ignore[reportMissingImports] -- an extra, not installed for checks

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({char: at for at, char in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in ADDED])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|pad|>", additional_special_tokens=list(SPECIAL)
    )
    fast.chat_template = template
    return fast


@functools.cache
def rig() -> tuple[type, type]:
    """A Qwen3 whose configuration holds what it says; known to transformers' Auto classes."""
    from transformers import AutoConfig, AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM  # pyright: ignore[reportMissingImports] -- an extra, not installed for checks

    class RiggedConfig(Qwen3Config):
        model_type = "rigged_qwen3"
        script: list[list[int]] | None = None  # for each answer its tokens; -1 stands for padding without end
        go: int = 0  # the token after which an answer begins
        quiet: int = 0  # the token before it that wants no thinking
        thought: int = 0  # the token that ends thinking
        pad: int = 0

    class RiggedForCausalLM(Qwen3ForCausalLM):
        config_class = RiggedConfig

        steps = 0
        turn = -1
        thread = ""

        def forward(self, input_ids=None, past_key_values=None, **more):
            self.steps += 1
            self.thread = threading.current_thread().name
            before = int(past_key_values.get_seq_length()) if past_key_values is not None else 0
            out = super().forward(input_ids=input_ids, past_key_values=past_key_values, **more)
            config = self.config
            if config.script is None:
                return out
            at = before + input_ids.shape[1]
            last = input_ids[0].tolist()
            if last[-1] == config.go:
                self.turn += 1
                self.line = list(config.script[min(self.turn, len(config.script) - 1)])
                if len(last) > 1 and last[-2] == config.quiet and config.thought in self.line:
                    self.line = self.line[self.line.index(config.thought) + 3 :]
                self.start = at
            elif not hasattr(self, "line"):
                return out
            place = at - self.start
            token = self.line[min(place, len(self.line) - 1)]
            out.logits[0, -1, config.pad if token < 0 else token] += 1e6
            return out

    AutoConfig.register("rigged_qwen3", RiggedConfig, exist_ok=True)
    AutoModelForCausalLM.register(RiggedConfig, RiggedForCausalLM, exist_ok=True)
    return RiggedConfig, RiggedForCausalLM


@dataclass(frozen=True)
class Home:
    """A folder with a tiny model in it, and how to make more."""

    root: Path

    def make(
        self, *lines: str, name: str = "tiny", template: str | None = CHATML, go: str = "<|go|>", **config: object
    ) -> str:
        """A model that says these lines, each ended unless it ends in "…"; without any it says what its weights say."""
        import torch  # pyright: ignore[reportMissingImports] -- an extra, not installed for checks

        kind, network = rig()
        tokenizer = make_tokenizer(template)
        script = [self.tokens(tokenizer, line) for line in lines] or None
        one = tokenizer.convert_tokens_to_ids
        settings = {
            "vocab_size": len(tokenizer),
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "max_position_embeddings": WINDOW,
            "eos_token_id": one("<|end|>"),
            "pad_token_id": one("<|pad|>"),
            **config,
        }
        torch.set_num_threads(1)  # more of them only wait for each other over matrices this small
        torch.manual_seed(7)
        made = network(
            kind(
                **settings,
                script=script,
                go=one(go),
                quiet=one("<|quiet|>"),
                thought=one("</think>"),
                pad=one("<|pad|>"),
            )
        )
        made.save_pretrained(self.root / name)
        tokenizer.save_pretrained(self.root / name)
        return str(self.root / name)

    @staticmethod
    def tokens(tokenizer: object, line: str) -> list[int]:
        """A line as tokens."""
        endless = line.endswith("…")
        ids = tokenizer(line.removesuffix("…"), add_special_tokens=False)["input_ids"]
        return [*ids, -1 if endless else tokenizer.convert_tokens_to_ids("<|end|>")]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@contextlib.asynccontextmanager
async def opened(model_id: str, **settings: object) -> AsyncGenerator[Model]:
    """A model, and in the end nothing of it."""
    provider = SelfHosted(**settings)
    try:
        yield provider.model(f"{model_id}+cpu")
    finally:
        await provider.aclose()
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("selfhosted")]


READ = ToolSpec(
    "Read",
    "Read a file.",
    json_freeze_object(
        {
            "type": "object",
            "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
            "required": ["path"],
        }
    ),
)


def ask(*messages: Message, tools: tuple[ToolSpec, ...] = (READ,), max_output: int | None = 500, **more) -> Request:
    return Request(
        more.pop("conversation", "c"), messages or (user("hi"),), "You are terse. ✓", tools, max_output, **more
    )


# ---------------------------------------------------------------------------------------------------------------------
# The promises of every model


def spoken(turn: Turn) -> str:
    """A turn as a model of the Qwen family writes it."""

    def said(arguments: object) -> str:
        return arguments if isinstance(arguments, str) else json.dumps(dict(arguments), default=dict)

    calls = "".join(
        f'\n<tool_call>\n{{"name": {json.dumps(call.name)}, "arguments": {said(call.arguments)}}}\n</tool_call>'
        for call in turn.calls
    )
    thinking = f"<think>\n{turn.thinking}\n</think>\n\n" if turn.thinking else ""
    return f"{thinking}{turn.text}{calls}{'…' if turn.stop == 'max_tokens' else ''}"


@needs_torch
class TestSelfHostedKeepsThePromises(ModelSuite):
    """All but those about what goes wrong on a wire, which is not there."""

    filters = False

    test_an_error_status_is_a_model_error_of_its_kind = None
    test_the_wait_that_a_provider_asks_for_is_told = None
    test_an_error_inside_a_stream_is_one_of_its_kind = None
    test_a_stream_without_its_end_is_an_error = None
    test_usage_is_in_disjoint_buckets_and_the_charges_sum_to_it = None  # nobody tells it what to count: see below

    @pytest.fixture
    def make_model(self, home: Home) -> MakeModel:
        def made(script: Sequence[Step]) -> contextlib.AbstractAsyncContextManager[Model]:
            lines = [
                f"{step.turn.text[:4]}…" if isinstance(step, Stall) else spoken(step)
                for step in script
                if isinstance(step, Turn | Stall)
            ]
            return opened(home.make(*lines))

        return made


# ---------------------------------------------------------------------------------------------------------------------
# Ids


@pytest.mark.parametrize(
    ("model_id", "weights"),
    [
        ("Qwen/Qwen3-0.6B", Weights("Qwen/Qwen3-0.6B")),
        ("Qwen/Qwen3-0.6B+float16+cuda", Weights("Qwen/Qwen3-0.6B", "cuda", "float16")),
        ("Qwen/Qwen3-0.6B+cuda:1+half", Weights("Qwen/Qwen3-0.6B", "cuda:1", "float16")),
        ("m+compile+BF16+MPS", Weights("m", "mps", "bfloat16", compiled=True)),
        ("m+auto", Weights("m", dtype="auto")),
        ("m+fp32+cpu", Weights("m", "cpu", "float32")),
    ],
)
def test_options_come_in_any_order(model_id: str, weights: Weights) -> None:
    assert read_weights(model_id) == weights


@pytest.mark.parametrize(
    ("model_id", "told"),
    [
        ("m+float17", "unknown option 'float17'; accepted are a device"),
        ("m+", "unknown option ''"),
        ("m+cuda:x", "unknown option 'cuda:x'"),
        ("m+cpu+cuda", "names its device twice: cpu and cuda"),
        ("m+fp16+half", "names its dtype twice: fp16 and half"),
        ("m+compile+compile", "names its compile twice"),
        ("+cpu", "does not name a model"),
    ],
)
def test_wrong_option_names_right_ones(model_id: str, told: str) -> None:
    with pytest.raises(UsageError, match=told.replace("+", r"\+")):
        SelfHosted().model(model_id)


def test_path_may_contain_plus(tmp_path: Path) -> None:
    path = tmp_path / "c++" / "m+cpu"
    path.mkdir(parents=True)
    assert read_weights(f"{path}+cuda") == Weights(str(path), "cuda")
    assert read_weights(str(path)) == Weights(str(path))


def test_missing_extra_names_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.plugins.local.selfhosted.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install -e '?/.*\[selfhosted\]'?$"):
        SelfHosted().model("some/model")


async def test_missing_folder_before_torch_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.plugins.local.selfhosted.find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "torch", None)  # to import it would fail
    provider = SelfHosted()
    _, error = await failure(provider.model(str(tmp_path / "nowhere")), ask())
    await provider.aclose()
    assert error.kind == "not_found"
    assert f"there is no folder {tmp_path / 'nowhere'} here" in str(error)


def test_address_refused() -> None:
    with pytest.raises(UsageError, match="has no address"):
        SelfHosted.from_key("", base_url="http://127.0.0.1:1")
    with pytest.raises(UsageError, match="has no address"):
        SelfHosted.from_env(base_url="http://127.0.0.1:1", environ={})
    provider: Provider = SelfHosted.from_key("hf_token")
    assert provider.name == "selfhosted"


def test_cache_follows_hub_variables() -> None:
    assert hub_cache({"HF_HOME": "/x"}) == Path("/x/hub")
    assert hub_cache({"HF_HOME": "/x", "HF_HUB_CACHE": "/y"}) == Path("/y")
    assert hub_cache({"XDG_CACHE_HOME": "/c"}) == Path("/c/huggingface/hub")
    assert hub_cache({"HF_HOME": "~nobody-here"}) == Path("~nobody-here/hub")


async def test_listing_is_folder_content(tmp_path: Path) -> None:
    def put(folder: Path, **config: object) -> None:
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(config))

    cached = tmp_path / "models--Qwen--Qwen3-0.6B"
    put(cached / "snapshots" / "abc", architectures=["Qwen3ForCausalLM"], max_position_embeddings=40_960)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("abc")
    put(tmp_path / "seen", architectures=["Gemma3ForConditionalGeneration"], text_config={"max_position_embeddings": 7})
    put(tmp_path / "embedder", architectures=["BertModel"])
    (tmp_path / "models--half--loaded" / "refs").mkdir(parents=True)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    listed = await SelfHosted(folder=tmp_path).models()
    assert [(info.id, info.limits) for info in listed] == [
        ("Qwen/Qwen3-0.6B", ModelLimits(40_960, 40_960)),
        (str(tmp_path / "seen"), ModelLimits(7, 7)),
    ]
    assert await SelfHosted(folder=tmp_path / "nowhere").models() == ()


# ---------------------------------------------------------------------------------------------------------------------
# What goes out


def sent(*messages: Message, system: str = "", tools: tuple[ToolSpec, ...] = ()) -> dict:
    """What a chat template is given."""
    conversation = EncodingCache(ChatTemplateDialect()).conversation(Request("c", messages, system, tools))
    body = json.loads(conversation.write({"model": "x"}, 0).data)
    del body["model"]
    return body


def test_foreign_history_fits_templates() -> None:
    own = Private("selfhosted", json_freeze_object({}))
    body = sent(
        user("look", Image("image/png", b"x" * 9), Document("text/plain", b"words", "a.txt")),
        Message(
            "assistant",
            (
                Thinking("foreign", Private("anthropic", "sig")),
                Thinking("own", own),
                Text("so"),
                ToolCall("toolu_1", "Read", json_freeze_object({"path": "ü"})),
                ToolCall("toolu_2", "Read", malformed="{"),
            ),
        ),
        Message("user", (ToolResult("toolu_1", (Image("image/png", b"y" * 7),)),)),
        system="be brief",
        tools=(READ,),
    )
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool"]
    _, asked, said, shown, missing = body["messages"]
    assert asked["content"] == (
        "look\n\n[image: image/png, 9 bytes; it cannot be shown to this model]\n\n[a.txt]\nwords"
    )
    assert (said["content"], said["reasoning_content"]) == ("so", "own")
    assert [call["function"]["arguments"] for call in said["tool_calls"]] == [{"path": "ü"}, {}]
    assert [call["id"] for call in said["tool_calls"]] == [shown["tool_call_id"], missing["tool_call_id"]]
    assert all(len(call["id"]) == 9 and call["id"].isalnum() for call in said["tool_calls"])
    assert "[image: image/png, 7 bytes" in shown["content"]
    assert missing["content"].startswith("[interrupted")
    assert body["tools"][0]["function"]["name"] == "Read"
    [bare] = sent(user("hi"), tools=(ToolSpec("Now", "", json_freeze_object({"type": "object"})),))["tools"]
    assert bare["function"]["parameters"] == {"type": "object", "properties": {}}


def template(
    *,
    system: bool = True,
    tools: bool = True,
    text: bool = False,
    single: bool = False,
    strict: bool = False,
    plain: bool = False,
    late: bool = False,
    terse: bool = False,
) -> Callable[..., str]:
    """A chat template as a function, with the peculiarities that are met."""

    def render(chat: Sequence[dict], given: Sequence[object], more: dict) -> str:
        out = json.dumps(list(given), default=dict) if tools else ""
        before = ""
        for message in chat:
            role = message["role"]
            if role == "system" and not system:
                raise ValueError("System role not supported")
            if role == "system" and late and chat[-1]["role"] != "user":
                continue  # Mistral Nemo: it stands before the last message, where that is a user's
            if role == "tool" and not tools:
                raise ValueError("Only user and assistant roles are supported")
            if strict and role == "user" and before in ("user", "tool"):
                raise ValueError("Conversation roles must alternate user/assistant")
            out += f"[{role}]{message['content']}"
            if tools and (calls := message.get("tool_calls")):
                if single and len(calls) > 1:
                    raise ValueError("This model only supports single tool-calls at once!")
                if terse and message["content"] and message.get("reasoning_content"):
                    raise ValueError("Cannot pass both content and thinking in an assistant message with tool calls!")
                for call in calls:
                    name, arguments = call["function"]["name"], call["function"]["arguments"]
                    said = arguments + "" if text else json.dumps(arguments, default=dict)
                    said = f"{arguments}" if plain else said
                    out += f'<tool_call>{{"name": "{name}", "arguments": {said}}}</tool_call>'
            before = role
        return out

    return render


@pytest.mark.parametrize(
    ("peculiar", "habits"),
    [
        ({}, Habits()),
        ({"system": False}, Habits(system=False)),
        ({"text": True}, Habits(text_arguments=True)),
        ({"plain": True}, Habits(text_arguments=True)),
        ({"single": True}, Habits(parallel=False)),
        ({"strict": True}, Habits(interleaved=False)),
        ({"late": True}, Habits(system=False)),
        ({"terse": True}, Habits(thoughts=False)),
        ({"tools": False}, Habits(tools=False)),
        ({"tools": False, "system": False, "strict": True}, Habits(system=False, tools=False)),
    ],
    ids=str,
)
def test_refused_parts_said_otherwise(peculiar: dict, habits: Habits) -> None:
    """Everything of the conversation is in the prompt, whatever the template refuses."""
    render = template(**peculiar)
    assert learn_habits(render) == habits
    calls = [
        {"id": f"call0000{at}", "type": "function", "function": {"name": "Read", "arguments": {"path": f"path-{at}"}}}
        for at in range(2)
    ]
    chat = [
        {"role": "system", "content": "the-system"},
        {"role": "user", "content": "the-question"},
        {"role": "assistant", "content": "the-answer", "reasoning_content": "the-thought", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call00000", "name": "Read", "content": "result-0"},
        {"role": "tool", "tool_call_id": "call00001", "name": "Read", "content": "result-1"},
        {"role": "user", "content": "the-end"},
    ]
    tool = {"type": "function", "function": {"name": "Read", "description": "the-tool", "parameters": {}}}
    text = render(*adapt_conversation(chat, [tool], habits), {})
    words = ["the-system", "the-question", "the-answer", "path-0", "result-0", "result-1", "the-end"]
    places = [text.index(word) for word in words]
    assert places == sorted(places)
    assert "path-1" in text
    assert "the-tool" in text
    assert ("<tool_response>" in text) != habits.tools


def written(call: Callable[[str, dict], str]) -> Callable[..., str]:
    """A template that writes calls in a way of its own."""

    def render(chat: Sequence[dict], tools: Sequence[object], more: dict) -> str:
        out = f"{list(tools)} {more.get('thinking')}"
        for each in chat:
            calls = [made["function"] for made in each.get("tool_calls", ())]
            out += f"\n[{each['role']}]{each['content']}{''.join(call(one['name'], one['arguments']) for one in calls)}"
        return f"{out}\n[assistant]"

    return render


def test_calls_without_marks_are_noticed() -> None:
    """As Llama 3 writes them."""
    render = written(lambda name, arguments: json.dumps({"name": name, "parameters": arguments}))
    assert learn_habits(render) == Habits(bare=True, switch=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda name, arguments: f"<minimax:tool_call><invoke name={name}>{arguments}</invoke>",
        lambda name, arguments: f"<TOOLCALL>{json.dumps([{'name': name, 'arguments': arguments}])}</TOOLCALL>",
        lambda name, arguments: f"<tool_call>{name}: {arguments}</tool_call>",
    ],
    ids=["its own", "JSON within its own marks", "known marks around its own"],
)
def test_unreadable_call_format_as_words(call: Callable[[str, dict], str]) -> None:
    """A call in it would be shown as text and never made; unless the tokenizer describes how it is read."""
    assert learn_habits(written(call)) == Habits(tools=False, switch=True)
    assert learn_habits(written(call), described=True).tools


# ---------------------------------------------------------------------------------------------------------------------
# Answers


async def said_by(model: Model, *messages: Message, **more: object) -> Reply:
    return (await collect(model, ask(*messages, **more)))[1]


def engine(model: Model) -> LoadedModel:
    """What runs behind a model that was loaded."""
    return next(iter(model._provider._runners.values()))._model


@needs_torch
async def test_character_shown_whole(home: Home) -> None:
    """Each of its bytes is a token."""
    text = "日本語 🌍🏽 é ß — ✓"
    async with opened(home.make(text)) as model:
        deltas, reply = await collect(model, ask())
        assert texts(deltas) == reply.message.content == text
        pieces = [delta.text for delta in deltas if isinstance(delta, TextPart)]
        assert len(pieces) > 8
        assert "\ufffd" not in "".join(pieces)


@needs_torch
async def test_tokens_are_counted_exactly(home: Home) -> None:
    thinking, text = "<think>\nLet me see\n</think>", "\n\nDone ✓"
    async with opened(home.make(thinking + text)) as model:
        deltas, reply = await collect(model, ask(user("hé")))
        loaded = engine(model)
        prompt = loaded._render(
            [{"role": "system", "content": "You are terse. ✓"}, {"role": "user", "content": "hé"}],
            sent(tools=(READ,))["tools"],
            {},
        )
        count = [
            len(loaded._tokenizer(each, add_special_tokens=False)["input_ids"]) for each in (prompt, thinking, text)
        ]
    assert reply.usage == Usage(input=count[0], output=count[1] + count[2] + 1, reasoning=count[1])
    assert [charge.usage for charge in reply.charges] == [reply.usage]
    assert [charge.model for charge in reply.charges] == [model.id]
    assert [delta for delta in deltas if isinstance(delta, Billed)] == [
        Billed((Charge(model.id, Usage(input=count[0])),))
    ]
    assert reply.usage.total_input <= model.max_input_tokens(ask(user("hé")))


@needs_torch
async def test_effort_none_turns_thinking_off(home: Home) -> None:
    """The template is told; what thinks all the same is noted."""
    line = "<think>\nHm.\n</think>\n\nYes."
    async with opened(home.make(line)) as model:
        replies = {effort: await said_by(model, effort=effort) for effort in (None, "none", "high")}
    thinks = {
        effort: any(isinstance(part, Thinking) for part in each.message.parts) for effort, each in replies.items()
    }
    assert thinks == {None: True, "none": False, "high": True}
    assert {each.message.content for each in replies.values()} == {"Yes."}
    assert replies["none"].usage.reasoning == 0
    assert [replies[effort].notes for effort in (None, "none")] == [(), ()]
    assert "has no levels of effort" in replies["high"].notes[0]
    stubborn = CHATML.replace("<|quiet|>", "")
    async with opened(home.make(line, name="stubborn", template=stubborn)) as model:
        assert "thought although" in (await said_by(model, effort="none")).notes[0]


@needs_torch
async def test_prompted_thinking_recognized(home: Home) -> None:
    """DeepSeek R1, QwQ: the opening tag is in the prompt."""
    forced = CHATML.replace("<|go|>{% endif %}", "<|go|><think>{% endif %}")
    async with opened(home.make("\nHm.\n</think>\n\nYes.", template=forced, go="<think>")) as model:
        deltas, reply = await collect(model, ask())
    assert [type(part) for part in reply.message.parts] == [Thinking, Text]
    assert reply.message.content == texts(deltas) == "Yes."
    assert "".join(delta.text for delta in deltas if isinstance(delta, ThinkingPart)) == "Hm."
    assert reply.usage.reasoning == len("\nHm.\n") + 1


@needs_torch
async def test_special_tokens_hidden(home: Home) -> None:
    line = '<|pad|>Hi<|pad|>[TOOL_CALLS][{"name": "Read", "arguments": {"path": "x"}}]'
    async with opened(home.make(line)) as model:
        reply = await said_by(model)
    assert reply.message.content == "Hi"
    assert [dict(call.arguments) for call in reply.message.calls] == [{"path": "x"}]
    assert reply.message.stop == "tool_use"


@needs_torch
async def test_template_without_tools_told_in_words(home: Home) -> None:
    """And without a system message too."""
    plain = """{% for message in messages %}
{% if message.role == 'system' %}{{ raise_exception('no system') }}{% endif %}
<|user|>{{ message.content }}<|end|>{% endfor %}<|go|>"""
    line = '<tool_call>\n{"name": "Read", "arguments": {"path": "x"}}\n</tool_call>'
    async with opened(home.make(line, "It says ok.", template=plain)) as model:
        first = await said_by(model)
        call = first.message.calls[0]
        assert (call.name, dict(call.arguments), first.message.stop) == ("Read", {"path": "x"}, "tool_use")
        result = Message("user", (ToolResult(call.id, (Text("ok"),)),))
        assert (await said_by(model, user("hi"), first.message, result)).message.content == "It says ok."


@needs_torch
async def test_tokenizer_response_schema_used(home: Home) -> None:
    """transformers reads them; what does not fit its description is kept as it came."""
    path = home.make(
        '<|quiet|>hm))[[{"name": "Read", "arguments": {"path": "x"}}]]so', '[[{"name": "Read", "arguments": {"pa]]'
    )
    described = {
        "start_anchor": "<|go|>",
        "fields": {
            "reasoning_content": {"open": "<|quiet|>", "close": "))", "content": "text"},
            "tool_calls": {
                "open": "[[",
                "close": "]]",
                "repeats": True,
                "content": "json",
                "transform": {"type": "function", "function": "{content}"},
            },
            "content": {"content": "text"},
        },
    }
    file = Path(path) / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "response_template": described}))
    async with opened(path) as model:
        deltas, reply = await collect(model, ask())
        assert [type(part) for part in reply.message.parts] == [Thinking, ToolCall, Text]
        assert reply.message.content == texts(deltas) == "so"
        assert dict(reply.message.calls[0].arguments) == {"path": "x"}
        assert reply.usage.reasoning > 0
        torn = (await said_by(model)).message.calls[0]
    assert (torn.name, torn.malformed) == ("Read", '{"pa')


@needs_torch
async def test_limits_from_configuration(home: Home) -> None:
    path = home.make("x" * 40 + "…", max_position_embeddings=700)
    async with opened(path) as model:
        assert model.limits == ModelLimits(700, 700)
        size = (await said_by(model, tools=(), max_output=3)).usage.total_input
        for wanted, stop, written in ((3, "max_tokens", 3), (None, "context_overflow", 700 - size)):
            reply = await said_by(model, tools=(), max_output=wanted)
            assert (reply.message.stop, reply.usage.output) == (stop, written)
        steps = engine(model)._network.steps
        text, error = await failure(model, ask(user("x" * 700), tools=()))
        assert (text, error.kind, error.provider, error.model) == ("", "context_overflow", "selfhosted", model.id)
        assert engine(model)._network.steps == steps


@needs_torch
async def test_cut_call_kept(home: Home) -> None:
    async with opened(home.make('<tool_call>\n{"name": "Read", "arguments": {"path": "abc"}}\n</tool_call>')) as model:
        reply = await said_by(model, max_output=45)
    assert reply.message.stop == "max_tokens"
    assert [call.name for call in reply.message.calls] == ["Read"]
    assert reply.message.calls[0].malformed == '{"path": "abc'


# ---------------------------------------------------------------------------------------------------------------------
# What was read before is not read again


@needs_torch
async def test_kept_prefix_changes_nothing(home: Home) -> None:
    """The same answers as those of a model that reads everything each time; long prompts are read in pieces."""
    path = home.make(initializer_range=0.6)  # random weights that say something else each time
    options = json_freeze_object({"do_sample": False, "repetition_penalty": 1.3})
    history = [user("Once upon a time. " * 40)]
    ends = ([user("and then?")], [user("no: before!")], [assistant("Nothing."), user("why?")])
    async with opened(path) as model:
        for end in ends:
            request = ask(*history, tools=(), max_output=24, options=options)
            kept = await collect(model, request)
            engine(model)._kept = []
            fresh = await collect(model, request)
            assert kept[1].message.parts == fresh[1].message.parts
            assert fresh[1].usage.cache_read == 0
            assert kept[1].usage.total_input == fresh[1].usage.input
            assert bool(kept[1].usage.cache_read) == (len(history) > 1)
            assert kept[1].usage.output > 1
            history = [history[0], fresh[1].message, *end]


@needs_torch
async def test_uncuttable_cache_used_when_it_fits(home: Home) -> None:
    """A sliding window forgets; a copy from near the end of the last prompt still fits the next one."""
    path = home.make(
        initializer_range=0.6,
        use_sliding_window=True,
        sliding_window=64,
        max_window_layers=1,
        layer_types=["full_attention", "sliding_attention"],
    )
    options = json_freeze_object({"do_sample": False})
    history = [user("Once upon a time. " * 60)]
    async with opened(path) as model:
        for number in range(3):
            request = ask(*history, tools=(), max_output=80, options=options)
            kept = await said_by(model, *history, tools=(), max_output=80, options=options)
            assert (kept.usage.cache_read > 0) == (number > 0)
            engine(model)._kept, saved = [], engine(model)._kept
            assert (await collect(model, request))[1].message.parts == kept.message.parts
            engine(model)._kept = saved
            history += [assistant("Something else than was said."), user(f"{number}?")]


# ---------------------------------------------------------------------------------------------------------------------
# Stopping, sharing, failing


@needs_torch
async def test_own_thread_stops_with_stream(home: Home) -> None:
    async with opened(home.make("abc…")) as model:
        stream = model.stream(ask(max_output=None))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not isinstance(await anext(stream), TextPart):
                pass
            await stream.aclose()
            network = engine(model)._network
            assert network.thread.startswith("selfhosted")
            while True:  # until no step has been made for a while
                steps = network.steps
                await asyncio.sleep(0.1)
                if network.steps == steps:
                    break
        assert steps < 30_000, "it wrote all it could"


@needs_torch
async def test_waiting_call_may_give_up(home: Home) -> None:
    """A call that was given up while it waited is never made."""
    async with opened(home.make("abc…", "next")) as model:
        first = model.stream(ask(max_output=None))
        while not isinstance(await anext(first), TextPart):
            pass
        waiting = asyncio.create_task(collect(model, ask(conversation="other")))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])
        await first.aclose()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            assert (await said_by(model, conversation="third")).message.content == "next"
        assert engine(model)._network.turn == 1


@needs_torch
async def test_closing_provider_ends_streams(home: Home) -> None:
    provider = SelfHosted()
    model = provider.model(home.make("abc…") + "+cpu")
    stream = model.stream(ask(max_output=None))
    while not isinstance(await anext(stream), TextPart):
        pass
    reading = asyncio.create_task(failure_of(stream))
    await provider.aclose()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        error = await reading
    assert (error.kind, error.provider) == ("cut", "selfhosted")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("selfhosted")]


async def failure_of(stream: AsyncGenerator) -> ModelError:
    with pytest.raises(ModelError) as caught:
        async for _ in stream:
            pass
    return caught.value


@needs_torch
async def test_equal_options_share_model(home: Home) -> None:
    path = home.make("one", "two")
    provider = SelfHosted()
    try:
        models = [provider.model(f"{path}+cpu+{dtype}") for dtype in ("float32", "fp32")]
        assert [(await said_by(model)).message.content for model in models] == ["one", "two"]
        assert len(provider._runners) == 1
    finally:
        await provider.aclose()


@needs_torch
def test_provider_outlives_event_loop(home: Home) -> None:
    provider = SelfHosted()
    model = provider.model(home.make("one", "two") + "+cpu")
    assert [asyncio.run(said_by(model)).message.content for _ in range(2)] == ["one", "two"]
    asyncio.run(provider.aclose())


@needs_torch
async def test_sampling_options_applied(home: Home) -> None:
    path = home.make(initializer_range=0.6)
    async with opened(path) as model:

        async def said(**options: object) -> str:
            reply = await said_by(model, tools=(), max_output=20, options=json_freeze_object(options))
            return repr(reply.message.parts)

        assert await said(do_sample=True, temperature=3.0, seed=1) == await said(
            do_sample=True, temperature=3.0, seed=1
        )
        assert await said(do_sample=True, temperature=3.0, seed=1) != await said(
            do_sample=True, temperature=3.0, seed=2
        )
        assert await said(do_sample=False) == await said(do_sample=False)
        _, error = await failure(model, ask(options=json_freeze_object({"num_beams": 4})))
        assert error.kind == "invalid_request"
        assert "unknown option 'num_beams'" in str(error)


@needs_torch
async def test_unloadable_model_named(home: Home, tmp_path: Path) -> None:
    """By its kind and its name; and the next call tries again."""
    import torch  # pyright: ignore[reportMissingImports] -- an extra, not installed for checks

    half = Path(home.make("x", name="half"))
    (half / "model.safetensors").unlink()
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "config.json").write_text('{"model_type": "nobody-knows"}')
    cases = [
        (str(tmp_path / "nowhere"), "not_found"),
        (str(half), "not_found"),
        (str(strange), "invalid_request"),
        (home.make("x", name="base", template=None), "invalid_request"),
    ]
    for name, kind in cases:
        async with opened(name) as model:
            _, error = await failure(model, ask())
            assert (error.kind, error.model) == (kind, f"{name}+cpu"), error
            assert Path(name).name in str(error)
    provider = SelfHosted()
    if not torch.cuda.is_available():
        _, error = await failure(provider.model(f"{half}+cuda"), ask())
        assert error.kind == "invalid_request"
        assert "no cuda here" in str(error)
    await provider.aclose()
    async with opened(str(half)) as model:
        await failure(model, ask())
        home.make("again", name="half")
        assert (await said_by(model)).message.content == "again"


@needs_torch
async def test_refused_conversation_is_invalid(home: Home) -> None:
    refusing = "{% if messages | length > 2 %}{{ raise_exception('too long a talk') }}{% endif %}" + CHATML
    async with opened(home.make("x", template=refusing)) as model:
        _, error = await failure(model, ask(user("a"), assistant("b"), user("c"), tools=()))
    assert error.kind == "invalid_request"
    assert "too long a talk" in str(error)


@needs_torch
async def test_nothing_written_to_terminal(home: Home, capfd: pytest.CaptureFixture[str]) -> None:
    path = home.make("x")
    capfd.readouterr()
    async with opened(path) as model:
        await said_by(model)
    assert capfd.readouterr() == ("", "")


# ---------------------------------------------------------------------------------------------------------------------
# From the Hub, and at the end


class Hub:
    """The Hub on loopback: one repository of files, each of its weights handed out slowly where that is wanted."""

    def __init__(self, name: str, folder: Path, *, slow: bool = False) -> None:
        self.name, self.folder, self.slow = name, folder, slow
        self.fetched: list[str] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (head := await reader.readuntil(b"\r\n\r\n")) and (line := head.split(b"\r\n")[0].decode().split()):
            method, path = line[0], line[1].partition("?")[0]
            file = self.folder / path.rpartition("/")[2]
            if path.startswith(f"/api/models/{self.name}"):
                names = [*(each.name for each in self.folder.iterdir()), "sub/x.bin"]
                info = {"id": self.name, "sha": "a" * 40, "siblings": [{"rfilename": name} for name in names]}
                tree = [{"type": "file", "path": name, "size": 1, "oid": name} for name in names]
                await self.send(writer, 200, json.dumps(tree if "/tree/" in path else info).encode())
            elif path.startswith(f"/{self.name}/resolve/") and file.exists():
                self.fetched += [file.name] if method == "GET" else []
                await self.send(writer, 200, file.read_bytes(), file.name, body=method == "GET")
            else:
                await self.send(writer, 404, b"{}", error="RepoNotFound")

    async def send(
        self, writer: asyncio.StreamWriter, status: int, data: bytes, name: str = "", error: str = "", body: bool = True
    ) -> None:
        lines = [f"HTTP/1.1 {status} X", f"content-length: {len(data)}", f"x-repo-commit: {'a' * 40}"]
        lines += [f'etag: "{name}"'] if name else []
        lines += [f"x-error-code: {error}"] if error else []
        writer.write("\r\n".join((*lines, "", "")).encode())
        if body and self.slow and name.endswith(".safetensors"):
            writer.write(data[:10])
            await writer.drain()
            await asyncio.sleep(3600)
        elif body:
            writer.write(data)
        await writer.drain()


@needs_torch
@pytest.mark.needs("linux")
async def test_missing_model_from_hub(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listening: Callable[..., object]
) -> None:
    """What transformers needs of it, once; a download that nobody waits for any more ends with its process."""
    folder = Path(home.make("Hello."))
    (folder / "pytorch_model.bin").write_bytes(b"not wanted")
    (folder / "README.md").write_bytes(b"not wanted")
    hub = Hub("org/tiny", folder, slow=True)
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    async with listening(hub.answer) as address:
        monkeypatch.setenv("HF_ENDPOINT", f"http://{address}")
        async with opened("org/tiny", folder=tmp_path / "cache") as model:
            assert model.limits == ModelLimits()
            reading = asyncio.create_task(collect(model, ask()))
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while "model.safetensors" not in hub.fetched:
                    assert not reading.done(), reading.result()
                    await asyncio.sleep(0.02)
            reading.cancel()
            await asyncio.wait([reading])
            await until_no_child()
            hub.slow = False
            hub.fetched.clear()
            assert (await said_by(model)).message.content == "Hello."
            assert "model.safetensors" in hub.fetched
            assert not {"pytorch_model.bin", "README.md", "x.bin"} & {*hub.fetched}
            assert model.limits == ModelLimits(WINDOW, WINDOW)
        hub.fetched.clear()
        async with opened("org/tiny", folder=tmp_path / "cache") as model:
            assert model.limits == ModelLimits(WINDOW, WINDOW)
            assert (await said_by(model)).message.content == "Hello."
            assert hub.fetched == []
        async with opened("org/other", folder=tmp_path / "cache") as model:
            _, error = await failure(model, ask())
            assert error.kind == "not_found"
    for nobody in ("http://127.0.0.1:1", "http://hub.invalid"):
        monkeypatch.setenv("HF_ENDPOINT", nobody)
        async with opened("org/other", folder=tmp_path / "cache") as model:
            _, error = await failure(model, ask())
            assert (error.kind, error.retryable) == ("network", True), error
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    async with opened("org/other", folder=tmp_path / "cache") as model:
        _, error = await failure(model, ask())
        assert (error.kind, error.retryable) == ("not_found", False)
        assert "HF_HUB_OFFLINE" in str(error)


async def until_no_child() -> None:
    """Wait until this process has no children but the server of forks; zombies count."""

    def others() -> list[str]:
        found = [pid for each in Path("/proc/self/task").glob("*/children") for pid in each.read_text().split()]
        return [pid for pid in found if b"tests.forks" not in Path(f"/proc/{pid}/cmdline").read_bytes()]

    async with asyncio.timeout(TIMEOUT_SECONDS):
        while others():
            await asyncio.sleep(0.02)


_FORGETFUL = """
import asyncio, sys
from sagent.messages import user
from sagent.model import Request
from sagent.plugins.local.selfhosted import SelfHosted

async def main():
    stream = SelfHosted().model(sys.argv[1] + "+cpu").stream(Request("c", (user("hi"),), max_output=50_000))
    try:
        async with asyncio.timeout(float(sys.argv[2])):
            await anext(stream)
            await anext(stream)
    except TimeoutError:
        pass

asyncio.run(main())
"""


@needs_torch
@pytest.mark.parametrize("patience", ["1.0", "60"], ids=["while it is loaded", "while it writes"])
async def test_unclosed_program_still_ends(home: Home, patience: str) -> None:
    """Without a crash: torch must not be left alone in a thread."""
    path = Path(home.make())
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "model_type": "qwen3"}))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _FORGETFUL, str(path), patience, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(120):
        _, errors = await process.communicate()
    assert (process.returncode, errors.decode()) == (0, "")


async def test_loading_reported_while_waiting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without torch: what loads is a function that takes its time, on the thread of the runner."""
    loading, told = threading.Event(), list[tuple[str, str]]()

    def load(*_: object) -> object:
        assert loading.wait(TIMEOUT_SECONDS)
        raise RuntimeError("no memory")

    monkeypatch.setattr("sagent.plugins.local.runner.load", load)
    provider = SelfHosted(folder=tmp_path)
    assert isinstance(provider, ReportsWaiting)

    def tell(agent: str, line: str) -> None:
        told.append((agent, line))
        loading.set()

    provider.on_waiting = tell
    with pytest.raises(ModelError, match="no memory"):
        async for _ in SelfHostedModel(provider, "some/model").stream(Request("s:root/child:1", (user("hi"),))):
            pass
    assert told[0] == ("root/child", "Loading some/model… 1 s")
    assert told[-1] == ("root/child", "")
    await provider.aclose()
