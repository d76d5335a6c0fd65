"""A running or waiting task: its state and its followers."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from a2a.types.a2a_pb2 import (
    Artifact,
    Message,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

from sagent.events import Event, ReplyFinished, Result, Retrying, TextDelta, ToolFinished
from sagent.lib.json import valid_text
from sagent.plugins.a2a.parts import ANSWER, agent_message, answer_artifact, diff_artifact, struct_of
from sagent.plugins.a2a.past import said_by_agent
from sagent.plugins.a2a.records import State, TaskRecord
from sagent.plugins.hosting.asking import question_text
from sagent.plugins.hosting.live import Question, progress_of, show_question

Update: TypeAlias = Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent

ENDED = frozenset({
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_REJECTED,
})  # fmt: skip
PAUSED = ENDED | {TaskState.TASK_STATE_INPUT_REQUIRED}
"""States after which a stream ends until the client sends a message."""
_MAX_WAITING_UPDATES = 1_000  # waiting for a follower
_ALLOWS = frozenset({"allow", "allowed", "approve", "approved", "y", "yes", "ok"})
_HOW = 'Answer in this task: "allow", or why not.'


class RunningTask:
    """`changed` is called with the task when its state changes."""

    def __init__(self, record: TaskRecord, changed: Callable[[Task], None]) -> None:
        self.record, self._changed = record, changed
        self._task = Task(id=record.id, context_id=record.context, history=record.said)
        self._answer: list[str] = []
        self._texts: list[str] = []
        self._changes = 0
        self._followers: set[asyncio.Queue[Update]] = set()
        self.question: Question | None = None
        self.run: asyncio.Future[Result] | None = None
        self.canceled = False
        self.head = ""  # its own last log entry
        self.ended = asyncio.Event()
        self.put(TaskState.TASK_STATE_SUBMITTED)

    @property
    def state(self) -> State:
        return self._task.status.state

    @property
    def status(self) -> TaskStatus:
        return self._task.status

    def snapshot(self) -> Task:
        """Return a copy of the task as it is now."""
        copy = Task()
        copy.CopyFrom(self._task)
        if self._answer:
            copy.artifacts.append(answer_artifact("".join(self._answer)))
        return copy

    async def follow(self) -> AsyncGenerator[Update]:
        """Yield the task, and updates until it ends or asks something. A slow follower gets the task's present state
        instead of all updates."""
        queue: asyncio.Queue[Update] = asyncio.Queue(_MAX_WAITING_UPDATES)
        self._followers.add(queue)
        try:
            yield self.snapshot()
            while not (queue.empty() and self.state in PAUSED):
                update = await queue.get()
                yield update
                if not isinstance(update, TaskArtifactUpdateEvent) and update.status.state in PAUSED:
                    return
        finally:
            self._followers.discard(queue)

    # -- what happens

    def put(self, state: State, message: Message | None = None, metadata: Mapping[str, object] | None = None) -> None:
        """Publish a status update."""
        before = self._task.status.state
        status = TaskStatus(state=state, message=message)
        status.timestamp.FromDatetime(datetime.now(UTC))
        self._task.status.CopyFrom(status)
        update = TaskStatusUpdateEvent(task_id=self._task.id, context_id=self._task.context_id, status=status)
        if metadata:
            update.metadata.CopyFrom(struct_of(metadata))
        self._publish(update)
        if state != before:
            self._changed(self.snapshot())

    def add_message(self, message: Message) -> None:
        """Add a further message of the client."""
        self._task.history.append(message)

    def on_event(self, event: Event) -> None:
        match event:
            case TextDelta("root", text):
                self._publish_artifact(answer_artifact(text), append=bool(self._answer))
                self._answer.append(text)
            case Retrying("root", discarded=discarded) if discarded:
                self._withdraw()
            case ReplyFinished("root", message) if message.calls:
                self._withdraw()
                if message.content.strip():
                    self._texts.append(message.content)
                    sent = said_by_agent(self.record, self._texts)[-1]
                    self._task.history.append(sent)
                    self.put(TaskState.TASK_STATE_WORKING, sent)
            case ToolFinished(diff=diff) if diff:
                self._changes += 1
                change = diff_artifact(diff, self._changes)
                self._task.artifacts.append(change)
                self._publish_artifact(change, append=False, last=True)
            case _:
                pass
        if (said := progress_of(event)) and self.question is None and not self.ended.is_set():
            self.put(TaskState.TASK_STATE_WORKING, self._said(said, "now"))  # a waiting question stays visible

    def finish(self, state: State, text: str, result: Result | None, usage: Mapping[str, object]) -> None:
        """End the task. If the run has a result, its answer is the one in that result."""
        if result is not None and result.content and result.content != "".join(self._answer):
            self._publish_artifact(answer_artifact(result.content), append=False, last=True)
            self._answer = [result.content]
        elif self._answer:
            empty = Artifact(artifact_id=ANSWER, parts=[Part(text="")])
            self._publish_artifact(empty, append=True, last=True)
        if usage:
            self._task.metadata.CopyFrom(struct_of(usage))
        self.question = None
        self.put(state, self._said(text, "end") if text else None, usage)
        self.ended.set()

    def ask(self, question: Question | None) -> None:
        """Ask the client a question; None continues the work."""
        if question is self.question:
            return
        self.question = question
        if question is None:
            self.put(TaskState.TASK_STATE_WORKING)
            return
        message = self._said(_question(question), question.id)
        message.metadata.CopyFrom(struct_of(show_question(question)))
        self.put(TaskState.TASK_STATE_INPUT_REQUIRED, message)

    def _said(self, text: str, name: str) -> Message:
        return agent_message(text, f"{self.record.id}-{name}", self.record.id, self.record.context)

    def _withdraw(self) -> None:
        """Withdraw the streamed text, which is not the answer."""
        if self._answer:
            self._publish_artifact(answer_artifact(""), append=False)
            self._answer = []

    def _publish_artifact(self, artifact: Artifact, *, append: bool, last: bool = False) -> None:
        self._publish(
            TaskArtifactUpdateEvent(
                task_id=self._task.id,
                context_id=self._task.context_id,
                artifact=artifact,
                append=append,
                last_chunk=last,
            )
        )

    def _publish(self, update: Update) -> None:
        for queue in self._followers:
            if queue.full():
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(self.snapshot())
            else:
                queue.put_nowait(update)


def decision(text: str, data: Mapping[str, object]) -> str | None:
    """Parse an answer to an approval: None allows, a text denies with a reason. Only the exact word allows."""
    if data.get("decision") == "allow" or (not data and text.strip().rstrip(".!").lower() in _ALLOWS):
        return None
    return valid_text(str(data.get("reason") or text).strip()) or "the client said no"


def _question(question: Question) -> str:
    match question.about:
        case (call, ask):
            return f"{question_text(call, ask)}\n{_HOW}"
        case inquiry:
            options = "".join(f"\n- {option}" for option in inquiry.options)
            return f"{inquiry.plan or inquiry.text}{options}"
