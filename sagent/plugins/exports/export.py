"""A session for others: as a verifiable bundle, a page, Markdown, or lines of JSON."""

import heapq
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from sagent.errors import SessionCorrupt
from sagent.lib.encoding import Binary, decode
from sagent.lib.json import canonical_bytes, sha256_hex
from sagent.plugins.audit.bundle import SESSION, write_bundle
from sagent.plugins.audit.signature import SIGNATURE
from sagent.plugins.audit.verify import Proof, verify
from sagent.plugins.exports.exported import Exported
from sagent.plugins.exports.markdown import write_markdown
from sagent.plugins.exports.memory import SessionRedaction
from sagent.plugins.exports.session_page import VerificationSummary, write_page
from sagent.plugins.exports.steps import Consulted, Remark
from sagent.plugins.exports.timeline import Timeline, calls_of, read_timeline, verdict_of, words_of
from sagent.sandbox.scratch import temporary
from sagent.session.blobs import BlobDirectory
from sagent.session.entries import Entry
from sagent.session.log import read_log
from sagent.session.names import agent_of
from sagent.session.place import Place
from sagent.session.statement import STATEMENT
from sagent.session.store import named_logs
from sagent.transcript.redaction import Redaction
from sagent.usage import Sum


def export_text(session: Path, kind: Literal["html", "md"], redaction: Redaction) -> tuple[bytes, Exported]:
    """Return a session as a page or as Markdown. Damaged parts are left out and reported. Raises SagentError and
    OSError."""
    proof, redaction = verify(session), SessionRedaction.of(redaction)
    timeline = read_timeline(session, named_logs(session))
    checked = _checked(proof)
    if kind == "html":
        page = write_page(timeline, redaction, checked, BlobDirectory(session / "blobs").find)
    else:
        page = write_markdown(timeline, redaction, checked).encode()
    return page, Exported(secrets=redaction.count, problems=tuple(dict.fromkeys((*proof.problems, *timeline.damaged))))


def export_lines(session: Path, redaction: Redaction) -> Iterator[bytes]:
    """Yield every entry of every agent, in the order written, each a line of JSON with its `agent`; a redacted one has
    `"redacted":true`, and no longer matches its id. Raises SessionCorrupt and OSError."""
    streams, redaction = [_entries(session, file) for file in named_logs(session)], SessionRedaction.of(redaction)
    for _, agent, entry in heapq.merge(*streams, key=lambda item: item[0]):
        line = redaction.entry(entry)
        mark = b'"redacted":true,' if line is not entry.line else b""
        yield b'{"agent":%b,%b%b' % (json.dumps(agent).encode(), mark, line[1:])


def export_bundle(session: Path, out: Path, redaction: Redaction, settings: Mapping[str, str]) -> Exported:
    """Write a bundle: the session's logs and blobs, a report, a page, and a manifest of all of them. The same session
    and settings make the same bytes.

    Raises SessionCorrupt for a session that does not verify: repair it first. Raises OSError.
    """
    proof = verify(session)
    if len(proof.torn) < len(proof.problems):
        logs = any(part.problems for part in proof.parts if part.name.startswith("log of "))
        advice = "`sagent sessions repair` keeps the intact part; " if logs else ""
        raise SessionCorrupt(
            f"{session} does not verify, so it was not exported as a bundle: {proof.problems[0]} (`sagent verify` "
            "shows all; "
            f"{advice}--format html shows what can be read)"
        )
    with temporary() as scratch:
        return _Bundle(session, scratch, redaction).write(out, proof, settings)


