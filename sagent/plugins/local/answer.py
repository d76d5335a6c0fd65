"""A loaded model and its answers: prompts, cached keys and values, and conversion of tokens to parts."""

import copy
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import cast

from sagent.errors import ModelError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, as_array, as_int, as_object
from sagent.messages import Part, StopReason, ToolCall
from sagent.model import Billed, Delta, Effort, ToolSpec
from sagent.plugins.local.slots import CHUNK, Slots, UnfitError, capture
from sagent.plugins.local.template import Chat, adapt_conversation, learn_habits
from sagent.plugins.local.torch import Cache, Network, Tensor, is_out_of_memory, quiet, shorten
from sagent.plugins.local.weights import LoadedWeights, StoppedError, limits_in
from sagent.plugins.textcalls.marks import SHOWN_TOKENS, THOUGHTS
from sagent.plugins.textcalls.reader import AnswerReader, DescribedReader, MarkReader
from sagent.providers.wire.faults import Origin
from sagent.providers.wire.reply import stop_at
from sagent.usage import Charge, Usage

_CHARACTER = 4  # most bytes, and so tokens, of a character
_USUAL_OUTPUT = 32_000  # default limit of output tokens


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    parts: tuple[Part, ...]
    usage: Usage
    stop: StopReason
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """A call of a model. `emit` takes its deltas, then its answer or an error, on the working thread.

    `body` is {"tools": [...], "messages": [...], ...}; `sampling` has members of the generation configuration,
    `template` variables of the chat template. After `stop` is set nothing more is emitted.
    """

    body: bytes
    tools: tuple[ToolSpec, ...]
    stem: str
    emit: Callable[[Delta | Answer | ModelError], None]
    max_output: int | None = None
    effort: Effort | None = None
    sampling: Mapping[str, object] = EMPTY
    template: Mapping[str, object] = EMPTY
    stop: threading.Event = field(default_factory=threading.Event)


