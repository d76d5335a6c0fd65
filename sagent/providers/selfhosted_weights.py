"""Weights in this process: loaded and run by transformers, on one thread for each model. Only this knows torch."""

import copy
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from importlib import import_module
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol, cast

from sagent.errors import ModelError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, as_array, as_int, as_object, as_str
from sagent.messages import Part, StopReason, ToolCall
from sagent.model import Billed, Delta, Effort, Limits, ToolSpec
from sagent.providers.faults import Origin
from sagent.providers.selfhosted_template import Chat, dress, learn_habits
from sagent.providers.selfhosted_text import MARKS, THOUGHTS, AnswerReader, DescribedReader, MarkReader, Regions
from sagent.usage import Charge, Usage

_CHUNK = 512  # tokens of a prompt read at once: how soon a call can be stopped before its first token
_CHARACTER = 4  # bytes, and so tokens, that make up one at most
_IDLE = 0.25  # seconds between two looks at whether the program has ended
_USUAL_OUTPUT = 32_000  # tokens written where nobody set a limit


# ---------------------------------------------------------------------------------------------------------------------
# torch and transformers, as far as they are used


class Tensor(Protocol):
    """A torch tensor."""

    def tolist(self) -> list[int]: ...


class Cache(Protocol):
    """transformers' cache of keys and values; `crop` forgets the last tokens, told as a negative number."""

    def get_seq_length(self) -> int: ...
    def crop(self, tokens: int) -> None: ...


class Handle(Protocol):
    """A hook that was set."""

    def remove(self) -> None: ...


class Config(Protocol):
    """A model's configuration, as config.json has it."""

    def to_dict(self) -> dict[str, object]: ...


class Generation(Protocol):
    """A generation configuration; its other members are set by name."""

    eos_token_id: int | list[int] | None


class Network(Protocol):
    """A model; what it writes is told to `streamer`."""

    config: Config
    generation_config: Generation
    device: object
    forward: object

    def eval(self) -> "Network": ...
    def to(self, device: str) -> "Network": ...
    def generate(self, **settings: object) -> object: ...
    def register_forward_pre_hook(self, hook: Callable[[object, object], None]) -> Handle: ...


class Tokenizer(Protocol):
    """A tokenizer. `get_response_parser` gives the reader of answers that its `response_template` describes."""

    chat_template: object
    eos_token_id: int | None
    all_special_ids: list[int]

    def apply_chat_template(self, conversation: Sequence[Chat], **settings: object) -> str: ...
    def __call__(self, text: str, *, add_special_tokens: bool) -> Mapping[str, list[int]]: ...
    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool) -> str: ...
    def get_response_parser(self, *, prefix: str, tools: object) -> Regions: ...


class Devices(Protocol):
    """torch.cuda and torch.mps."""

    def is_available(self) -> bool: ...
    def device_count(self) -> int: ...
    def empty_cache(self) -> None: ...


class Torch(Protocol):
    """The module torch."""

    cuda: Devices
    mps: Devices

    def tensor(self, data: object, *, device: object) -> Tensor: ...
    def ones_like(self, tensor: Tensor) -> Tensor: ...
    def compile(self, function: object, *, dynamic: bool) -> object: ...
    def manual_seed(self, seed: int) -> object: ...


class Auto(Protocol):
    """AutoTokenizer, AutoModelForCausalLM: loaded from this machine, or from the Hub."""

    def from_pretrained(self, name: str, **settings: object) -> object: ...


class Transformers(Protocol):
    """The module transformers."""

    AutoTokenizer: Auto
    AutoModelForCausalLM: Auto

    def DynamicCache(self, *, config: Config) -> Cache: ...  # noqa: N802 -- its name


class Loud(Protocol):
    """transformers.utils.logging."""

    def is_progress_bar_enabled(self) -> bool: ...
    def enable_progress_bar(self) -> None: ...
    def disable_progress_bar(self) -> None: ...
    def get_verbosity(self) -> int: ...
    def set_verbosity(self, verbosity: int) -> None: ...


# ---------------------------------------------------------------------------------------------------------------------
# Loading


@dataclass(frozen=True, slots=True)
class Weights:
    """Which weights, and how they are run. "" leaves the choice to us."""

    name: str  # a repository of the Hub, or a path
    device: str = ""
    dtype: str = ""
    compiled: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """Where weights come from, and whom errors name."""

    origin: Origin
    folder: Path  # the Hub's cache
    token: str = field(default="", repr=False)


