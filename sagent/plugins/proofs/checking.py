"""Checks a change against its proof: everything that the statement says is worked out again from the evidence."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from pathlib import Path
from typing import Literal, TypeAlias, assert_never

from sagent.errors import SagentError, SessionCorrupt, UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import sha256_hex
from sagent.lib.text import count, one_line
from sagent.plugins.audit.verify import Part
from sagent.plugins.proofs.archive import Proof, approval_of, is_proof, signer_of
from sagent.plugins.proofs.claims import bill_of, calls_of, quote_of
from sagent.plugins.proofs.evidence import (
    CarriedLog,
    LogFacts,
    Source,
    blob_name,
    is_plain,
    log_name,
    read_carried,
    sources_of,
)
from sagent.plugins.proofs.lines import changed_lines, differing, same_ends, split_lines
from sagent.plugins.proofs.origins import has_lines, needs_whole, side_of
from sagent.plugins.proofs.quotes import SHOWN_ID_CHARS, quoted_in
from sagent.plugins.proofs.repository import PLAIN, Change, Changed, File, is_ancestor, merge_contents, read_file, short
from sagent.plugins.proofs.statement import FileClaim, FromLog, FromPerson, LogClaim, Moved, Origin, Run

SIGNERS = ".sagent/allowed_signers"
"""Path of the allowed signers in a repository."""
MAX_PROBLEM_CHARS = 400
"""Characters of a problem, which is one line: in a log of GitHub Actions, a line of its own could be a command."""
MAX_SHOWN = 20
"""Lines of one file that are listed as problems."""
Relation: TypeAlias = Literal["same", "squashed", "rebased", "different"]
"""How the commits relate to the proven ones: the same, others with the same files, the same change on another base."""


@dataclass(frozen=True, slots=True)
class Required:
    """Requirements of a check. `signers` is the content of the file of allowed signers; `heads` are entries that runs
    have printed as their heads, and `audience` is the repository's name.

    With `allowed` a person must have allowed each call that wrote a line; with `own_signatures` each person who wrote
    lines must have signed or approved the proof. `texts` may quote recorded output, by name; `own` is the path of the
    proof itself, if the change has it.
    """

    signers: bytes
    models: tuple[str, ...] = ()
    max_usd: Decimal | None = None
    approvals: int = 0
    heads: tuple[str, ...] = ()
    audience: str = ""
    max_person_lines: int | None = None
    fresh: bool = False
    whole: bool = False
    allowed: bool = False
    own_signatures: bool = False
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    own: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a check. `people` are the lines of each person, `agents` those of each session."""

    relation: Relation
    signer: str
    approvers: tuple[str, ...]
    people: Mapping[str, int]
    agents: Mapping[str, int]
    parts: tuple[Part, ...]
    notes: tuple[str, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems found, each reported once."""
        return tuple(dict.fromkeys(problem for part in self.parts for problem in part.problems))

    def has_signed(self, person: str) -> bool:
        """Return True if a person, "NAME <EMAIL>", has signed or approved the proof by one of these names."""
        return _has_signed(person, (_name(self.signer), *self.approvers))


def check_proof(root: Path, proof: Proof, change: Change, required: Required) -> Verdict:
    """Check the change of a repository against a proof. Raises UsageError if git or ssh-keygen cannot be used."""
    return _Check(root, proof, change, required).verdict()


class _Check:
    """A check under way."""

    def __init__(self, root: Path, proof: Proof, change: Change, required: Required) -> None:
        self.root, self.proof, self.change, self.required = root, proof, change, required
        self.statement = proof.statement
        self.parts: list[Part] = []
        self.notes: list[str] = []
        self.facts: list[LogFacts] = []
        self.people: Counter[str] = Counter()
        self.agents: Counter[str] = Counter()

    def verdict(self) -> Verdict:
        signer = self._signature()
        approvers = self._approvals(signer)
        relation: Relation = "different"
        if not any(part.problems for part in self.parts[:1]):
            self._logs()
            self._origins((_name(signer), *approvers))
            relation = self._contents()
            self._output()
            self._bill()
        else:  # whoever may write anything could make the rest take hours
            self.notes.append("Nothing else was checked, because nobody who may sign vouches for it.")
        if SIGNERS in self.change.files:
            self.notes.append(f"The change edits {SIGNERS}. This check went by the list before it.")
        return Verdict(relation, signer, approvers, self.people, self.agents, tuple(self.parts), tuple(self.notes))

    def _note(self, text: str) -> None:
        self.notes.append(one_line(text, MAX_PROBLEM_CHARS))

    def _part(self, name: str, checked: str, problems: Iterable[str]) -> None:
        told = (one_line(problem, MAX_PROBLEM_CHARS) for problem in problems)
        self.parts.append(Part(name, one_line(checked, MAX_PROBLEM_CHARS), tuple(told)))

    # -- signatures ----------------------------------------------------------------------------------------------------

    def _signature(self) -> str:
        """Check who signed, and for which repository."""
        problems: list[str] = []
        signer = ""
        if not self.proof.signature:
            problems.append("the proof is not signed")
        else:
            try:
                signer = signer_of(self.proof.signed, self.proof.signature, self.required.signers)
            except UsageError:
                raise
            except SagentError as error:
                problems.append(str(error))
        if self.required.audience and self.statement.audience != self.required.audience:
            named = f"for {self.statement.audience}" if self.statement.audience else "for no named repository"
            problems.append(f"the proof is {named}, not for {self.required.audience}")
        self._part("signature", signer or "none", problems)
        return signer

    def _approvals(self, signer: str) -> tuple[str, ...]:
        """Check who approved: people other than the signer, each counted once."""
        names: list[str] = []
        keys: set[str] = set()
        problems: list[str] = []
        for signature in self.proof.approvals:
            try:
                approver = signer_of(approval_of(self.proof.signed), signature, self.required.signers)
            except UsageError:
                raise
            except SagentError as error:
                problems.append(f"an approval: {error}")
                continue
            if _name(approver) == _name(signer) or _key(approver) == _key(signer):
                problems.append(f"an approval is by {_name(approver)}, who signed the proof")
            elif _name(approver) not in names and _key(approver) not in keys:
                names.append(_name(approver))
                keys.add(_key(approver))
        if len(names) < self.required.approvals:
            problems.append(f"{count(len(names), 'approval')}, and {self.required.approvals} are required")
        if self.proof.approvals or self.required.approvals:
            self._part("approvals", ", ".join(names) or "none", problems)
        return tuple(names)

    # -- evidence ------------------------------------------------------------------------------------------------------

    def _logs(self) -> None:
        """Check every carried log and content, and that no log of a session is left out."""
        problems: list[str] = []
        carried: dict[tuple[str, str], CarriedLog] = {}
        for claim in self.statement.logs:
            try:
                carried[claim.session, claim.agent] = self._log(claim)
            except (ValueError, SessionCorrupt) as error:
                problems.append(f"the log of {claim.agent} in {claim.session}: {error}")
        names = {log_name(*key) for key in carried}
        for each in self.statement.evidence:
            if each.name.startswith("logs/") and each.name not in names and not problems:
                problems.append(f"{each.name} is not named by the statement")
            if each.name.startswith("blobs/") and not each.redacted and each.name != blob_name(each.sha256):
                problems.append(f"{each.name} is another content than its name says")
        problems += _incomplete(self.facts, carried)
        heads = {head for log in carried.values() for head in log.ids}
        problems += [f"no log has the entry {head}" for head in self.required.heads if head not in heads]
        sealed = sum(log.sealed for log in carried.values())
        if sealed and self.required.whole:
            problems.append(f"{count(sealed, 'entry', 'entries')} of the logs are sealed, and whole logs are required")
        entries = sum(len(log.ids) for log in carried.values())
        apart = [f"{sealed} of them sealed"] if sealed else []
        apart += [f"{len(self.statement.redacted)} redacted"] if self.statement.redacted else []
        checked = f"{count(len(carried), 'log')}, {count(entries, 'entry', 'entries')}"
        self._part("logs", f"{checked}{', ' * bool(apart)}{', '.join(apart)}", problems)

    def _log(self, claim: LogClaim) -> CarriedLog:
        """Return a log. Raises ValueError and SessionCorrupt."""
        data = self.proof.evidence.get(log_name(claim.session, claim.agent))
        if data is None:
            raise ValueError("it is missing")
        if not all(root.startswith("/") and is_plain(root[1:]) for root in claim.roots):
            raise ValueError("its work trees are no absolute paths")
        log = read_carried(data, self.statement.redacted)
        if (log.head, len(log.ids)) != (claim.head, claim.entries):
            raise ValueError("it does not end with the entry that was signed: it was cut, or continued")
        facts = LogFacts.of(claim.session, claim.agent, claim.roots, log.open)
        if facts.opened not in (claim.agent, None):
            raise ValueError("it is the log of another agent")
        self.facts.append(facts)
        return log

    def _blob(self, _session: str, name: str) -> bytes | None:
        return self.proof.evidence.get(blob_name(name))

    def _origins(self, signers: Sequence[str]) -> None:
        """Check that each origin has the lines that are said to come from it."""
        sources = sources_of(self.facts, self._blob)
        problems: list[str] = []
        moved: dict[str, Counter[bytes]] = {}
        for claim in self.statement.files:
            try:
                problems += self._file_origins(claim, sources.get(claim.path, ()), moved)
            except ValueError as error:
                problems.append(f"{claim.path}: {error}")
        removed = {claim.path: self._removed(claim) for claim in self.statement.files if claim.path in moved}
        for path, lines in moved.items():
            if lines - removed.get(path, Counter[bytes]()):
                problems.append(f"{path}: lines are said to come from it that it did not lose")
        calls, allowed = calls_of(self.facts, self.statement.origins)
        if self.required.allowed and allowed < calls:
            problems.append(f"{count(calls - allowed, 'call')} wrote lines, and no person was asked")
        limit, total = self.required.max_person_lines, self.people.total()
        if limit is not None and total > limit:
            problems.append(f"people wrote {count(total, 'line')}, and at most {limit} are allowed")
        asked = f"; {allowed} of {count(calls, 'call')} allowed by a person" if allowed else ""
        if self.required.own_signatures:
            others = (name for name in sorted(self.people) if not _has_signed(name, signers))
            problems += [f"{name} wrote lines, and has not signed or approved" for name in others]
        self._part("lines", self._tell_lines() + asked, problems)

    def _tell_lines(self) -> str:
        agents, people = self.agents.total(), self.people.total()
        return f"{count(agents + people, 'line')}: {agents} from logs, {people} by people"

    def _file_origins(
        self, claim: FileClaim, sources: Sequence[Source], moved: dict[str, Counter[bytes]]
    ) -> Iterator[str]:
        """Yield the problems of a claim, and count its lines. Raises ValueError for one that contradicts itself."""
        changed = self._proven(claim)
        by_entry = {(source.session, source.agent, source.written.entry): source for source in sources}
        if has_lines(changed):
            before, after = (split_lines(side.data) if side else [] for side in changed)
            removed, added = changed_lines(before, after, claim.edits)
            sides = (
                (claim.removed, [before[number] for number in removed], _lost),
                (claim.added, [after[number] for number in added], _won),
            )
            for runs, lines, of in sides:
                yield from self._runs(claim.path, runs, lines, by_entry, of, moved)
        elif claim.edits or claim.removed or claim.added:
            raise ValueError("it has no lines that can be told apart")
        if not has_lines(changed) or needs_whole(changed):
            yield from self._whole(claim, by_entry)
        elif claim.whole is not None:
            raise ValueError("it is proven twice")

    def _runs(
        self,
        path: str,
        runs: Sequence[Run],
        lines: Sequence[bytes],
        sources: Mapping[tuple[str, str, str], Source],
        of: Callable[[Source], Counter[bytes]],
        moved: dict[str, Counter[bytes]],
    ) -> Iterator[str]:
        if min((run.lines for run in runs), default=1) < 1 or sum(run.lines for run in runs) != len(lines):
            raise ValueError("not each changed line has an origin")
        taken: dict[Origin, Counter[bytes]] = {}
        place = 0
        for run in runs:
            origin = self._origin(run.origin)
            part = [same_ends(line) for line in lines[place : place + run.lines]]
            place += run.lines
            taken.setdefault(origin, Counter()).update(part)
            self._count(origin, run.lines)
        for origin, wanted in taken.items():
            match origin:
                case FromLog(session, agent, entry):
                    source = sources.get((session, agent, entry))
                    lacking = wanted if source is None else wanted - of(source)
                    if lacking:
                        line = next(iter(lacking)).decode("utf-8", "replace").strip()
                        yield f"{path}: the entry {entry[:12]} did not write {line!r:.80}"
                case Moved(other):
                    moved.setdefault(other, Counter()).update(wanted)
                case FromPerson(name):
                    if not name.strip():
                        yield f"{path}: lines are by a person without a name"
                case _:
                    assert_never(origin)

    def _whole(self, claim: FileClaim, sources: Mapping[tuple[str, str, str], Source]) -> Iterator[str]:
        if claim.whole is None:
            raise ValueError("it has no origin")
        origin = self._origin(claim.whole)
        self._count(origin, 1)
        match origin:
            case FromLog(session, agent, entry):
                source = sources.get((session, agent, entry))
                wanted = (claim.after.sha256, claim.after.mode) if claim.after else ("", "")
                if source is None or not source.leads_to(*wanted):
                    yield f"{claim.path}: the entry {entry[:12]} did not write it"
            case FromPerson(name):
                if not name.strip():
                    yield f"{claim.path}: it is by a person without a name"
            case Moved():
                yield f"{claim.path}: only lines can be moved"
            case _:
                assert_never(origin)

    def _origin(self, place: int) -> Origin:
        if not 0 <= place < len(self.statement.origins):
            raise ValueError("an origin is missing")
        return self.statement.origins[place]

    def _count(self, origin: Origin, lines: int) -> None:
        match origin:
            case FromLog(session):
                self.agents[session] += lines
            case FromPerson(name):
                self.people[name] += lines
            case Moved():
                pass
            case _:
                assert_never(origin)

    def _proven(self, claim: FileClaim) -> Changed:
        """Return a file as it was proven, from the contents that the proof carries. Raises ValueError."""
        if claim.before == claim.after:
            raise ValueError("it is not changed")
        sides: list[File | None] = []
        for side in (claim.before, claim.after):
            data = None if side is None else self.proof.evidence.get(blob_name(side.sha256))
            if side is not None and (data is None or sha256_hex(data) != side.sha256):
                raise ValueError("its content is missing")
            sides.append(None if side is None or data is None else File(side.mode, data))
        return Changed(*sides)

    def _removed(self, claim: FileClaim) -> Counter[bytes]:
        changed = self._proven(claim)
        before, after = (split_lines(side.data) if side else [] for side in changed)
        return Counter(same_ends(before[number]) for number in changed_lines(before, after, claim.edits)[0])

    # -- the change ----------------------------------------------------------------------------------------------------

    def _contents(self) -> Relation:
        """Compare the change with the proven one."""
        claims = {claim.path: claim for claim in self.statement.files}
        problems: list[str] = []
        if len(claims) < len(self.statement.files):
            problems.append("a file is proven twice")
        if not is_ancestor(self.root, self.statement.base, self.change.base):
            problems.append(
                f"the proof begins at {short(self.statement.base)}, which is not in the history of "
                f"{short(self.change.base)}: it is of another repository, or of commits that were rewritten below it"
            )
        files = {path: changed for path, changed in self.change.files.items() if path != self.required.own}
        own = self.change.files.get(self.required.own)
        if own is not None and own.after is not None and not (own.after.mode == PLAIN and is_proof(own.after.data)):
            problems.append(f"{self.required.own}: this is the proof's own path, and the change has another file there")
        moved_on = False
        for path, changed in files.items():
            if path not in claims:
                problems += _tell_unproven(path, changed)
                continue
            found, is_merged = self._compare(path, claims[path], changed)
            problems += found
            moved_on = moved_on or is_merged
        for path in claims.keys() - files.keys():
            if claims[path].before != claims[path].after and not self._is_there(claims[path]):
                problems.append(f"{path}: the proof changes it, and the change does not")
        relation = self._relation(moved_on=moved_on, differs=bool(problems))
        self._part("change", self._tell_relation(relation), problems)
        return relation

    def _is_there(self, claim: FileClaim) -> bool:
        """Return True if a file is already in the base as it was proven, as after a rebase."""
        return side_of(read_file(self.root, self.change.head, claim.path)) == claim.after

    def _compare(self, path: str, claim: FileClaim, changed: Changed) -> tuple[list[str], bool]:
        """Return the problems of a changed path, and True if it is the proven change of another file before it."""
        if (side_of(changed.before), side_of(changed.after)) == (claim.before, claim.after):
            return [], False
        try:
            proven = self._proven(claim)
        except ValueError as error:
            return [f"{path}: {error}"], False
        expected = self._expected(changed.before, proven)
        if expected is None:
            return [f"{path}: it conflicts with the change that is proven: resolve it, and prove the result"], False
        if expected == changed.after:
            return [], True
        return [*_tell_difference(path, expected, changed.after)], False

    def _expected(self, before: File | None, proven: Changed) -> File | None:
        """Return a file after the proven change was made to the one before; None if there is a conflict."""
        if side_of(before) == side_of(proven.before):
            return proven.after
        if before is None or proven.before is None or proven.after is None:
            return None
        if not (has_lines(proven) and has_lines(Changed(before, None))):
            return None
        merged = merge_contents(self.root, before.data, proven.before.data, proven.after.data)
        mode = before.mode if proven.before.mode == proven.after.mode else proven.after.mode
        return None if merged is None else File(mode, merged)

    def _relation(self, *, moved_on: bool, differs: bool) -> Relation:
        if differs:
            return "different"
        if self.change.head == self.statement.head:
            return "same"
        return "rebased" if moved_on or self.change.base != self.statement.base else "squashed"

    def _tell_relation(self, relation: Relation) -> str:
        files = count(len(self.change.files.keys() - {self.required.own}), "file")
        match relation:
            case "same":
                return f"{files}: the proven commits"
            case "squashed":
                return f"{files}: other commits than the proven ones (squashed, amended), and the same lines"
            case "rebased":
                return f"{files}: the proven lines on another base (rebased, merged), as git joins them"
            case "different":
                return f"{files}: not the change that was proven"

    # -- claims --------------------------------------------------------------------------------------------------------

    def _output(self) -> None:
        """Compare quoted output with the recorded one."""
        problems: list[str] = []
        sides = {claim.path: claim.after for claim in self.statement.files}
        results = {(log.session, log.agent, ran.entry): (log, ran) for log in self.facts for ran in log.ran.values()}
        for quote in self.statement.quotes:
            found = results.get((quote.session, quote.agent, quote.entry))
            if found is None or quote_of(*found, self.facts, sides) != quote:
                problems.append(f"the output of {quote.command!r:.80} is not the recorded one")
                continue
            if not quote.fresh:
                shown = f"{quote.command!r:.80} was run before the change was as it is now"
                if self.required.fresh:
                    problems.append(shown)
                else:
                    self._note(f"{shown}.")
            ended = quote.outcome or "no outcome is recorded"
            self._note(f"{quote.entry[:SHOWN_ID_CHARS]} is the output of {quote.command!r:.160}: {ended}.")
        if self.required.fresh and not self.statement.quotes:
            problems.append("the proof quotes no output, and that of a test is required")
        quoted = 0
        for where, text in self.required.texts.items():
            for each in quoted_in(text):
                quoted += 1
                source = each.source(self.statement.quotes)
                if source is None:
                    problems.append(f"{where}: the output quoted from {each.entry!r} is not the recorded one")
                elif source[1]:
                    shown = f"the output quoted from {each.entry!r:.80} leaves out {count(source[1], 'line')}"
                    self._note(f"{where}: {shown} of {source[0].command!r:.80}.")
        more = f", quoted {count(quoted, 'time')}" if quoted else ""
        if self.statement.quotes or quoted or problems:
            self._part("output", f"{count(len(self.statement.quotes), 'recorded result')}{more}", problems)

    def _bill(self) -> None:
        """Compare models, costs and refusals with the logs, and with what is required."""
        bill, problems = self.statement.bill, list[str]()
        if bill_of(self.facts, bill.cap) != bill:
            problems.append("the models or the costs are not those of the logs")
        if self.statement.denied != sum(log.denied for log in self.facts):
            problems.append("the number of refused calls is not that of the logs")
        for cap in (bill.cap, self.required.max_usd):
            if cap is not None and (bill.usd > cap or bill.unpriced):
                problems.append(f"${bill.usd}{' or more' * bool(bill.unpriced)} were spent, and ${cap} was the budget")
        if self.required.models:
            allowed = self.required.models
            problems += [f"the model {name} is not allowed" for name in bill.models if name not in allowed]
        cap = f" of ${bill.cap}" if bill.cap is not None else ""
        least = "at least " if bill.unpriced else ""
        denied = f", {count(self.statement.denied, 'call')} refused" if self.statement.denied else ""
        self._part("models", f"{', '.join(bill.models) or 'none'}: {least}${bill.usd}{cap}{denied}", problems)


def _lost(source: Source) -> Counter[bytes]:
    return source.removed


def _won(source: Source) -> Counter[bytes]:
    return source.added


def _has_signed(person: str, signers: Sequence[str]) -> bool:
    email = person.rpartition("<")[2].removesuffix(">")
    return any(name and name in (person, email) for name in signers)


def _name(signer: str) -> str:
    return signer.rpartition(", ")[0] or signer


def _key(signer: str) -> str:
    """Return the fingerprint of a signer's key; it is the same for a certificate of that key."""
    return signer.rpartition(", ")[2].rpartition(" key ")[2]


def _incomplete(facts: Sequence[LogFacts], carried: Mapping[tuple[str, str], CarriedLog]) -> Iterator[str]:
    """Yield the logs of subagents that others name and that are not carried, or not whole."""
    for log in facts:
        for agent, entry in log.named:
            child = carried.get((log.session, agent))
            if child is None or entry not in child.ids:
                yield f"the log of {agent} in {log.session} is missing or cut, which the log of {log.agent} names"


def _tell_unproven(path: str, changed: Changed) -> Iterator[str]:
    if changed.after is None or not has_lines(changed):
        yield f"{path}: it is changed, and the proof does not name it"
        return
    before, after = (split_lines(side.data) if side else [] for side in changed)
    yield from _tell_lines(path, before, after, "the proof does not name the file")


def _tell_difference(path: str, expected: File | None, actual: File | None) -> Iterator[str]:
    if expected is None or actual is None or not has_lines(Changed(expected, actual)):
        yield f"{path}: it is another file than the proven one"
    elif expected.data == actual.data:
        yield f"{path}: its mode is {actual.mode}, and {expected.mode} is proven"
    else:
        reason = "no log and no person is named for it; if it was written since, prove the change again"
        yield from _tell_lines(path, split_lines(expected.data), split_lines(actual.data), reason)


def _tell_lines(path: str, expected: Sequence[bytes], actual: Sequence[bytes], reason: str) -> Iterator[str]:
    rows = [*differing(expected, actual)]
    for mark, number, line in rows[:MAX_SHOWN]:
        text = line.decode("utf-8", "replace").strip()
        if mark == "+":
            yield f"{path}:{number}: {text!r:.80}: {reason}"
        else:
            yield f"{path}: the line {text!r:.80} is missing, which is proven to be there"
    if len(rows) > MAX_SHOWN:
        yield f"{path}: {len(rows) - MAX_SHOWN} more lines differ"
    if not rows:
        yield f"{path}: it is changed, and the proof does not name it"
