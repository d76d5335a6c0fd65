"""Keys and values in fixed slots, and a decoding step over them that a CUDA graph replays.

An eager step of a small model costs the launches of a thousand kernels, far more than the card needs for its work. A
graph replays them at once, always with the same addresses and the same Python values as at its capture: so everything
that changes from step to step is in tensors, and the mask hides slots that are not written yet.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext

from sagent.plugins.local.torch import Cache, Generation, Network, StaticCache, Streamer, Tensor, Torch, shorten
from sagent.plugins.local.weights import LoadedWeights, limits_in

CHUNK = 512  # tokens of a prompt read at once: how soon a call can be stopped before its first token
_MIN_SLOTS = 2_048  # slots to begin with
_AHEAD = 1_024  # slots for an answer; doubled if they are not enough
_TRIAL = 3  # tokens for testing a captured step
_TOLERANCE = 0.02  # of the largest number: half a dozen steps of bfloat16
_OTHER_LOOPS = ("stop_strings", "dola_layers", "penalty_alpha", "prompt_lookup_num_tokens")

Step = Callable[[], Tensor]
Recorder = Callable[[Torch, object, Step], Step]


class UnfitError(Exception):
    """Error for weights that cannot be run over slots; the text says why."""


class Slots:
    """The cache of a model, in a power of two of slots. One conversation at a time.

    If anything fails, the data move into a usual cache (`loose`), the answer continues with that, and `reason` says
    why. Without `record` nothing is captured: the step is called directly.
    """

    def __init__(self, loaded: LoadedWeights, record: Recorder | None = None) -> None:
        self.loose: Cache | None = None
        self.reason = ""
        self._torch = loaded.torch
        self._library = loaded.library
        self._network = loaded.network
        self._record = record
        self._cache = _fitting(loaded)
        self._window = limits_in(loaded.network.config.to_dict()).window
        self._size = _MIN_SLOTS
        self._length = 0
        self._ids: list[int] = []
        self._replay: Step | None = None
        self._token = loaded.torch.tensor([[0]], device=loaded.network.device)
        self._place = loaded.torch.tensor([0], device=loaded.network.device)
        self._numbers = loaded.torch.arange(self._size, device=loaded.network.device)

    def resume(self, ids: Sequence[int], same: int) -> None:
        """Begin with these tokens, the first of which are in the slots already."""
        self._ids = list(ids)
        self._rewind(same)

    def kept(self, ids: Sequence[int]) -> list[int]:
        """Return the tokens of a whole conversation that are in slots now."""
        return list(ids[: self._length])

    def writer(self, streamer: Streamer, check: Callable[[], None]) -> Callable[..., Tensor]:
        """Return a decoding loop for `generate(custom_generate=...)`: greedy or sampling, like transformers' own.

        `check` is called before each step, and may raise.
        """

        def write(
            model: Network,
            input_ids: Tensor,
            logits_processor: Callable[[Tensor, Tensor], Tensor],
            stopping_criteria: Callable[[Tensor, object], Tensor],
            generation_config: Generation,
            **more: object,
        ) -> Tensor:
            ids, torch = input_ids, self._torch
            logits = self._read(ids, check, {key: more[key] for key in ("logits_to_keep",) if key in more})
            with getattr(model, "_optimize_model_for_decode", nullcontext)():  # as transformers does, for experts
                while True:
                    scores = logits_processor(ids, logits.to(dtype=torch.float32, copy=True))
                    if generation_config.do_sample:
                        token = torch.multinomial(torch.softmax(scores, -1), 1)
                    else:
                        token = scores.argmax(-1, keepdim=True)
                    ids = torch.cat([ids, token], -1)
                    streamer.put(token[0])
                    if stopping_criteria(ids, None).all():
                        return ids
                    check()
                    logits = self._next(token)

        return write

    def close(self) -> None:
        """Let go of the graph and the slots."""
        self._replay = self.loose = None
        self._cache.layers.clear()

    def _read(self, ids: Tensor, check: Callable[[], None], more: dict[str, object]) -> Tensor:
        """Read the new part of a prompt; return the logits for the next token."""
        size, logits = ids.shape[1], None
        while (at := self._length) < size:
            check()
            count = min(CHUNK, size - at)
            chunk = ids.narrow(1, at, count)
            logits = self._guarded(lambda: self._read_chunk(chunk, size, more), chunk, more)  # noqa: B023 -- called at once
            self._length = at + count
        assert logits is not None, "a token of the prompt is always left to read"
        return logits

    def _read_chunk(self, chunk: Tensor, size: int, more: dict[str, object]) -> Tensor:
        self._make_room(size + _AHEAD)
        places = self._numbers.narrow(0, self._length, chunk.shape[1])
        return self._run(chunk, places, more)

    def _next(self, token: Tensor) -> Tensor:
        """Return the logits after one more token; those of the step before are overwritten."""
        logits = self._guarded(lambda: self._step_at(token), token, {})
        self._length += 1
        return logits

    def _step_at(self, token: Tensor) -> Tensor:
        self._make_room(self._length + 1 + _TRIAL)
        if self._replay is None:
            self._replay = self._step if self._record is None else self._recorded(self._record)
        self._token.copy_(token)
        self._place.fill_(self._length)
        return self._replay()

    def _guarded(self, run: Step, ids: Tensor, more: dict[str, object]) -> Tensor:
        """Run over the slots; after a first failure, with a usual cache from then on."""
        if self.loose is None:
            try:
                return run()
            except Exception as error:
                self.reason = shorten(f"{type(error).__name__}: {error}")
            self.loose = self._moved()
        out = self._network.forward(input_ids=ids, past_key_values=self.loose, use_cache=True, return_dict=True, **more)
        return out.logits.select(1, -1)

    def _run(self, ids: Tensor, places: Tensor, more: dict[str, object]) -> Tensor:
        """Run the model; a token sees itself and earlier ones. Hooks are skipped."""
        seen = self._numbers.unsqueeze(0) <= places.unsqueeze(1)
        out = self._network.forward(
            input_ids=ids,
            position_ids=places.unsqueeze(0),
            attention_mask=seen.unsqueeze(0).unsqueeze(0),
            past_key_values=self._cache,
            use_cache=True,
            return_dict=True,
            **more,
        )
        return out.logits.select(1, -1)

    def _step(self) -> Tensor:
        return self._run(self._token, self._place, {})

    # Capture

    def _recorded(self, record: Recorder) -> Step:
        """Return a captured step that gives the same numbers as the step itself, at any position."""
        expected = self._tried(self._step)
        replay = record(self._torch, self._network.device, self._step)
        self._rewind(self._length)
        for one, other in zip(expected, self._tried(replay), strict=True):
            if not float((one - other).abs().max()) <= _TOLERANCE * float(one.abs().max()):
                raise UnfitError("its captured step gives different numbers")
        return replay

    def _tried(self, step: Step) -> list[Tensor]:
        """Return the logits after a few tokens, which are then forgotten."""
        found: list[Tensor] = []
        for at, token in enumerate(self._ids[-_TRIAL:]):
            self._token.fill_(token)
            self._place.fill_(self._length + at)
            found.append(step().clone())
        self._rewind(self._length)
        return found

    # Slots

    def _rewind(self, length: int) -> None:
        """Continue from a position: later slots are hidden, and overwritten."""
        self._length = length
        for layer in self._cache.layers:
            layer.cumulative_length.fill_(length)

    def _make_room(self, tokens: int) -> None:
        if tokens <= self._size:
            return
        size = 1 << (tokens - 1).bit_length()
        if self._window is not None:
            size = min(size, max(tokens, self._window))
        self._replay = None  # its addresses are those of the old slots
        self._torch.cuda.empty_cache()
        for layer in self._cache.layers:
            layer.max_cache_len = size
            if layer.is_initialized:
                layer.keys = _enlarged(layer.keys, size, self._length)
                layer.values = _enlarged(layer.values, size, self._length)
        self._numbers = self._torch.arange(size, device=self._network.device)
        self._size = size

    def _moved(self) -> Cache:
        """Move the data into a usual cache; the slots are freed layer by layer."""
        self._replay = None
        cache = self._library.DynamicCache(config=self._network.config)
        layers, self._cache.layers = self._cache.layers, []
        for at in range(len(layers)):
            layer = layers.pop(0)
            if self._length:
                cache.update(layer.keys.narrow(2, 0, self._length), layer.values.narrow(2, 0, self._length), at)
        self._torch.cuda.empty_cache()
        return cache


def capture(torch: Torch, device: object, step: Step) -> Step:
    """Return a step captured in a CUDA graph. Raises whatever torch cannot capture."""
    cuda = torch.cuda
    with cuda.device(device):
        stream = cuda.Stream()
        stream.wait_stream(cuda.current_stream())
        with cuda.stream(stream):
            step()  # what libraries set up for each stream is set up now
        cuda.current_stream().wait_stream(stream)
        graph = cuda.CUDAGraph()
        try:  # torch does not leave the stream of a capture that failed: the outer context does
            with (
                cuda.stream(cuda.current_stream()),
                cuda.graph(graph, stream=stream, capture_error_mode="thread_local"),
            ):
                logits = step()
        except BaseException:  # nor does it end the capture for random numbers: a clone begins without one
            generator = cuda.default_generators[cuda.current_device()]
            generator.graphsafe_set_state(generator.clone_state())
            raise

    def replay() -> Tensor:
        graph.replay()
        return logits

    return replay


def _fitting(loaded: LoadedWeights) -> StaticCache:
    """Make slots for a model. Raises UnfitError if a captured step could fail."""
    network = loaded.network
    if not getattr(network, "_can_compile_fullgraph", False):
        raise UnfitError("transformers does not run it as one graph")
    if (attention := getattr(network.config, "_attn_implementation", "")) != "sdpa":
        raise UnfitError(f"its attention is {attention}, not sdpa")
    if any(getattr(network.generation_config, name, None) for name in _OTHER_LOOPS):
        raise UnfitError("its generation configuration asks for another way to decode, or for strings that end it")
    if "'rope_type': 'dynamic'" in str(network.config.to_dict()):
        raise UnfitError("its positions depend on how much was read")
    cache = loaded.library.StaticCache(config=network.config, max_cache_len=_MIN_SLOTS)
    if kinds := {type(layer).__name__ for layer in cache.layers} - {"StaticLayer"}:
        raise UnfitError(f"it has layers that forget or sum up ({', '.join(sorted(kinds))})")
    return cache


def _enlarged(old: Tensor, size: int, length: int) -> Tensor:
    shape = list(old.shape)
    new = old.new_zeros((shape[0], shape[1], size, shape[3]))
    new.narrow(2, 0, length).copy_(old.narrow(2, 0, length))
    return new