class _StoppedError(Exception):
    """Nobody waits any more."""


def limits_in(config: Mapping[str, object]) -> Limits:
    """A model's sizes, from its config.json. The window is for input and output together."""
    inner = as_object(config.get("text_config")) or config
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx")
    window = next((size for name in names if (size := as_int(inner.get(name))) > 0), None)
    return Limits(window, window)


def load(weights: Weights, source: Source, stopped: Callable[[], bool]) -> "LoadedModel":
    """Load a model; what is not on this machine comes from the Hub first. Raises ModelError.

    A download ends as soon as `stopped` says so, with _StoppedError; loading cannot be broken off.
    """
    torch = cast("Torch", import_module("torch"))
    library = cast("Transformers", import_module("transformers"))
    device = weights.device or _best_device(torch)
    _check_device(torch, device, source.origin)
    local = Path(weights.name).expanduser()
    is_repository = not local.exists() and re.fullmatch(r"[\w.-]+(/[\w.-]+)?", weights.name) is not None
    try:
        try:
            tokenizer, network = _open(library, weights, source, device)
        except OSError:  # some file of it is not here
            if not is_repository:
                raise
            _download(weights, source, stopped)
            tokenizer, network = _open(library, weights, source, device)
    except (_StoppedError, ModelError):
        raise
    except Exception as error:
        raise _load_error(weights, device, source.origin, error) from error
    if weights.compiled:
        network.forward = torch.compile(network.forward, dynamic=True)
    return LoadedModel(torch, library, network, tokenizer, source.origin)


class _UntaughtError(OSError):
    """There is no chat template."""


def _open(library: Transformers, weights: Weights, source: Source, device: str) -> tuple[Tokenizer, Network]:
    """Load from this machine. Raises OSError where a file is missing, and whatever transformers finds wrong."""
    local = Path(weights.name).expanduser()
    name = str(local) if local.exists() else weights.name
    settings = {"cache_dir": str(source.folder), "local_files_only": True}
    dtype = weights.dtype or ("float32" if device == "cpu" else "auto")
    with _quiet():
        tokenizer = cast("Tokenizer", library.AutoTokenizer.from_pretrained(name, **settings))
        if not tokenizer.chat_template:
            raise _UntaughtError("it has no chat template: take a model that was tuned for chat")
        network = cast("Network", library.AutoModelForCausalLM.from_pretrained(name, dtype=dtype, **settings))
        return tokenizer, network.to(device).eval()


# Runs in a process of its own, which can be ended at any time; ends by itself when whoever started it is gone. Of the
# weights it takes what transformers loads, not their copies for other programs.
_DOWNLOADER = """
import json, os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(1)), daemon=True).start()
name, folder = sys.argv[1:]
try:
    from huggingface_hub import HfApi, snapshot_download
    files = [each.rfilename for each in HfApi().model_info(name, timeout=20).siblings]
    files = [file for file in files if "/" not in file and not file.startswith("consolidated")]
    safe = any(file.endswith(".safetensors") for file in files)
    others = (".pt", ".pth", ".h5", ".msgpack", ".onnx", ".gguf", ".ot", ".md", ".png", *([".bin"] if safe else []))
    snapshot_download(name, cache_dir=folder, allow_patterns=[file for file in files if not file.endswith(others)])
except BaseException as error:
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) and cause not in causes:
        causes.append(cause)
    print(json.dumps([[kind.__name__ for each in causes for kind in type(each).__mro__], str(error)[:1000]]))
sys.stdout.flush()
os._exit(0)
"""


def _download(weights: Weights, source: Source, stopped: Callable[[], bool]) -> None:
    """Fetch a repository into the Hub's cache. What had come before an end is kept there. Raises ModelError."""
    environment = {**os.environ, "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    if source.token:
        environment["HF_TOKEN"] = source.token
    command = [sys.executable, "-c", _DOWNLOADER, weights.name, str(source.folder)]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        while process.poll() is None:
            if stopped():
                process.kill()
                raise _StoppedError
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.1)
        told = process.stdout.read() if process.stdout else b""
    try:
        found = as_array(json.loads(told)) if told.strip() else ()
    except ValueError:
        found = ((), told.decode("utf-8", "replace"))
    if found or process.returncode:
        names, said = found or ((), f"the download ended with {process.returncode}")
        raise _fetch_error(weights, source.origin, set(map(as_str, as_array(names))), _shorten(as_str(said)))


