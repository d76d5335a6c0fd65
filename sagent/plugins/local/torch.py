"""The used parts of torch and transformers: types, and the meaning of errors."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Protocol, cast

from sagent.plugins.local.template import Chat
from sagent.plugins.textcalls.reader import Regions


class Tensor(Protocol):
    @property
    def shape(self) -> Sequence[int]: ...
    def tolist(self) -> list[int]: ...
    def to(self, *, dtype: object, copy: bool) -> "Tensor": ...
    def abs(self) -> "Tensor": ...
    def max(self) -> "Tensor": ...
    def all(self) -> "Tensor": ...
    def clone(self) -> "Tensor": ...
    def argmax(self, dim: int, *, keepdim: bool) -> "Tensor": ...
    def select(self, dim: int, index: int) -> "Tensor": ...
    def narrow(self, dim: int, start: int, length: int) -> "Tensor": ...
    def unsqueeze(self, dim: int) -> "Tensor": ...
    def new_zeros(self, size: Sequence[int]) -> "Tensor": ...
    def copy_(self, source: "Tensor") -> "Tensor": ...
    def fill_(self, value: int) -> "Tensor": ...
    def __sub__(self, other: "Tensor") -> "Tensor": ...
    def __le__(self, other: "Tensor") -> "Tensor": ...
    def __bool__(self) -> bool: ...
    def __float__(self) -> float: ...
    def __getitem__(self, index: int) -> "Tensor": ...


class Cache(Protocol):
    """transformers' cache of keys and values; `crop` forgets the last tokens, given as a negative number."""

    def get_seq_length(self) -> int: ...
    def crop(self, tokens: int) -> None: ...
    def update(self, keys: Tensor, values: Tensor, layer: int) -> object: ...


class StaticLayer(Protocol):
    """A layer's slots. `cumulative_length` is the position of the next token; `update` advances it."""

    is_initialized: bool
    max_cache_len: int
    cumulative_length: Tensor
    keys: Tensor
    values: Tensor


class StaticCache(Protocol):
    """transformers' cache with fixed tensors."""

    layers: list[StaticLayer]


class Handle(Protocol):
    def remove(self) -> None: ...


class Config(Protocol):
    """A model's configuration, as config.json has it."""

    def to_dict(self) -> dict[str, object]: ...


class Generation(Protocol):
    """A generation configuration; further members are set by name."""

    eos_token_id: int | list[int] | None
    do_sample: bool


class Streamer(Protocol):
    def put(self, value: Tensor) -> None: ...


class Output(Protocol):
    logits: Tensor


class Network(Protocol):
    """A model; its output goes to `streamer`."""

    config: Config
    generation_config: Generation
    device: object
    forward: Callable[..., Output]

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


class Stream(Protocol):
    """A queue of a card."""

    def wait_stream(self, stream: "Stream") -> None: ...


class Graph(Protocol):
    """A captured stream."""

    def replay(self) -> None: ...


class RandomNumbers(Protocol):
    def clone_state(self) -> "RandomNumbers": ...
    def graphsafe_set_state(self, state: "RandomNumbers") -> object: ...


class Cuda(Devices, Protocol):
    default_generators: Sequence[RandomNumbers]

    def current_device(self) -> int: ...
    def device(self, device: object) -> AbstractContextManager[object]: ...
    def stream(self, stream: Stream) -> AbstractContextManager[object]: ...
    def current_stream(self) -> Stream: ...
    def graph(self, graph: Graph, *, stream: Stream, capture_error_mode: str) -> AbstractContextManager[object]: ...
    def Stream(self) -> Stream: ...  # noqa: N802 -- its name
    def CUDAGraph(self) -> Graph: ...  # noqa: N802 -- its name


class Torch(Protocol):
    cuda: Cuda
    mps: Devices
    float32: object

    def tensor(self, data: object, *, device: object) -> Tensor: ...
    def ones_like(self, tensor: Tensor) -> Tensor: ...
    def arange(self, end: int, *, device: object) -> Tensor: ...
    def cat(self, tensors: Sequence[Tensor], dim: int) -> Tensor: ...
    def softmax(self, tensor: Tensor, dim: int) -> Tensor: ...
    def multinomial(self, weights: Tensor, count: int) -> Tensor: ...
    def compile(self, function: Callable[..., Output], *, dynamic: bool) -> Callable[..., Output]: ...
    def manual_seed(self, seed: int) -> object: ...


class Auto(Protocol):
    """AutoTokenizer, AutoModelForCausalLM: loaded from this machine, or from the Hub."""

    def from_pretrained(self, name: str, **settings: object) -> object: ...


class Transformers(Protocol):
    AutoTokenizer: Auto
    AutoModelForCausalLM: Auto

    def DynamicCache(self, *, config: Config) -> Cache: ...  # noqa: N802 -- its name
    def StaticCache(self, *, config: Config, max_cache_len: int) -> StaticCache: ...  # noqa: N802 -- its name


class Loud(Protocol):
    """transformers.utils.logging."""

    def is_progress_bar_enabled(self) -> bool: ...
    def enable_progress_bar(self) -> None: ...
    def disable_progress_bar(self) -> None: ...
    def get_verbosity(self) -> int: ...
    def set_verbosity(self, verbosity: int) -> None: ...


@contextmanager
def quiet() -> Generator[None]:
    """Silence progress bars and warnings: another part of sagent draws on the terminal."""
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


def shorten(text: str) -> str:
    return " ".join(text.split())[:400] or "no reason was given"


def is_out_of_memory(error: BaseException) -> bool:
    text = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in text or "not enough memory" in text
