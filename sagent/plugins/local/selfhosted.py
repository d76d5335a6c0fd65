"""Local weights: transformers models that run in this process, with the interface of every other provider."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from sagent.errors import ModelError, UsageError
from sagent.lib.json import EMPTY, as_array, as_object, as_str, json_freeze, sha256_hex, wire_bytes
from sagent.lib.names import path_of
from sagent.messages import Message, Opaque, Text, Thinking, ToolCall
from sagent.model import Delta, ModelInfo, ModelLimits, Reply, Request, RequestDigest
from sagent.plugins.local.answer import Answer, Job
from sagent.plugins.local.runner import Runner
from sagent.plugins.local.waiting import CallWait
from sagent.plugins.local.weights import Source, Weights, limits_in
from sagent.plugins.textcalls.reader import FAMILY
from sagent.providers.access import first_set
from sagent.providers.families.media import error_text, in_words
from sagent.providers.handover import ModelTurn, Rules, Turn, UserTurn
from sagent.providers.wire.encoding import Dialect, EncodingCache, Piece, body_start, sendable
from sagent.providers.wire.exchange import OnWaiting, ignore_wait
from sagent.providers.wire.faults import Origin
from sagent.usage import Charge

NAME = "selfhosted"
_OVERHEAD = 4_000  # tokens that a template adds, including our own preamble about tools
_FRAME = 64  # tokens around a turn
_CLOSE_TIMEOUT_SECONDS = 5.0  # to wait for a model's thread when the provider is closed
_SAMPLING = (
    *("do_sample", "temperature", "top_p", "top_k", "min_p", "typical_p"),
    *("repetition_penalty", "no_repeat_ngram_size", "seed"),
)


_DTYPES: Mapping[str, str] = {
    **dict.fromkeys(("float16", "fp16", "f16", "half"), "float16"),
    **dict.fromkeys(("bfloat16", "bf16"), "bfloat16"),
    **dict.fromkeys(("float32", "fp32", "f32"), "float32"),
    "auto": "auto",
}
_ACCEPTED = "a device (cpu, cuda, cuda:N, mps), a dtype (float16, bfloat16, float32, auto; fp16, bf16, fp32), compile"


def read_weights(model_id: str) -> Weights:
    """Parse "name+option+option"; a name that is a path here may contain "+".

    Raises UsageError for an unknown option with the accepted ones, and for two of one category.
    """
    parts = model_id.strip().split("+")
    size = next((at for at in range(len(parts), 1, -1) if path_of("+".join(parts[:at])).exists()), 1)
    name, options = "+".join(parts[:size]), parts[size:]
    if not name.strip():
        raise UsageError(f"{model_id!r} does not name a model: give a folder, or a repository like Qwen/Qwen3-0.6B.")
    found: dict[str, tuple[str, str]] = {}
    for option in options:
        known = _option(option)
        if known is None:
            raise UsageError(f"{model_id!r} has an unknown option {option!r}; accepted are {_ACCEPTED}.")
        category, value = known
        if category in found:
            raise UsageError(f"{model_id!r} names its {category} twice: {found[category][1]} and {option}; keep one.")
        found[category] = (value, option)
    return Weights(
        name, *(found.get(category, ("", ""))[0] for category in ("device", "dtype")), compiled="compile" in found
    )


def _option(option: str) -> tuple[str, str] | None:
    """Return an option's category and value."""
    word = option.strip().lower()
    kind, colon, number = word.partition(":")
    if word in ("cpu", "cuda", "mps") or (kind == "cuda" and colon and number.isdecimal()):
        return "device", word
    if word in _DTYPES:
        return "dtype", _DTYPES[word]
    return ("compile", word) if word == "compile" else None


class ChatTemplateDialect(Dialect):
    """Turns for chat templates: `arguments` are objects, ids have nine characters, as Mistral requires."""

    @property
    def rules(self) -> Rules:
        return Rules(FAMILY)

    def head(self, request: Request) -> bytes:
        """Tools, with the member that some templates fail without, and the system prompt as the first message."""
        tools = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": {"properties": EMPTY, **tool.parameters},
                },
            }
            for tool in request.tools
        ]
        system = [{"role": "system", "content": request.system}] if request.system.strip() else ()
        return b'{"tools":' + wire_bytes(tools) + b"," + body_start(EMPTY, "messages", system)[1:]

    def said(self, turn: ModelTurn) -> Sequence[object]:
        return [_assistant(turn)]

    def shown(self, turn: UserTurn) -> Sequence[object]:
        messages: list[object] = []
        for answer in turn.answers:
            text = "\n".join(map(in_words, answer.content))
            text = error_text(text) if answer.is_error else text
            messages.append(
                {"role": "tool", "tool_call_id": _nine(answer.call_id), "name": answer.name, "content": text}
            )
        if turn.parts:
            messages.append({"role": "user", "content": "\n\n".join(map(in_words, turn.parts))})
        return messages

    def encode(self, turn: Turn) -> Piece:
        """Encode a turn, counting the tokens around each message too."""
        piece = super().encode(turn)
        messages = len(turn.answers) + bool(turn.parts) if isinstance(turn, UserTurn) else 1
        return replace(piece, max_input_tokens=piece.max_input_tokens + _FRAME * messages)