class LoadedModel:
    """A model in memory, with the keys and values of its last input."""

    def __init__(self, loaded: LoadedWeights, origin: Origin) -> None:
        network, tokenizer = loaded.network, loaded.tokenizer
        self.torch = loaded.torch
        self._library = loaded.library
        self._network = network
        self._tokenizer = tokenizer
        self._origin = origin
        self._kept: list[tuple[Cache, list[int]]] = []
        self._known: list[int] = []  # tokens in slots
        self._slots: Slots | None = None
        self._notice = loaded.notice  # until it was reported
        self._described = bool(getattr(tokenizer, "response_template", None))
        self._habits = learn_habits(self._render, described=self._described)
        self._levels = "reasoning_effort" in str(tokenizer.chat_template)
        self._ends = _ends(network.generation_config.eos_token_id, tokenizer.eos_token_id)
        special = () if self._described else tokenizer.all_special_ids
        self._hidden = {one for one in special if self._decode([one]).strip() not in SHOWN_TOKENS}
        self.limits = limits_in(network.config.to_dict())
        if loaded.captured:
            try:
                self._slots = Slots(loaded, capture if str(network.device).startswith("cuda") else None)
            except (UnfitError, AttributeError, TypeError, ValueError, KeyError) as error:
                self._notice = self._slowness(shorten(str(error)))

    def close(self) -> None:
        """Release the cached data."""
        self._kept.clear()
        if self._slots is not None:
            self._slots.close()

    def answer(self, job: Job, is_over: Callable[[], bool]) -> Answer:
        """Do a job. Raises ModelError, and StoppedError before a step once the job is stopped or all is over."""
        prompt = self._prompt(job)
        ids = self._tokenizer(prompt, add_special_tokens=False)["input_ids"]
        room = self._room(job, len(ids))
        cache, reused = self._resume(ids) if self._slots is None else (None, self._resume_slots(self._slots, ids))
        begun = Charge(self._origin.model, Usage(input=len(ids) - reused, cache_read=reused))
        generated = _Generated(self._decode, self._reader(job, prompt), self._ends, self._hidden, job.emit, begun)

        saved: list[tuple[Cache, list[int]]] = []

        def check() -> None:
            if job.stop.is_set() or is_over():
                raise StoppedError

        def before_step(_module: object, _inputs: object) -> None:
            check()
            if cache is not None and not saved and int(cache.get_seq_length()) + CHUNK >= len(ids):
                saved.append(_save(cache, ids))

        loop = self._slots and self._slots.writer(generated, check)
        hook = self._network.register_forward_pre_hook(before_step)
        try:
            self._generate(job, ids, cache, room, generated, loop)
        except StoppedError:
            self._keep(cache, [*ids, *generated.ids], saved)
            raise
        except Exception as error:
            self._keep_slots([])
            raise self._failure(error, len(ids)) from error
        finally:
            hook.remove()
        self._keep(cache, [*ids, *generated.ids], saved)
        return self._finished(job, generated, room)

    # The prompt

    def _render(self, chat: Sequence[Chat], tools: Sequence[object], more: Mapping[str, object]) -> str:
        return self._tokenizer.apply_chat_template(
            chat, tools=list(tools) or None, add_generation_prompt=True, tokenize=False, **more
        )

    def _prompt(self, job: Job) -> str:
        body = as_object(json.loads(job.body))
        chat = [as_object(message) for message in as_array(body.get("messages"))]
        dressed, tools = adapt_conversation(chat, as_array(body.get("tools")), self._habits)
        try:
            return self._render(dressed, tools, {**_thinking(job.effort), **job.template})
        except Exception as error:
            raise self._origin.error(
                "invalid_request", f"the chat template rejects this conversation: {shorten(str(error))}"
            ) from error

    def _room(self, job: Job, size: int) -> int:
        """Return how many tokens may be written."""
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
                    "invalid_request", f"the tokenizer's response_template cannot be used: {shorten(str(error))}"
                ) from error
        end = prompt.rstrip()
        closing = next((mark for opening, mark in THOUGHTS.items() if end.endswith(opening)), "")
        return MarkReader(job.tools, job.stem, closing=closing, bare=self._habits.bare)

    # Keys and values

    def _resume(self, ids: Sequence[int]) -> tuple[Cache | None, int]:
        """Return a cache with the beginning of these tokens, and its length; at least one token is left to read."""
        kept, self._kept = self._kept, []
        for cache, known in kept:
            same = _common(known, ids[:-1])
            if same and _cut(cache, len(known) - same):
                return cache, same
        if not _takes_cache(self._network):
            return None, 0
        return self._library.DynamicCache(config=self._network.config), 0

    def _resume_slots(self, slots: Slots, ids: Sequence[int]) -> int:
        """Return how many of these tokens are in the slots already; at least one is left to read."""
        same, self._known = _common(self._known, ids[:-1]), []
        slots.resume(ids, same)
        return same

    def _keep_slots(self, ids: list[int]) -> Cache | None:
        """Record the slots' tokens; failed slots are never used again, and their replacement is returned."""
        if (slots := self._slots) is None:
            return None
        self._known = slots.kept(ids)
        if slots.reason:
            self._slots, self._notice = None, self._slowness(slots.reason)
        return slots.loose

    def _keep(self, cache: Cache | None, ids: list[int], saved: list[tuple[Cache, list[int]]]) -> None:
        cache = self._keep_slots(ids) or cache
        if cache is not None and 0 < (size := int(cache.get_seq_length())) <= len(ids):
            self._kept = [(cache, ids[:size]), *(each for each in saved if each[1])]

    # Writing

    def _generate(
        self, job: Job, ids: Sequence[int], cache: Cache | None, room: int, generated: "_Generated", loop: object = None
    ) -> None:
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
            "prefill_chunk_size": None if cache is None else CHUNK,
            "eos_token_id": sorted(self._ends) or None,
            "pad_token_id": min(self._ends, default=0),  # unused, but transformers warns if it is missing
        }
        sampling = {name: value for name, value in job.sampling.items() if name != "seed"}
        for name, value in {**sampling, **fixed}.items():
            setattr(settings, name, value)
        if "seed" in job.sampling:
            self.torch.manual_seed(as_int(job.sampling["seed"]))
        with quiet():
            self._network.generate(
                input_ids=given,
                attention_mask=self.torch.ones_like(given),
                past_key_values=cache,
                streamer=generated,
                generation_config=settings,
                custom_generate=loop,
                tokenizer=self._tokenizer,  # for a model's own stop strings
            )

    def _finished(self, job: Job, generated: "_Generated", room: int) -> Answer:
        generated.finish()
        parts = generated.reader.parts()
        usage = generated.usage()
        stop: StopReason = "tool_use" if any(isinstance(part, ToolCall) for part in parts) else "end"
        if len(generated.ids) >= room and not generated.ended:
            stop = "max_tokens" if room == (job.max_output or _USUAL_OUTPUT) else "context_overflow"
        elif not generated.ended and _has_stop_sequence(self._network.generation_config):
            stop = "stop_sequence"
        notice, self._notice = self._notice, ""
        notes = self._notes(job, usage)
        return Answer(parts, usage, stop, (*notes, notice) if notice else notes)

    def _slowness(self, reason: str) -> str:
        return f"{self._origin.model} is slower, without a CUDA graph: {reason}"

    def _notes(self, job: Job, usage: Usage) -> tuple[str, ...]:
        model = self._origin.model
        if job.effort == "none":
            return (f"{model} thought although effort none was requested",) if usage.reasoning else ()
        if job.effort is None or self._levels:
            return ()
        if self._habits.switch or usage.reasoning:
            return (f"{model} has no levels of effort: thinking is on",)
        return (f"{model} does not reason: effort {job.effort} was left out",)

    def _failure(self, error: Exception, size: int) -> ModelError:
        if is_out_of_memory(error):
            return self._origin.error(
                "context_overflow", f"a conversation of {size} tokens does not fit into the device's memory."
            )
        return self._origin.error("server", f"the model failed: {type(error).__name__}: {shorten(str(error))}")

    def _decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