class _Bundle:
    """A bundle under construction. Redacted files are in `scratch`."""

    def __init__(self, session: Path, scratch: Path, redaction: Redaction) -> None:
        self._session = session
        self._scratch = scratch
        self._redaction = SessionRedaction.of(redaction)
        self._files: dict[str, Place | bytes] = {}
        self._entries: dict[str, dict[str, int]] = {}
        self._blobs: dict[str, int] = {}
        self._unsearched: list[str] = []

    def write(self, out: Path, proof: Proof, settings: Mapping[str, str]) -> Exported:
        for file in named_logs(self._session):
            self._log(file)
        self._keep_blobs()
        for name in (STATEMENT, SIGNATURE):
            with suppress(FileNotFoundError):
                self._files[SESSION + name] = _place(self._session / name)
        secrets = self._redaction.count
        timeline = read_timeline(self._session, named_logs(self._session))
        apart = self._redaction.apart()  # the same secrets again
        self._files["report.html"] = write_page(
            timeline, apart, _checked(proof), BlobDirectory(self._session / "blobs").find
        )
        self._files["report.json"] = canonical_bytes(apart.value(report(timeline, proof, apart))) + b"\n"
        written = write_bundle(out, self._members(timeline, proof, settings, secrets), self._files)
        entries = sum(map(len, self._entries.values()))
        return Exported(secrets, entries, len(self._blobs), len(self._unsearched), written, proof.torn)

    def _members(
        self, timeline: Timeline, proof: Proof, settings: Mapping[str, str], secrets: int
    ) -> dict[str, object]:
        clean = Redaction()
        return {
            "session": proof.session,
            "heads": dict(proof.heads),
            "environment": clean.value(timeline.environment),
            "parameters": clean.value(timeline.parameters),
            "settings": clean.value(dict(settings)),
            "redacted": {"secrets": secrets, "entries": self._entries, "blobs": self._blobs},
            "searched": not self._redaction.keep,
            "unsearched": sorted(self._unsearched),
        }

    def _log(self, file: Path) -> None:
        """Add a log without its incomplete end; if anything is redacted, a copy."""
        name = f"{agent_of(self._session, file)}.jsonl"
        size, changed = 0, {}
        copy = self._scratch / sha256_hex(name.encode())
        with copy.open("wb") as out:
            for entry in read_log(file):
                before = self._redaction.count
                line = self._redaction.entry(entry)
                out.write(line)
                size += len(entry.line)
                if line is not entry.line:
                    changed[entry.id] = self._redaction.count - before
        if changed:
            self._entries[name] = changed
            self._files[SESSION + name] = _place(copy)
        else:
            copy.unlink()
            self._files[SESSION + name] = Place(file, 0, size)

    def _keep_blobs(self) -> None:
        directory = self._session / "blobs"
        for file in sorted(directory.iterdir()) if directory.is_dir() else ():
            if file.name.startswith("scratch-"):
                continue
            name = f"{SESSION}blobs/{file.name}"
            self._files[name] = _place(file)
            if self._redaction.keep:
                continue
            decoded = decode(file.read_bytes())
            if isinstance(decoded, Binary):
                self._unsearched.append(file.name)
                continue
            before = self._redaction.count
            clean = self._redaction.text(decoded.text)
            if self._redaction.count > before:
                copy = self._scratch / file.name
                copy.write_bytes(decoded.encoding.encode(clean))
                self._files[name] = _place(copy)
                self._blobs[file.name] = self._redaction.count - before


def report(timeline: Timeline, proof: Proof, redaction: Redaction) -> dict[str, object]:
    """Summarize a session as JSON: telemetry, cost, consultations, context, audit. USD are strings."""
    spent = timeline.spent
    failed = [each for each in timeline.shown if isinstance(each, Remark) and each.kind == "failed"]
    advice = [each for each in timeline.shown if isinstance(each, Consulted)]
    return {
        "session": timeline.session,
        "title": timeline.heading(redaction),
        "cwd": timeline.cwd,
        "environment": timeline.environment,
        "first": timeline.first,
        "last": timeline.last,
        "telemetry": {
            "turns": sum(member.turns for member in timeline.agents.values()),
            "calls": sum(member.calls for member in timeline.agents.values()),
            "tools": {name: dict(counts) for name, counts in timeline.tools.items()},
            "agents": [
                {
                    "agent": member.path,
                    "models": list(member.models),
                    "turns": member.turns,
                    "calls": member.calls,
                    "entries": member.log.entries,
                    "first": member.log.first,
                    "last": member.log.last,
                    "head": member.log.head,
                }
                for member in timeline.agents.values()
            ],
        },
        "cost": {
            "total": _sum(spent.whole),
            "by_role": {name: _sum(each) for name, each in spent.by_role.items()},
            "by_model": {name: _sum(each) for name, each in spent.by_model.items()},
            "by_agent": {name: _sum(each) for name, each in spent.by_agent.items()},
        },
        "context": {
            "compactions": timeline.compactions,
            "tokens_removed": timeline.compacted,
            "tokens_saved": timeline.saving.tokens,
            "usd_saved": None if timeline.saving.usd is None else str(timeline.saving.usd),
            "cache_read": spent.whole.usage.cache_read,
        },
        "consultations": [
            {"agent": each.agent, "advisor": each.advice.advisor, "at": each.at, "status": each.advice.status,
             "verdict": verdict_of(each), "text": each.advice.text}
            for each in advice
        ],
        "audit": {
            "verified": [{"part": part.name, "checked": part.checked} for part in proof.parts],
            "problems": list(proof.problems),
            "notes": list(proof.notes),
            "denied": [
                {"agent": turn.agent, "at": turn.at, "tool": call.name, "reason": call.result}
                for _, turn, call in calls_of(timeline) if call.state == "denied"
            ],
            "failed": [{"agent": each.agent, "at": each.at, "what": words_of(each)} for each in failed],
            "withheld": sum(each.advice.status == "withheld" for each in advice),
        },
    }  # fmt: skip


def _sum(sums: Sum) -> dict[str, object]:
    usage = sums.usage
    return {
        "calls": sums.charges,
        "usd": str(sums.usd),
        "unpriced_calls": sums.unpriced,
        "input": usage.input,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write + usage.cache_write_1h,
        "output": usage.output,
    }


def _checked(proof: Proof) -> VerificationSummary:
    if proof.problems:
        return VerificationSummary(f"NOT OK: {len(proof.problems)} found", proof.problems)
    return VerificationSummary(
        f"OK when it was exported: logs {len(proof.heads)}, entries {proof.entries}, blobs {proof.blobs}"
    )


def _entries(session: Path, file: Path) -> Iterator[tuple[str, str, Entry]]:
    at = ""
    for entry in read_log(file):
        at = max(at, entry.at)  # a clock that went back does not change the order
        yield at, agent_of(session, file), entry


def _place(file: Path) -> Place:
    return Place(file, 0, file.stat().st_size)
