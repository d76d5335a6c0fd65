"""llama-server's command line for the package xllamacpp, which has llama.cpp's server as a Python module.

A copy of this file is beside the unpacked module and runs without sagent.
"""

import os
import signal
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import reduce
from importlib import import_module

_FLAGS: Mapping[tuple[str, ...], tuple[tuple[str, ...], Callable[[str], object]]] = {
    ("-m", "--model"): (("model.path",), str),
    ("-a", "--alias"): (("model_alias",), lambda value: {value}),
    ("--host",): (("hostnames",), lambda value: [value]),
    ("--port",): (("port",), int),
    ("-c", "--ctx-size"): (("n_ctx",), int),
    ("-b", "--batch-size"): (("n_batch",), int),
    ("-ub", "--ubatch-size"): (("n_ubatch",), int),
    ("-np", "--parallel"): (("n_parallel",), int),
    ("-sps", "--slot-prompt-similarity"): (("slot_prompt_similarity",), float),
    ("-cram", "--cache-ram"): (("cache_ram_mib",), int),
    ("-t", "--threads"): (("cpuparams.n_threads", "cpuparams_batch.n_threads"), int),
}
"""Parameters of the module that a flag's value sets."""


def main(arguments: Iterable[str]) -> None:
    """Serve a model until a signal ends the program."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # loading does not come back to Python
    module = import_module("xllamacpp")
    parameters: object = module.CommonParams()
    for name, value in _settings(arguments, os.environ):
        *path, last = name.split(".")
        setattr(reduce(getattr, path, parameters), last, value)
    server: object = module.Server(parameters)
    while server:
        signal.pause()


def _settings(arguments: Iterable[str], environ: Mapping[str, str]) -> Generator[tuple[str, object]]:
    """Yield parameters and their values; exit for an unknown flag."""
    yield "use_jinja", True
    if key := environ.get("LLAMA_API_KEY"):
        yield "api_keys", [key]
    if slots := environ.get("LLAMA_ARG_N_PARALLEL"):
        yield "n_parallel", int(slots)
    given = iter(arguments)
    for flag in given:
        if flag == "--jinja":
            continue
        names, read = next((found for flags, found in _FLAGS.items() if flag in flags), ((), str))
        value = next(given, "") if names else ""
        if not value:
            known = ", ".join(flags[-1] for flags in _FLAGS)
            sys.exit(f"error: invalid argument: {flag}. This build of llama-server has the flags {known}.")
        for name in names:
            yield name, read(value)


if __name__ == "__main__":
    main(sys.argv[1:])