def _best_device(torch: Torch) -> str:
    return "cuda" if torch.cuda.is_available() else "mps" if torch.mps.is_available() else "cpu"


def _check_device(torch: Torch, device: str, origin: Origin) -> None:
    kind, _, number = device.partition(":")
    present = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": torch.mps.device_count()}[kind]
    if int(number or 0) >= present:
        raise origin.error(
            "invalid_request", f"there is no {device} here that torch can use: name another device, or none."
        )


@contextmanager
def _quiet() -> Generator[None]:
    """No progress bars or warnings: the terminal belongs to whoever draws on it."""
    loud = cast("Loud", import_module("transformers.utils.logging"))
    shown, level = loud.is_progress_bar_enabled(), loud.get_verbosity()
    loud.disable_progress_bar()
    loud.set_verbosity(max(level, 40))
    try:
        yield
    finally:
        loud.set_verbosity(level)
        if shown:
            loud.enable_progress_bar()


def _load_error(weights: Weights, device: str, origin: Origin, error: Exception) -> ModelError:
    """What it means that a model could not be loaded."""
    if _is_out_of_memory(error):
        return origin.error(
            "invalid_request",
            f"{weights.name} does not fit into the memory of {device}: try +bfloat16 or a smaller model.",
        )
    said = _shorten(str(error))
    if isinstance(error, OSError) and not isinstance(error, _UntaughtError):
        return origin.error("not_found", f"{weights.name} cannot be loaded: {said}")
    return origin.error("invalid_request", f"{weights.name} cannot be loaded: {type(error).__name__}: {said}")


def _fetch_error(weights: Weights, origin: Origin, names: set[str], said: str) -> ModelError:
    """What it means that a model could not be downloaded, by the names of the error's classes."""
    name = weights.name
    if "GatedRepoError" in names:
        return origin.error("permission", f"{name} is gated: accept its terms on its page, and set HF_TOKEN.")
    if names & {"RepositoryNotFoundError", "RevisionNotFoundError", "HFValidationError"}:
        return origin.error("not_found", f"there is no folder {name} here, and no such model on the Hub: {said}")
    if "OfflineModeIsEnabled" in names:
        return origin.error("not_found", f"{name} is not on this machine, and HF_HUB_OFFLINE forbids to download it.")
    on_the_way = {"ConnectionError", "TimeoutError", "TransportError", "HfHubHTTPError"}
    if "OSError" in names and not names & on_the_way:
        return origin.error("invalid_request", f"{name} cannot be stored: {said}")
    return origin.error("network", f"{name} is not on this machine, and cannot be downloaded: {said}")


def _shorten(text: str) -> str:
    return " ".join(text.split())[:400] or "no reason was given"


def _is_out_of_memory(error: BaseException) -> bool:
    told = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in told or "not enough memory" in told


# ---------------------------------------------------------------------------------------------------------------------
# Answering


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    parts: tuple[Part, ...]
    usage: Usage
    stop: StopReason
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """One call. `tell` takes its deltas, then its answer or an error, on the thread that does the work.

    `body` is {"tools": [...], "messages": [...], ...}; `sampling` holds members of the generation configuration,
    `template` variables of the chat template. Once `stop` is set nothing more is told.
    """

    body: bytes
    tools: tuple[ToolSpec, ...]
    stem: str
    tell: Callable[[Delta | Answer | ModelError], None]
    max_output: int | None = None
    effort: Effort | None = None
    sampling: Mapping[str, object] = EMPTY
    template: Mapping[str, object] = EMPTY
    stop: threading.Event = field(default_factory=threading.Event)