def _assistant(turn: ModelTurn) -> Mapping[str, object]:
    texts = [part.text for part in turn.parts if isinstance(part, Text | Opaque)]
    message: dict[str, object] = {"role": "assistant", "content": "".join(texts)}
    if thoughts := [part.text for part in turn.parts if isinstance(part, Thinking)]:
        message["reasoning_content"] = "\n\n".join(thoughts)
    calls = [part for part in turn.parts if isinstance(part, ToolCall)]
    if calls:
        message["tool_calls"] = [
            {
                "id": _nine(call.id),
                "type": "function",
                "function": {"name": call.name, "arguments": sendable(call.arguments)},
            }
            for call in calls
        ]
    return message


def _nine(call_id: str) -> str:
    return sha256_hex(call_id.encode())[:9]


class SelfHostedModel:
    """A model that runs in this process, loaded by the first call, and shared by all models with the same weights and
    options."""

    def __init__(self, provider: "SelfHosted", model_id: str) -> None:
        self._provider = provider
        self.provider, self.id = provider.name, model_id
        self._weights = read_weights(model_id)

    @property
    def source(self) -> object:
        """The provider object, which has the weights."""
        return self._provider

    @property
    def limits(self) -> ModelLimits:
        """The configured limits, unknown until the model is here. Input and output share the window."""
        return self._provider.runner(self.id, self._weights).limits

    def max_input_tokens(self, request: Request) -> int:
        """Return an upper bound of the input's tokens: its bytes, and the template's additions."""
        conversation = self._provider.encodings.conversation(request)
        schemas = sum(len(wire_bytes(tool.parameters)) for tool in request.tools)
        return _OVERHEAD + conversation.max_input_tokens() + 2 * schemas

    async def stream(self, request: Request) -> AsyncGenerator[Delta | Reply]:
        """Make the call. Closing it stops the model within a token, or within 512 tokens of the prompt."""
        members = _members(request, Origin(self.provider, self.id))
        conversation = self._provider.encodings.conversation(request)
        body = conversation.write({"model": self.id, **members}, 0)
        digest = RequestDigest(body.sha256, body.size, self.id, json_freeze(members))
        inbox: asyncio.Queue[Delta | Answer | ModelError] = asyncio.Queue()
        job = Job(
            body.data,
            request.tools,
            f"call_{body.sha256[:12]}",
            _emitter(inbox),
            request.max_output,
            request.effort,
            {name: value for name, value in request.options.items() if name in _SAMPLING},
            as_object(request.options.get("chat_template_kwargs")),
        )
        runner = self._provider.runner(self.id, self._weights)
        wait = CallWait(
            self._provider.on_waiting, request.conversation, lambda seconds: runner.waiting_line(job, seconds)
        )
        runner.submit(job)
        try:
            async with wait:
                item = await inbox.get()
            wait.tell("")
            while True:
                match item:
                    case Answer(parts, usage, stop, notes):
                        message = Message("assistant", parts, model=f"{self.provider}/{self.id}", stop=stop)
                        if conversation.deferral is not None:
                            message = conversation.deferral.original(message)
                        yield Reply(message, usage, (Charge(self.id, usage),), digest, notes=notes)
                        return
                    case ModelError() as error:
                        raise error
                    case delta:
                        yield delta
                item = await inbox.get()
        finally:
            job.stop.set()
            wait.tell("")


def _members(request: Request, origin: Origin) -> Mapping[str, object]:
    """Return the members of a call in addition to the conversation. Raises ModelError for an unknown option."""
    accepted = (*_SAMPLING, "chat_template_kwargs")
    if unknown := next((name for name in request.options if name not in accepted), None):
        raise origin.error("invalid_request", f"unknown option {unknown!r}; accepted are {', '.join(accepted)}.")
    given = {"max_output": request.max_output, "effort": request.effort}
    return {**{name: value for name, value in given.items() if value is not None}, **request.options}


def _emitter(inbox: "asyncio.Queue[Delta | Answer | ModelError]") -> "Callable[[Delta | Answer | ModelError], None]":
    """Return a function that puts items into a queue of this event loop, from another thread."""
    loop = asyncio.get_running_loop()

    def emit(item: Delta | Answer | ModelError) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(inbox.put_nowait, item)

    return emit


