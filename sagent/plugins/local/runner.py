"""The thread on which a model is loaded and answers."""

import threading
from contextlib import suppress
from queue import Empty, SimpleQueue

from sagent.errors import ModelError
from sagent.model import ModelLimits
from sagent.plugins.local.answer import Answer, Job, LoadedModel
from sagent.plugins.local.weights import Source, StoppedError, Weights, load
from sagent.providers.wire.waiting import loading_line

_POLL_INTERVAL_SECONDS = 0.25  # seconds between checks whether the program has ended


class Runner:
    """Loads a model on its own thread, on first use, and does one job after another there.

    The thread must not be inside torch, or importing it, when the interpreter exits: the process would abort, or hang.
    So it is no daemon, and ends with the main thread, as soon as an import, a load or a step is done.
    """

    def __init__(self, weights: Weights, source: Source, limits: ModelLimits) -> None:
        self.limits = limits
        self._weights = weights
        self._source = source
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._closing = threading.Event()
        self._model: LoadedModel | None = None
        self._job: Job | None = None  # that is being done
        self._thread = threading.Thread(target=self._work, name=f"selfhosted {weights.name}")

    def submit(self, job: Job) -> None:
        """Queue a job."""
        if self._thread.ident is None:
            self._thread.start()
        self._jobs.put(job)

    def waiting_line(self, job: Job, seconds: float) -> str:
        """Return a line about what a silent job waits for, after a number of seconds."""
        if self._model is None:
            return loading_line(self._weights.name, seconds)
        what = "Reading the prompt" if self._job is job else "Waiting for another answer of the model"
        return f"{what}… {int(seconds)} s"

    def close(self, timeout: float) -> None:
        """Stop the current job, refuse waiting ones, and free the memory. Waits up to a number of seconds."""
        self._closing.set()
        self._jobs.put(None)
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _work(self) -> None:
        while (job := self._next()) is not None:
            if not job.stop.is_set():
                self._job = job
                job.emit(self._do(job))
                self._job = None
            del job  # so that its data are freed before the next job
        if self._model is not None:
            torch = self._model.torch
            self._model.close()
            self._model = None
            torch.cuda.empty_cache()

    def _next(self) -> Job | None:
        while threading.main_thread().is_alive():
            with suppress(Empty):
                return self._jobs.get(timeout=_POLL_INTERVAL_SECONDS)
        return None

    def _is_over(self) -> bool:
        return self._closing.is_set() or not threading.main_thread().is_alive()

    def _do(self, job: Job) -> Answer | ModelError:
        try:
            if self._is_over():
                raise StoppedError
            if self._model is None:
                loaded = load(self._weights, self._source, lambda: job.stop.is_set() or self._is_over())
                self._model = LoadedModel(loaded, self._source.origin)
                self.limits = self._model.limits
            return self._model.answer(job, self._is_over)
        except StoppedError:
            return self._source.origin.error("cut", "the provider was closed before the answer was finished")
        except ModelError as error:
            return error
        except BaseException as error:
            return self._source.origin.error("server", f"the model failed: {type(error).__name__}: {error}")