class LoadedModel:
    """A model in memory, with the keys and values of what it read last."""

    def __init__(
        self, torch: Torch, library: Transformers, network: Network, tokenizer: Tokenizer, origin: Origin
    ) -> None:
        self.torch = torch
        self._library = library
        self._network = network
        self._tokenizer = tokenizer
        self._origin = origin
        self._kept: list[tuple[Cache, list[int]]] = []
        self._described = bool(getattr(tokenizer, "response_template", None))
        self._habits = learn_habits(self._render, described=self._described)
        self._levels = "reasoning_effort" in str(tokenizer.chat_template)
        self._ends = _ends(network.generation_config.eos_token_id, tokenizer.eos_token_id)
        special = () if self._described else tokenizer.all_special_ids
        self._hidden = {one for one in special if self._decode([one]).strip() not in MARKS}
        self.limits = limits_in(network.config.to_dict())

    def answer(self, job: Job, is_over: Callable[[], bool]) -> Answer:
        """Do a job. Raises ModelError, and _StoppedError before a step once the job is stopped or all is over."""
        prompt = self._prompt(job)
        ids = self._tokenizer(prompt, add_special_tokens=False)["input_ids"]
        room = self._room(job, len(ids))
        cache, reused = self._resume(ids)
        begun = Charge(self._origin.model, Usage(input=len(ids) - reused, cache_read=reused))
        draft = _Draft(self._decode, self._reader(job, prompt), self._ends, self._hidden, job.tell, begun)

        saved: list[tuple[Cache, list[int]]] = []

        def before_step(_module: object, _inputs: object) -> None:
            if job.stop.is_set() or is_over():
                raise _StoppedError
            if cache is not None and not saved and int(cache.get_seq_length()) + _CHUNK >= len(ids):
                saved.append(_save(cache, ids))

        hook = self._network.register_forward_pre_hook(before_step)
        try:
            self._generate(job, ids, cache, room, draft)
        except _StoppedError:
            self._keep(cache, [*ids, *draft.ids], saved)
            raise
        except Exception as error:
            raise self._failure(error, len(ids)) from error
        finally:
            hook.remove()
        self._keep(cache, [*ids, *draft.ids], saved)
        return self._finished(job, draft, room)

    # The prompt

    def _render(self, chat: Sequence[Chat], tools: Sequence[object], more: Mapping[str, object]) -> str:
        return self._tokenizer.apply_chat_template(
            chat, tools=list(tools) or None, add_generation_prompt=True, tokenize=False, **more
        )

    def _prompt(self, job: Job) -> str:
        body = as_object(json.loads(job.body))
        chat = [as_object(message) for message in as_array(body.get("messages"))]
        dressed, tools = dress(chat, as_array(body.get("tools")), self._habits)
        try:
            return self._render(dressed, tools, {**_thinking(job.effort), **job.template})
        except Exception as error:
            raise self._origin.error(
                "invalid_request", f"the chat template does not take this conversation: {_shorten(str(error))}"
            ) from error

    def _room(self, job: Job, size: int) -> int:
        """How many tokens may be written."""
        wanted = job.max_output or _USUAL_OUTPUT
        window = self.limits.window
        if window is None:
            return wanted
        if size >= window:
            raise self._origin.error(
                "context_overflow", f"the input has {size} tokens, and the model's window holds {window}."
            )
        return min(wanted, window - size)

    def _reader(self, job: Job, prompt: str) -> AnswerReader:
        if self._described:
            tools = as_array(as_object(json.loads(job.body)).get("tools"))
            try:
                return DescribedReader(self._tokenizer.get_response_parser(prefix=prompt, tools=tools), job.stem)
            except (ValueError, TypeError) as error:
                raise self._origin.error(
                    "invalid_request", f"the tokenizer's response_template cannot be used: {_shorten(str(error))}"
                ) from error
        end = prompt.rstrip()
        closing = next((mark for opening, mark in THOUGHTS.items() if end.endswith(opening)), "")
        return MarkReader(job.tools, job.stem, closing=closing, bare=self._habits.bare)

    # Keys and values

    def _resume(self, ids: Sequence[int]) -> tuple[Cache | None, int]:
        """A cache that holds the beginning of these tokens, and how many; at least one is left to read."""
        kept, self._kept = self._kept, []
        for cache, known in kept:
            same = _common(known, ids[:-1])
            if same and _cut(cache, len(known) - same):
                return cache, same
        if not _takes_cache(self._network):
            return None, 0
        return self._library.DynamicCache(config=self._network.config), 0

    def _keep(self, cache: Cache | None, ids: list[int], saved: list[tuple[Cache, list[int]]]) -> None:
        if cache is not None and 0 < (size := int(cache.get_seq_length())) <= len(ids):
            self._kept = [(cache, ids[:size]), *(each for each in saved if each[1])]

    # Writing

    def _generate(self, job: Job, ids: Sequence[int], cache: Cache | None, room: int, draft: "_Draft") -> None:
        given = self.torch.tensor([list(ids)], device=self._network.device)
        settings = copy.deepcopy(self._network.generation_config)
        fixed = {
            "max_new_tokens": room,
            "max_length": None,
            "min_length": None,
            "num_beams": 1,
            "num_return_sequences": 1,
            "use_cache": True,
            "cache_implementation": None,
            "return_dict_in_generate": False,
            "prefill_chunk_size": None if cache is None else _CHUNK,
            "eos_token_id": sorted(self._ends) or None,
            "pad_token_id": min(self._ends, default=0),  # never used, but warned about where it is missing
        }
        sampling = {name: value for name, value in job.sampling.items() if name != "seed"}
        for name, value in {**sampling, **fixed}.items():
            setattr(settings, name, value)
        if "seed" in job.sampling:
            self.torch.manual_seed(as_int(job.sampling["seed"]))
        with _quiet():
            self._network.generate(
                input_ids=given,
                attention_mask=self.torch.ones_like(given),
                past_key_values=cache,
                streamer=draft,
                generation_config=settings,
                tokenizer=self._tokenizer,  # for a model's own stop strings
            )

    def _finished(self, job: Job, draft: "_Draft", room: int) -> Answer:
        draft.finish()
        parts = draft.reader.parts()
        usage = draft.usage()
        stop: StopReason = "tool_use" if any(isinstance(part, ToolCall) for part in parts) else "end"
        if len(draft.ids) >= room and not draft.ended:
            stop = "max_tokens" if room == (job.max_output or _USUAL_OUTPUT) else "context_overflow"
        return Answer(parts, usage, stop, self._notes(job, usage))

    def _notes(self, job: Job, usage: Usage) -> tuple[str, ...]:
        model = self._origin.model
        if job.effort == "none":
            return (f"{model} thought although effort none was asked for",) if usage.reasoning else ()
        if job.effort is None or self._levels:
            return ()
        if self._habits.switch or usage.reasoning:
            return (f"{model} knows no levels of effort: thinking is on",)
        return (f"{model} does not reason: effort {job.effort} was left out",)

    def _failure(self, error: Exception, size: int) -> ModelError:
        if _is_out_of_memory(error):
            return self._origin.error(
                "context_overflow", f"the device's memory does not hold a conversation of {size} tokens."
            )
        return self._origin.error("server", f"the model failed: {type(error).__name__}: {_shorten(str(error))}")

    def _decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


