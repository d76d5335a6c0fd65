"""Weights: their selection, download from the Hub, and loading into memory."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from importlib import import_module
from pathlib import Path
from typing import cast

from sagent.errors import ModelError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_int, as_object, as_str
from sagent.lib.names import path_of
from sagent.model import ModelLimits
from sagent.plugins.local.torch import Network, Tokenizer, Torch, Transformers, is_out_of_memory, quiet, shorten
from sagent.providers.wire.faults import Origin


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights, and how they are run. "" leaves the choice to us."""

    name: str  # a repository of the Hub, or a path
    device: str = ""
    dtype: str = ""
    compiled: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """The source of weights, and the origin that errors name."""

    origin: Origin
    folder: Path  # the Hub's cache
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class LoadedWeights:
    """Weights in memory, and the libraries that run them. `captured`: a CUDA graph does a step of the decoding."""

    torch: Torch
    library: Transformers
    network: Network
    tokenizer: Tokenizer
    captured: bool = False
    notice: str = ""  # note on how they are run, for the first answer


class StoppedError(Exception):
    """Nobody waits any more."""


def limits_in(config: Mapping[str, object]) -> ModelLimits:
    """Return a model's sizes, from its config.json. The window is for input and output together."""
    inner = as_object(config.get("text_config")) or config
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx")
    window = next((size for name in names if (size := as_int(inner.get(name))) > 0), None)
    return ModelLimits(window, window)


def load(weights: Weights, source: Source, stopped: Callable[[], bool]) -> LoadedWeights:
    """Load a model, downloaded from the Hub if missing. Raises ModelError.

    A download ends as soon as `stopped` is True, with StoppedError; loading cannot be interrupted.
    """
    here = path_of(weights.name).exists()
    is_repository = not here and re.fullmatch(r"[\w.-]+(/[\w.-]+)?", weights.name) is not None
    if not here and not is_repository:
        raise source.origin.error("not_found", f"there is no folder {weights.name} here.")
    torch = cast("Torch", import_module("torch"))
    library = cast("Transformers", import_module("transformers"))
    device = weights.device or ("cuda" if torch.cuda.is_available() else "mps" if torch.mps.is_available() else "cpu")
    _check_device(torch, device, source.origin)
    try:
        try:
            tokenizer, network = _open(library, weights, source, device)
        except OSError:  # one of its files is missing
            if not is_repository:
                raise
            _download(weights, source, stopped)
            tokenizer, network = _open(library, weights, source, device)
    except (StoppedError, ModelError):
        raise
    except Exception as error:
        raise _load_error(weights, device, source.origin, error) from error
    captured = device.startswith("cuda")
    if weights.compiled and not captured:
        network.forward = torch.compile(network.forward, dynamic=True)
    notice = "+compile has no effect on CUDA: a captured step is faster there" if weights.compiled and captured else ""
    return LoadedWeights(torch, library, network, tokenizer, captured, notice)


class _UntaughtError(OSError):
    """Error for weights without a chat template."""


def _open(library: Transformers, weights: Weights, source: Source, device: str) -> tuple[Tokenizer, Network]:
    """Load from this machine. Raises OSError for a missing file, and transformers' errors."""
    local = path_of(weights.name)
    name = str(local) if local.exists() else weights.name
    settings = {"cache_dir": str(source.folder), "local_files_only": True}
    dtype = weights.dtype or ("float32" if device == "cpu" else "auto")
    with quiet():
        tokenizer = cast("Tokenizer", library.AutoTokenizer.from_pretrained(name, **settings))
        if not tokenizer.chat_template:
            raise _UntaughtError("it has no chat template: use a model that was tuned for chat")
        network = cast("Network", library.AutoModelForCausalLM.from_pretrained(name, dtype=dtype, **settings))
        return tokenizer, network.to(device).eval()


# Runs in a process of its own, which can be ended at any time; ends itself when its starter is gone. It only fetches
# weights that transformers loads, not copies for other programs.
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
    """Fetch a repository into the Hub's cache. An interrupted download is kept there. Raises ModelError."""
    environment = {**os.environ, "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    if source.token:
        environment["HF_TOKEN"] = source.token
    command = [sys.executable, "-P", "-c", _DOWNLOADER, weights.name, str(source.folder)]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        while process.poll() is None:
            if stopped():
                process.kill()
                raise StoppedError
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.1)
        printed = process.stdout.read() if process.stdout else b""
    try:
        found = as_array(json.loads(printed)) if printed.strip() else ()
    except ValueError:
        found = ((), printed.decode("utf-8", "replace"))
    if found or process.returncode:
        names, said = found or ((), f"the download ended with {process.returncode}")
        raise _fetch_error(weights, source.origin, set(map(as_str, as_array(names))), shorten(as_str(said)))


def _check_device(torch: Torch, device: str, origin: Origin) -> None:
    kind, _, number = device.partition(":")
    present = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": torch.mps.device_count()}[kind]
    if int(number or 0) >= present:
        raise origin.error(
            "invalid_request", f"there is no {device} here that torch can use: name another device, or none."
        )


def _load_error(weights: Weights, device: str, origin: Origin, error: Exception) -> ModelError:
    """Return the error for a model that could not be loaded."""
    if is_out_of_memory(error):
        return origin.error(
            "invalid_request",
            f"{weights.name} does not fit into the memory of {device}: try +bfloat16 or a smaller model.",
        )
    said = shorten(str(error))
    if isinstance(error, OSError) and not isinstance(error, _UntaughtError):
        return origin.error("not_found", f"{weights.name} cannot be loaded: {said}")
    return origin.error("invalid_request", f"{weights.name} cannot be loaded: {type(error).__name__}: {said}")


def _fetch_error(weights: Weights, origin: Origin, names: set[str], message: str) -> ModelError:
    """Return the error for a model that could not be downloaded, by the names of the exception's classes."""
    name = weights.name
    if "GatedRepoError" in names:
        return origin.error("permission", f"{name} is gated: accept its terms on its page, and set HF_TOKEN.")
    if names & {"RepositoryNotFoundError", "RevisionNotFoundError", "HFValidationError"}:
        return origin.error("not_found", f"there is no folder {name} here, and no such model on the Hub: {message}")
    if "OfflineModeIsEnabled" in names:
        return origin.error("not_found", f"{name} is not on this machine, and HF_HUB_OFFLINE forbids downloading it.")
    on_the_way = {"ConnectionError", "TimeoutError", "TransportError", "HfHubHTTPError"}
    if "OSError" in names and not names & on_the_way:
        return origin.error("invalid_request", f"{name} cannot be stored: {message}")
    return origin.error("network", f"{name} is not on this machine, and cannot be downloaded: {message}")