@dataclass(slots=True, eq=False)
class _Generated:
    """An answer taking shape: what transformers calls a streamer. Its first piece is the prompt."""

    _decode: Callable[[Sequence[int]], str]
    reader: AnswerReader
    _ends: frozenset[int]
    _hidden: set[int]
    _emit: Callable[[Delta | Answer | ModelError], None]
    _begun: Charge
    ids: list[int] = field(default_factory=list[int])
    ended: bool = False
    _reasoning: int = 0
    _prompt: bool = True
    _shown: list[int] = field(default_factory=list[int])  # that are needed to decode those after them
    _waiting: list[int] = field(default_factory=list[int])

    def put(self, value: Tensor) -> None:
        """Take the next tokens."""
        if self._prompt:
            self._prompt = False
            return
        if not self.ids:
            self._emit(Billed((self._begun,)))
        for one in value.tolist():
            self.ids.append(one)
            if one in self._ends:
                self.ended = True
                continue
            before = self.reader.thinking
            self._show(self.reader.feed("" if one in self._hidden else self._text(one)))
            self._reasoning += before or self.reader.thinking

    def end(self) -> None:
        """End the reply: there are no more tokens."""

    def finish(self) -> None:
        """Emit the held-back text."""
        if self._waiting:
            self._show(self.reader.feed(self._new()))
        self._show(self.reader.finish())

    def usage(self) -> Usage:
        """Return the tokens so far."""
        return replace(self._begun.usage, output=len(self.ids), reasoning=self._reasoning)

    def _show(self, deltas: Sequence[Delta]) -> None:
        for delta in deltas:
            self._emit(delta)

    def _text(self, token: int) -> str:
        """Return the text that a token completes; only complete characters are emitted."""
        self._waiting.append(token)
        text = self._new()
        if text and not text.endswith("\ufffd"):
            self._shown, self._waiting = self._waiting, []
            return text
        if len(self._waiting) <= 2 * _CHARACTER:
            return ""
        later = self._waiting[-_CHARACTER:]  # bytes that form no character are not kept for ever
        self._waiting = self._waiting[:-_CHARACTER]
        text, self._shown, self._waiting = self._new(), self._waiting, later
        return text

    def _new(self) -> str:
        return self._decode([*self._shown, *self._waiting])[len(self._decode(self._shown)) :]


def _thinking(effort: Effort | None) -> Mapping[str, object]:
    """Return the template variables for the effort; each template uses those it knows (Qwen, Granite and DeepSeek,
    gpt-oss)."""
    variables: dict[str, object] = {"enable_thinking": effort != "none"}
    if effort is not None:
        variables["thinking"] = effort != "none"
    if effort not in (None, "none"):
        variables["reasoning_effort"] = {"minimal": "low", "xhigh": "high", "max": "high"}.get(effort, effort)
    return variables


def _ends(*tokens: int | list[int] | None) -> frozenset[int]:
    """Return the tokens that end an answer."""
    return frozenset(one for each in tokens if each is not None for one in (each if isinstance(each, list) else [each]))


def _has_stop_sequence(settings: object) -> bool:
    """Return True if a model's configuration ends its replies at strings that are not its own marks."""
    given = getattr(settings, "stop_strings", None)
    return any(stop_at(each, ()) for each in (as_array(given) or (given,)))


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """Count the leading tokens that both sequences share."""
    size = min(len(first), len(second))
    return next((at for at in range(size) if first[at] != second[at]), size)


def _cut(cache: Cache, tokens: int) -> bool:
    """Remove the last tokens, if this kind of cache can; otherwise it must not be used again."""
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
    """Return a copy of a cache that cannot be cut freely (sliding windows, recurrent states), near the prompt's end.

    The next prompt often differs from this one and its answer only in the last few tokens: a template writes an answer
    again without its thinking. Other caches are not copied.
    """
    size = int(cache.get_seq_length())
    free = getattr(cache, "is_croppable", False) and not any(getattr(cache, "is_sliding", ()))
    return (cache, []) if free or not size else (copy.deepcopy(cache), ids[:size])


def _takes_cache(network: Network) -> bool:
    """Return True if a model accepts a cache of the usual kind."""
    usual = cast("Callable[[], bool] | None", getattr(network, "_supports_default_dynamic_cache", None))
    return usual is not None and usual() and "mamba" not in type(network).__name__.lower()