class _Draft:
    """An answer taking shape: what transformers calls a streamer. Its first piece is the prompt."""

    def __init__(
        self,
        decode: Callable[[Sequence[int]], str],
        reader: AnswerReader,
        ends: frozenset[int],
        hidden: set[int],
        tell: Callable[[Delta | Answer | ModelError], None],
        begun: Charge,
    ) -> None:
        self.reader = reader
        self.ids: list[int] = []
        self.ended = False
        self._begun = begun
        self._decode = decode
        self._ends = ends
        self._hidden = hidden
        self._tell = tell
        self._reasoning = 0
        self._prompt = True
        self._shown: list[int] = []  # tokens that were shown, but are needed to decode those after them
        self._waiting: list[int] = []

    def put(self, value: Tensor) -> None:
        """Take the next tokens."""
        if self._prompt:
            self._prompt = False
            return
        if not self.ids:
            self._tell(Billed((self._begun,)))
        for one in value.tolist():
            self.ids.append(one)
            if one in self._ends:
                self.ended = True
                continue
            before = self.reader.thinking
            self._show(self.reader.feed("" if one in self._hidden else self._text(one)))
            self._reasoning += before or self.reader.thinking

    def end(self) -> None:
        """There are no more tokens."""

    def finish(self) -> None:
        """Show what has been held back."""
        if self._waiting:
            self._show(self.reader.feed(self._new()))
        self._show(self.reader.finish())

    def usage(self) -> Usage:
        """The tokens so far."""
        return replace(self._begun.usage, output=len(self.ids), reasoning=self._reasoning)

    def _show(self, deltas: Sequence[Delta]) -> None:
        for delta in deltas:
            self._tell(delta)

    def _text(self, one: int) -> str:
        """The text that a token completes; a character is shown whole or not at all."""
        self._waiting.append(one)
        text = self._new()
        if text and not text.endswith("\ufffd"):
            self._shown, self._waiting = self._waiting, []
            return text
        if len(self._waiting) <= 2 * _CHARACTER:
            return ""
        later = self._waiting[-_CHARACTER:]  # what no character can be made of is not kept for ever
        self._waiting = self._waiting[:-_CHARACTER]
        text, self._shown, self._waiting = self._new(), self._waiting, later
        return text

    def _new(self) -> str:
        return self._decode([*self._shown, *self._waiting])[len(self._decode(self._shown)) :]


