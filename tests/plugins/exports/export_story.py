"""A session with everything that an export shows, and with what should never come out of one."""

import struct
import zlib
from decimal import Decimal
from pathlib import Path

from sagent.codec import encode_result_part
from sagent.messages import Image, Message, Text, Thinking, ToolResult, assistant, user
from sagent.session.contents import ChargeEntry, MessageEntry, Opened, Returned, Spawned, StoredMessage, Unknown
from sagent.session.log import FileLog
from sagent.session.store import Session
from sagent.usage import Charge, Usage
from tests.messages import call

KEY = "sk-ant-REDACTME0123456789abcdef"
PASSWORD = "hunter2-correct-horse"
EVIL = "</pre></script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"
MODEL = "anthropic/claude-sonnet-4-6"


def png() -> bytes:
    """A small picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\x50\x78\xc8" * 40 for _ in range(20))
    head = struct.pack(">IIBBBBB", 40, 20, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def turn(log: FileLog, number: int, name: str, arguments: dict, result: str, *, failed: bool = False) -> None:
    """A reply with a call, its charge and its result."""

    def keep(data: bytes) -> str:
        return log.blobs.put(data).name

    made = call(f"c{number}", name, **arguments)
    said = Message("assistant", (Thinking("Hm. " + EVIL), Text(f"Step {number}."), made), model=MODEL, stop="tool_use")
    log.append(Unknown("request", {"sha256": "0" * 64, "size": 9, "model": MODEL, "parameters": {"max_tokens": 4096}}))
    log.append(MessageEntry(StoredMessage.of(said, keep)))
    usage = Usage(input=100, output=20, cache_read=900)
    bill = Charge(
        "claude-sonnet-4-6", usage, usd=Decimal("0.01"), role="executor", provider="anthropic", agent=log.agent
    )
    log.append(ChargeEntry(bill))
    answer = ToolResult(made.id, (Text(result),), failed, result.startswith("Permission denied: "))
    log.append(Unknown("result", {"result": encode_result_part(answer, keep), "seconds": 1.25}))
    log.append(MessageEntry(StoredMessage.of(Message("user", (answer,)), keep)))


def tell(path: Path) -> Path:
    """Write it."""
    with Session.create_at(path) as made:
        log, child = made.log(), made.log("root/review")

        def keep(data: bytes) -> str:
            return log.blobs.put(data).name

        log.append(Opened(made.id, "root", "/work/project", {"sagent": "0.1", "python": "3.11"}))
        log.append(
            MessageEntry(StoredMessage.of(user(f"Fix it. {EVIL} My key is {KEY}", Image("image/png", png())), keep))
        )
        first = child.append(Opened(made.id, "root/review", "/work/project", {}))
        log.append(Spawned("root/review", first.id, model="openai/gpt-5.5"))
        turn(
            log, 1, "Bash", {"command": f"deploy --now '{EVIL}'", "env": {"password": PASSWORD}}, f"out {EVIL}\x1b[31m"
        )
        turn(
            log,
            2,
            "Edit",
            {"file_path": "a.py", "old_string": "x = 1\ny = 2", "new_string": "x = 1\ny = <b>3</b>"},
            "ok",
        )
        turn(log, 3, "Write", {"file_path": "b.py", "content": "hello\n"}, "Permission denied: plan only", failed=True)
        turn(child, 1, "Read", {"file_path": "a.py"}, "no such file", failed=True)
        log.append(Unknown("result", {"result": {"call_id": "gone", "content": []}}))
        said = {"advisor": "critic", "model": "openai/gpt-5.5", "trigger": "failures", "seconds": 2.5}
        log.append(Unknown("advice", {**said, "status": "answered", "verdict": "adjust", "text": f"Test it. {EVIL}"}))
        log.append(Unknown("advice", {**said, "status": "withheld", "reason": "used up"}))
        log.append(
            ChargeEntry(Charge("gpt-5.5", Usage(input=50), role="advisor:critic", provider="openai", agent="root"))
        )
        log.append(Unknown("compacted", {"stubs": [], "before": 9000, "after": 4000, "reason": "asked"}))
        log.append(Unknown("failed", {"kind": "rate_limit", "message": "slow down"}))
        log.append(Returned("root/review", child.head))
        log.append(Unknown("environment", {"git_commit": "abc1234", "git_dirty": True}))
        log.append(
            MessageEntry(StoredMessage.of(assistant("All done.\n\n# What is left\n\n### Nothing", model=MODEL), keep))
        )
        log.blobs.put(f"spilled: TOKEN={KEY}".encode())
        log.blobs.put(b"\x7fELF\x00\x01 no text")
    return made.path