class SelfHosted:
    """Models that transformers runs in this process. `folder` is the Hub's cache, or a folder of plain folders.

    `token` is for gated and private repositories of the Hub.
    """

    name = NAME

    def __init__(self, *, token: str = "", folder: Path | None = None) -> None:
        self.encodings = EncodingCache(ChatTemplateDialect())
        self._token = token
        self._folder = folder or hub_cache(os.environ)
        self._runners: dict[Weights, Runner] = {}
        self.on_waiting: OnWaiting = ignore_wait  # why a call waits

    @classmethod
    def from_env(cls, *, base_url: str | None = None, environ: Mapping[str, str] | None = None) -> Self:
        """Use the Hub's own variables: HF_TOKEN; HF_HUB_CACHE, HF_HOME. Raises UsageError if an address is given."""
        _refuse_address(base_url)
        environ = os.environ if environ is None else environ
        return cls(token=first_set("HF_TOKEN HUGGING_FACE_HUB_TOKEN", environ)[1], folder=hub_cache(environ))

    @classmethod
    def from_key(cls, key: str = "", *, base_url: str | None = None) -> Self:
        """Use a token of the Hub, which may be "". Raises UsageError for an address: there is no server."""
        _refuse_address(base_url)
        return cls(token=key.strip())

    def model(self, model_id: str) -> SelfHostedModel:
        """Return a model by id: a repository or a path, and "+" options. Raises UsageError for unknown options, and if
        torch or transformers are missing."""
        model = SelfHostedModel(self, model_id.strip())
        if not (find_spec("torch") and find_spec("transformers")):
            from sagent.lib.installed import install_command
            from sagent.plugins.local import PACKAGES

            raise UsageError(f"SelfHosted needs torch and transformers: {install_command(NAME, PACKAGES)}")
        return model

    @property
    def unloaded(self) -> ModelInfo | None:
        """None: each call names its model."""
        return None

    async def models(self) -> Sequence[ModelInfo]:
        """Return the models on this machine that can chat or complete text."""
        return await asyncio.to_thread(_local_models, self._folder)

    async def aclose(self) -> None:
        """Stop every model and free its memory. A download in progress continues until the process ends."""
        runners, self._runners = list(self._runners.values()), {}
        await asyncio.gather(*(asyncio.to_thread(runner.close, _CLOSE_TIMEOUT_SECONDS) for runner in runners))

    def runner(self, model_id: str, weights: Weights) -> Runner:
        """Return the runner of these weights, shared by all models that use them with the same options."""
        if weights not in self._runners:
            source = Source(Origin(self.name, model_id, self._token), self._folder, self._token)
            config = _local_config(self._folder, weights.name)
            self._runners[weights] = Runner(weights, source, limits_in(config))
        return self._runners[weights]


def _refuse_address(base_url: str | None) -> None:
    if base_url:
        raise UsageError(f"selfhosted runs in this process and has no address: leave {base_url!r} out.")


def hub_cache(environ: Mapping[str, str]) -> Path:
    """Return the cache directory of the Hub's client (huggingface.co/docs/huggingface_hub, environment variables)."""
    if own := first_set("HF_HUB_CACHE HUGGINGFACE_HUB_CACHE", environ)[1]:
        return path_of(own)
    caches = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return path_of(environ.get("HF_HOME") or f"{caches}/huggingface") / "hub"


def _local_models(folder: Path) -> tuple[ModelInfo, ...]:
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    found: list[ModelInfo] = []
    for entry in entries:
        repository = entry.name.removeprefix("models--")
        model_id = str(entry) if repository == entry.name else repository.replace("--", "/")
        config = _local_config(folder, model_id)
        kinds = [as_str(kind) for kind in as_array(config.get("architectures"))]
        if any(kind.endswith(("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")) for kind in kinds):
            found.append(ModelInfo(model_id, limits_in(config)))
    return tuple(found)


def _local_config(folder: Path, name: str) -> Mapping[str, object]:
    """Return a model's config.json if it is on this machine, else nothing.

    The cache has refs/main with a commit, and the files under snapshots/COMMIT (huggingface_hub, caching).
    """
    try:
        path = path_of(name)
        if not path.exists():
            repository = folder / f"models--{name.replace('/', '--')}"
            commit = (repository / "refs" / "main").read_text(encoding="utf-8").strip()
            path = repository / "snapshots" / commit
        return as_object(json.loads((path / "config.json").read_bytes()))
    except (OSError, ValueError, RecursionError):
        return EMPTY