def _thinking(effort: Effort | None) -> Mapping[str, object]:
    """How an effort is told to a template; each reads what it knows (Qwen, Granite and DeepSeek, gpt-oss)."""
    told: dict[str, object] = {"enable_thinking": effort != "none"}
    if effort is not None:
        told["thinking"] = effort != "none"
    if effort not in (None, "none"):
        told["reasoning_effort"] = {"minimal": "low", "xhigh": "high", "max": "high"}.get(effort, effort)
    return told


def _ends(*told: int | list[int] | None) -> frozenset[int]:
    """The tokens that end an answer."""
    return frozenset(one for each in told if each is not None for one in (each if isinstance(each, list) else [each]))


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two sequences begin with together."""
    size = min(len(first), len(second))
    return next((at for at in range(size) if first[at] != second[at]), size)


def _cut(cache: Cache, tokens: int) -> bool:
    """Forget the last tokens, where this kind of cache can; else it must not be used again."""
    if tokens == 0:
        return True
    if not getattr(cache, "is_croppable", False):
        return False
    try:
        cache.crop(-tokens)
    except (RuntimeError, ValueError):  # a sliding window has moved on
        return False
    return True


def _save(cache: Cache, ids: list[int]) -> tuple[Cache, list[int]]:
    """A copy of a cache that cannot be cut at will (sliding windows, recurrent states), as it is near the prompt's end.

    The next prompt often differs from this one and its answer only in the last few tokens: a template writes an answer
    again without its thinking. Nothing is copied of other caches.
    """
    size = int(cache.get_seq_length())
    free = getattr(cache, "is_croppable", False) and not any(getattr(cache, "is_sliding", ()))
    return (cache, []) if free or not size else (copy.deepcopy(cache), ids[:size])


def _takes_cache(network: Network) -> bool:
    """Whether a model takes a cache of the usual kind."""
    usual = cast("Callable[[], bool] | None", getattr(network, "_supports_default_dynamic_cache", None))
    return usual is not None and usual() and "mamba" not in type(network).__name__.lower()


# ---------------------------------------------------------------------------------------------------------------------
# The thread


class Runner:
    """Loads a model on a thread of its own, when first asked, and does one job after another on it.

    The thread must not be inside torch, nor importing it, when the interpreter goes: the process would abort, or hang.
    So it is no daemon, and ends by itself with the main thread: as soon as an import, loading or a step is done.
    """

    def __init__(self, weights: Weights, source: Source, limits: Limits) -> None:
        self.limits = limits
        self._weights = weights
        self._source = source
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._closing = threading.Event()
        self._model: LoadedModel | None = None
        self._thread = threading.Thread(target=self._work, name=f"selfhosted {weights.name}")

    def submit(self, job: Job) -> None:
        """Put a job behind those that wait."""
        if self._thread.ident is None:
            self._thread.start()
        self._jobs.put(job)

    def close(self, patience: float) -> None:
        """Stop what is being done, refuse what waits, give the memory back. Waits up to so many seconds."""
        self._closing.set()
        self._jobs.put(None)
        if self._thread.ident is not None:
            self._thread.join(patience)

    def _work(self) -> None:
        while (job := self._next()) is not None:
            if not job.stop.is_set():
                job.tell(self._do(job))
            del job  # what it tells must not live on until the next one comes
        if self._model is not None:
            torch, self._model = self._model.torch, None
            torch.cuda.empty_cache()

    def _next(self) -> Job | None:
        while threading.main_thread().is_alive():
            with suppress(Empty):
                return self._jobs.get(timeout=_IDLE)
        return None

    def _is_over(self) -> bool:
        return self._closing.is_set() or not threading.main_thread().is_alive()

    def _do(self, job: Job) -> Answer | ModelError:
        try:
            if self._is_over():
                raise _StoppedError
            if self._model is None:
                self._model = load(self._weights, self._source, lambda: job.stop.is_set() or self._is_over())
                self.limits = self._model.limits
            return self._model.answer(job, self._is_over)
        except _StoppedError:
            return self._source.origin.error("cut", "the provider was closed before the answer was finished")
        except ModelError as error:
            return error
        except BaseException as error:
            return self._source.origin.error("server", f"the model failed: {type(error).__name__}: {error}")
