"""Work that is proven: a repository, a session that changed its files, and keys."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from sagent.messages import Text, ToolCall, ToolResult, assistant, user
from sagent.plugins.audit.signature import sign
from sagent.plugins.proofs.archive import Proof, read_proof
from sagent.plugins.proofs.checking import Required, Verdict, check_proof
from sagent.plugins.proofs.making import Wanted, make_proof
from sagent.plugins.proofs.repository import parse_range, read_change
from sagent.session.contents import ChargeEntry, MessageEntry, Opened, ResultEntry, StoredMessage, StoredResult
from sagent.session.store import Session
from sagent.session.touches import ABSENT, Snapshot, Touch, Touched, unknown
from sagent.transcript.redaction import Redaction
from sagent.usage import Charge, Usage

ANN = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
BOB = ("-c", "user.name=Bob", "-c", "user.email=bob@example.org")
PLAIN = ("-c", "core.hooksPath=/dev/null", "-c", "commit.gpgsign=false", "-c", "init.defaultBranch=main")
MODEL = "claude-sonnet-4-6"


def git(cwd: Path, *arguments: str, who: tuple[str, ...] = ANN) -> str:
    done = subprocess.run(["git", *who, *PLAIN, *arguments], cwd=cwd, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(cwd: Path, message: str = "change", who: tuple[str, ...] = ANN) -> str:
    git(cwd, "add", "-A")
    git(cwd, "commit", "-q", "--allow-empty", "-m", message, who=who)
    return git(cwd, "rev-parse", "HEAD")


def make_key(directory: Path, name: str) -> Path:
    key = directory / name
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return key


def start(root: Path, files: Mapping[str, str]) -> str:
    """Make a repository with some files; the commit is `main`, and the branch that is worked on is `topic`."""
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "-q")
    for path, text in files.items():
        put(root / path, text)
    first = commit(root, "begin")
    git(root, "checkout", "-q", "-b", "topic")
    return first


def put(file: Path, text: str | bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())


@dataclass
class Agent:
    """An agent whose calls are logged as those of a run are."""

    root: Path
    session: Session
    calls: int = 0

    @property
    def id(self) -> str:
        return self.session.id

    def begin(self) -> None:
        log = self.session.log()
        log.append(Opened(self.id, "root", str(self.root), {}))
        log.append(MessageEntry(StoredMessage.of(user("Do it."), None)))

    def say(self, name: str, arguments: Mapping[str, object], usd: str | None = "0.25", model: str = MODEL) -> str:
        """Log a turn with one call and its price; the call's id."""
        self.calls += 1
        call = ToolCall(f"call_{self.calls}", name, arguments)
        log = self.session.log()
        message = assistant("", call, model=f"anthropic/{model}", stop="tool_use")
        log.append(MessageEntry(StoredMessage.of(message, None)))
        price = None if usd is None else Decimal(usd)
        log.append(ChargeEntry(Charge(model, Usage(input=10, output=5), usd=price, role="executor", provider="anthropic", agent="root")))  # fmt: skip # noqa: E501
        return call.id

    def write(self, path: str, text: str | bytes | None, mode: int = 0o644) -> str:
        """Write a file, or with None remove it, and log that; the entry's id."""
        file = self.root / path
        before = self._state(file)
        if isinstance(text, str):
            tool, arguments = "Write", {"file_path": str(file), "content": text}
        else:
            tool, arguments = "Bash", {"command": "make it"}
        call = self.say(tool, arguments)
        begun = Touch(str(file), before, unknown("it has not ended"))
        self.session.log().append(Touched(call, tool, False, (begun,)))
        if text is None:
            file.unlink()
        else:
            put(file, text)
            file.chmod(mode)
        touch = Touch(str(file), before, self._state(file))
        entry = self.session.log().append(Touched(call, tool, True, (touch,)))
        self._answer(call, "Done.")
        return entry.id

    def run(self, command: str, output: str, summary: str = "exit 0") -> str:
        """Log a command and its output; the id of the result's entry."""
        call = self.say("Bash", {"command": command})
        return self._answer(call, output, summary)

    def _answer(self, call: str, text: str, summary: str = "") -> str:
        stored = StoredResult.of(ToolResult(call, (Text(text),)), None)
        return self.session.log().append(ResultEntry(stored, 0.1, summary=summary)).id

    def _state(self, file: Path) -> Snapshot:
        if file.is_symlink():
            return Snapshot("link", target=str(file.readlink()))
        if not file.is_file():
            return ABSENT
        blob = self.session.log().blobs.put(file.read_bytes())
        return Snapshot("file", blob.name, file.stat().st_mode & 0o777)


@dataclass
class Work:
    """A repository, the state directory with its sessions, and keys by name, whose signatures are allowed."""

    place: Path
    keys: dict[str, Path] = field(default_factory=dict[str, Path])

    @property
    def root(self) -> Path:
        return self.place / "work"

    @property
    def state(self) -> Path:
        return self.place / "state"

    def agent(self, cwd: Path | None = None) -> Agent:
        made = Agent(cwd or self.root, Session.create(self.state, cwd or self.root))
        made.begin()
        return made

    def key(self, name: str) -> Path:
        if name not in self.keys:
            self.keys[name] = make_key(self.place, name)
        return self.keys[name]

    def signers(self, *names: str) -> bytes:
        rows = (f"{name}@example.org {self.key(name).with_suffix('.pub').read_text()}" for name in names or ("ann",))
        return "".join(rows).encode()

    def make(self, named: str = "main..topic", wanted: Wanted | None = None) -> Proof:
        """A proof without a signature."""
        base, head = parse_range(self.root, named)
        return make_proof(self.root, base, head, self.state, wanted or Wanted(), Redaction())

    def prove(self, named: str = "main..topic", wanted: Wanted | None = None, by: str = "ann") -> Proof:
        return self.signed(self.make(named, wanted), by)

    def signed(self, proof: Proof, by: str = "ann") -> Proof:
        return Proof(proof.statement, proof.signed, sign(proof.signed, self.key(by)), proof.approvals, proof.evidence)

    def check(self, proof: Proof, named: str = "main..HEAD", **required: object) -> Verdict:
        """Check a proof after it was written and read, as another machine does."""
        file = self.place / "proof.tar"
        proof.write(file)
        base, head = parse_range(self.root, named)
        required.setdefault("signers", self.signers())
        return check_proof(self.root, read_proof(file), read_change(self.root, base, head), Required(**required))  # pyright: ignore[reportArgumentType]
