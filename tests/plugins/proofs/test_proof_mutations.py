"""Changed, cut, joined, replayed and foreign proofs: none passes."""

import random
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from proven_work import BOB, MODEL, Agent, Work, commit, git, put

from sagent.lib.json import as_array, as_object, canonical_bytes, json_load, json_thaw, sha256_hex
from sagent.plugins.audit.bundle import open_bundle, write_bundle
from sagent.plugins.proofs.archive import NotProof, Proof, read_proof
from sagent.plugins.proofs.evidence import seal_entry
from sagent.plugins.proofs.making import Wanted
from sagent.plugins.proofs.statement import FromLog, FromPerson, Run, Statement, read_statement, state
from sagent.session.entries import parse_line
from tests.depth import deep

pytestmark = pytest.mark.needs("ssh-keygen")
PROPERTY = settings(
    max_examples=deep(25, 300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def proof(work: Work, agent: Agent) -> Proof:
    put(work.root / "b.py", "one = 1\ntwo = 2\n")
    commit(work.root, "two", BOB)
    return work.prove(wanted=Wanted(quote=("pytest",), cap=Decimal(2)))


def restate(work: Work, proof: Proof, by: str = "ann", **changes: object) -> Proof:
    """A proof whose statement was changed, with evidence by hash as it now is, and signed again."""
    statement = replace(proof.statement, **changes)
    return work.signed(Proof(statement, state(statement), b"", (), proof.evidence), by)


def with_evidence(work: Work, proof: Proof, name: str, data: bytes, by: str = "ann") -> Proof:
    """A proof with other evidence of a name, which its statement lists, signed again."""
    rows = tuple(
        replace(row, size=len(data), sha256=sha256_hex(data)) if row.name == name else row
        for row in proof.statement.evidence
    )
    changed = Proof(proof.statement, b"", b"", (), {**proof.evidence, name: data})
    return restate(work, changed, by, evidence=rows)


def the_log(proof: Proof) -> tuple[str, list[bytes]]:
    name = next(name for name in proof.evidence if name.startswith("logs/"))
    return name, proof.evidence[name].splitlines(keepends=True)


@PROPERTY
@given(data=st.data())
def test_any_changed_byte_fails(work: Work, proof: Proof, data: st.DataObject):
    file = work.place / "whole.tar"
    proof.write(file)
    whole = file.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    bit = 1 << data.draw(st.integers(0, 7))
    other = bytearray(whole)
    other[place] ^= bit
    file.write_bytes(other)
    with pytest.raises(NotProof):
        read_proof(file)
    file.write_bytes(whole[:place])
    with pytest.raises(NotProof):
        read_proof(file)
    file.write_bytes(whole + bytes([bit]))
    with pytest.raises(NotProof):
        read_proof(file)


@PROPERTY
@given(data=st.data())
def test_any_changed_byte_in_a_rebuilt_file_fails(work: Work, proof: Proof, data: st.DataObject):
    """Also with an archive and a manifest made anew: what is in them is signed."""
    file = work.place / "whole.tar"
    proof.write(file)
    files = {name: place.read() for name, place in open_bundle(file)[0].items() if name != "manifest.json"}
    name = data.draw(st.sampled_from(sorted(files)))
    assume(files[name])
    other = bytearray(files[name])
    other[data.draw(st.integers(0, len(other) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    write_bundle(file, {}, {**files, name: bytes(other)})
    try:
        read = read_proof(file)
    except NotProof:
        return
    assert work.check(read).problems


@PROPERTY
@given(data=st.data())
def test_any_other_change_of_the_tree_fails(work: Work, proof: Proof, data: st.DataObject):
    """A line more, less, changed or elsewhere, in any file."""
    git(work.root, "checkout", "-q", "-f", "-B", "changed", "topic")
    file = work.root / data.draw(st.sampled_from(["a.py", "b.py", "new.py", "deep/er.py"]))
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    place = data.draw(st.integers(0, len(lines)))
    match data.draw(st.sampled_from(["more", "less", "other", "swapped"])):
        case "more":
            lines.insert(place, data.draw(st.sampled_from(["evil()\n", "\n", "        return 0\n"])))
        case "less":
            assume(place < len(lines))
            lines.pop(place)
        case "other":
            assume(place < len(lines))
            lines[place] = lines[place].replace("\n", " \n")
        case _:
            assume(place + 1 < len(lines) and lines[place] != lines[place + 1])
            lines[place], lines[place + 1] = lines[place + 1], lines[place]
    put(file, "".join(lines))
    commit(work.root, "mutated")
    verdict = work.check(proof)
    assert verdict.problems
    assert verdict.relation == "different"


def test_line_more_is_told_with_its_place(work: Work, proof: Proof):
    put(work.root / "a.py", (work.root / "a.py").read_text() + "evil()\n")
    commit(work.root)
    (problem,) = work.check(proof).problems
    assert problem.startswith("a.py:5: 'evil()'")


def test_other_modes_links_and_files_fail(work: Work, proof: Proof):
    def change_mode():
        (work.root / "a.py").chmod(0o755)

    def link():
        (work.root / "a.py").unlink()
        (work.root / "a.py").symlink_to("/etc/passwd")

    def add_link():
        (work.root / "c").symlink_to("a.py")

    def remove():
        (work.root / "b.py").unlink()

    def restore():
        put(work.root / "b.py", "one = 1\n")

    for mutate in (change_mode, link, add_link, remove, restore):
        git(work.root, "checkout", "-q", "-f", "-B", "changed", "topic")
        mutate()
        commit(work.root)
        assert work.check(proof).problems, mutate


def test_log_cut_at_any_entry_fails(work: Work, proof: Proof):
    name, lines = the_log(proof)
    for end in range(0, len(lines), deep(3, 1)):
        assert work.check(with_evidence(work, proof, name, b"".join(lines[:end]))).problems
        assert work.check(with_evidence(work, proof, name, b"".join((*lines[:end], *lines[end + 1 :])))).problems


def test_log_cut_and_claimed_to_end_there_fails(work: Work, proof: Proof):
    """Even by an allowed signer: without its entries, no line is proven and no sum is right."""
    name, lines = the_log(proof)
    for end in range(1, len(lines), deep(3, 1)):
        ids = [line.partition(b'"id":"')[2][:64].decode() for line in lines[:end]]
        (log,) = proof.statement.logs
        cut = with_evidence(work, proof, name, b"".join(lines[:end]))
        changed = restate(work, cut, logs=(replace(log, head=ids[-1], entries=end),))
        assert work.check(changed, heads=(log.head,)).problems


def test_sealing_what_costs_fails(work: Work, proof: Proof):
    name, lines = the_log(proof)
    spent = [line for line in lines if b'"kind":"spent"' in line]
    assert spent
    for line in spent:
        sealed = seal_entry(parse_line(line))
        changed = b"".join(sealed if each is line else each for each in lines)
        assert "may not be sealed" in str(work.check(with_evidence(work, proof, name, changed)).problems)


def test_replaced_model_fails(work: Work, proof: Proof):
    """Everywhere at once: in the claims and in the log, by whom it may be."""
    name, _ = the_log(proof)
    claimed = replace(proof.statement.bill, models=("anthropic/claude-opus-4-8",))
    assert work.check(restate(work, proof, bill=claimed)).problems
    renamed = proof.evidence[name].replace(MODEL.encode(), b"claude-opus-4-8")
    both = restate(work, with_evidence(work, proof, name, renamed), bill=claimed)
    assert "does not match its id" in str(work.check(both).problems)
    ids = frozenset(line.partition(b'"id":"')[2][:64].decode() for line in renamed.splitlines())
    resealed = restate(work, both, "mallory", redacted=ids)
    assert "not signed by a key" in str(work.check(resealed).problems)


@pytest.mark.parametrize("change", ["usd", "unpriced", "cap", "denied"])
def test_other_sums_fail(work: Work, proof: Proof, change: str):
    bill = proof.statement.bill
    changes: dict[str, dict[str, object]] = {
        "usd": {"bill": replace(bill, usd=Decimal("0.1"))},
        "unpriced": {"bill": replace(bill, unpriced=1)},
        "cap": {"bill": replace(bill, cap=Decimal("0.1"))},
        "denied": {"denied": 1},
    }
    assert work.check(restate(work, proof, "ann", **changes[change])).problems


def test_altered_output_fails(work: Work, proof: Proof):
    (quote,) = proof.statement.quotes
    for other in (
        replace(quote, text="4 passed"),
        replace(quote, command="true"),
        replace(quote, outcome="exit 1"),
        replace(quote, fresh=not quote.fresh),
        replace(quote, entry="0" * 64),
    ):
        assert work.check(restate(work, proof, quotes=(other,))).problems
    name, _ = the_log(proof)
    changed = with_evidence(work, proof, name, proof.evidence[name].replace(b"3 passed", b"4 passed"))
    assert work.check(restate(work, changed, quotes=(replace(quote, text=quote.text.replace("3", "4")),))).problems


def test_line_credited_to_an_agent_that_did_not_write_it_fails(work: Work, proof: Proof):
    log = next(origin for origin in proof.statement.origins if isinstance(origin, FromLog))
    origins = tuple(log if isinstance(each, FromPerson) else each for each in proof.statement.origins)
    assert "did not write" in str(work.check(restate(work, proof, origins=origins)).problems)


def test_origins_that_lack_lines_fail(work: Work, proof: Proof):
    statement: Statement = proof.statement
    for file in statement.files[: deep(1, 2)]:
        for side in ("added", "removed"):
            for runs in ((), (Run(0, 0),), (Run(-1, 0),), (Run(10**12, 0),), (Run(1, 99),), (Run(1, -1),)):
                if runs == getattr(file, side):
                    continue
                files = tuple(replace(each, **{side: runs}) if each is file else each for each in statement.files)
                assert work.check(restate(work, proof, files=files)).problems
        assert work.check(
            restate(work, proof, files=tuple(each for each in statement.files if each is not file))
        ).problems
        assert work.check(restate(work, proof, files=(*statement.files, file))).problems


def test_two_joined_proofs_fail(work: Work, agent: Agent):
    first = work.prove()
    git(work.root, "checkout", "-q", "-b", "second", "main")
    agent.write("b.py", "one = 7\n")
    commit(work.root)
    second = work.prove("main..second")
    git(work.root, "merge", "-q", "--no-edit", "topic")
    assert work.check(first).problems
    assert work.check(second).problems
    evidence = {**first.evidence, **second.evidence}
    joined = Proof(second.statement, second.signed, second.signature, (), evidence)
    joined.write(work.place / "joined.tar")
    with pytest.raises(NotProof):
        read_proof(work.place / "joined.tar")


def test_proof_of_another_range_fails(work: Work, proof: Proof, agent: Agent):
    agent.write("b.py", "one = 9\n")
    commit(work.root)
    assert work.check(proof, "HEAD~1..HEAD").problems
    assert work.check(work.prove("HEAD~1..HEAD")).problems


def test_proof_for_another_repository_fails(work: Work, proof: Proof, tmp_path: Path):
    other = Work(tmp_path / "other", work.keys)
    other.root.mkdir(parents=True)
    git(other.root, "init", "-q")
    for path, text in {"a.py": "def mean(total, n):\n    return 0\n", "b.py": "one = 1\n"}.items():
        put(other.root / path, text)
    commit(other.root, "another beginning")
    git(other.root, "checkout", "-q", "-b", "topic")
    for path in ("a.py", "b.py"):
        put(other.root / path, (work.root / path).read_text())
    commit(other.root, "the same lines")
    assert "another repository" in str(other.check(proof).problems)
    assert work.check(proof, audience="owner/name").problems
    assert work.check(work.prove(wanted=Wanted(audience="owner/name")), audience="owner/name").problems == ()
    assert work.check(work.prove(wanted=Wanted(audience="owner/fork")), audience="owner/name").problems


def test_unsigned_and_foreign_signatures_fail(work: Work, proof: Proof):
    unsigned = Proof(proof.statement, proof.signed, b"", (), proof.evidence)
    assert work.check(unsigned).problems == ("the proof is not signed",)
    assert "not signed by a key" in str(work.check(work.signed(proof, "mallory")).problems)
    other = work.prove(wanted=Wanted(by="Carol"))
    assert work.check(Proof(proof.statement, proof.signed, other.signature, (), proof.evidence)).problems
    assert work.check(Proof(proof.statement, proof.signed, b"nonsense", (), proof.evidence)).problems


@pytest.mark.parametrize("name", ["../a.py", "/etc/passwd", "a/../../x", "./a.py", "", ".git/config", "a//b"])
def test_path_tricks_fail(work: Work, proof: Proof, name: str):
    files = tuple(replace(file, path=name) if file.path == "a.py" else file for file in proof.statement.files)
    assert work.check(restate(work, proof, files=files)).problems


@pytest.mark.parametrize(
    "name", ["../x", "/x", "logs/../../x.jsonl", "blobs/../x", "logs/a/root.jsonl/../b", "evil.sh"]
)
def test_names_of_files_outside_fail(work: Work, proof: Proof, name: str):
    file = work.place / "tricky.tar"
    proof.write(file)
    files = {each: place.read() for each, place in open_bundle(file)[0].items() if each != "manifest.json"}
    write_bundle(file, {}, {**files, name: b"x"})
    with pytest.raises(NotProof):
        read_proof(file)


@pytest.mark.parametrize("root", ["relative", "/a/../b", "", "/"])
def test_tricky_work_trees_fail(work: Work, proof: Proof, root: str):
    logs = tuple(replace(log, roots=(root,)) for log in proof.statement.logs)
    assert work.check(restate(work, proof, logs=logs)).problems


def test_huge_and_hostile_files_are_read_within_bounds(work: Work, proof: Proof, monkeypatch: pytest.MonkeyPatch):
    import gzip

    file = work.place / "huge.tar"
    with file.open("wb") as out:
        out.truncate(1 << 40)  # sparse: refused by its size, before it is read
    with pytest.raises(NotProof, match="at most"):
        read_proof(file)
    file.unlink()
    proof.write(file)
    file.write_bytes(gzip.compress(file.read_bytes()))
    with pytest.raises(NotProof):
        read_proof(file)
    write_bundle(file, {}, {f"blobs/{number:064x}": b"" for number in range(30)})
    monkeypatch.setattr("sagent.plugins.proofs.archive.MAX_FILES", 20)
    with pytest.raises(NotProof, match="more than 20 files"):
        read_proof(file)
    deep_json = b"[" * 200_000
    write_bundle(file, {}, {"proof.json": deep_json})
    with pytest.raises(NotProof):
        read_proof(file)


ODD: list[object] = [None, -1, 10**30, "", "\ud800", [], {}, True, [[1, 2, 3]], "f" * 64, "x\n::error::y", 0.5]


def spoil(value: object, chance: random.Random) -> object:
    """A value of JSON in which some members are odd ones."""
    if chance.random() < 0.04:
        return chance.choice(ODD)
    if isinstance(value, dict):
        return {name: spoil(item, chance) for name, item in as_object(cast("object", value)).items()}
    if isinstance(value, list):
        return [spoil(item, chance) for item in as_array(cast("object", value))]
    return value


@PROPERTY
@given(seed=st.integers(0, 2**32))
def test_hostile_logs_raise_nothing(work: Work, proof: Proof, seed: int):
    """Odd members in entries that an allowed signer calls redacted: the check ends, a line for each problem."""
    chance = random.Random(seed)
    name, lines = the_log(proof)
    ids = frozenset(line.partition(b'"id":"')[2][:64].decode() for line in lines)
    spoiled: list[bytes] = []
    for line in lines:
        members = dict(as_object(json_thaw(json_load(line))))
        entry = members.pop("id")
        if "body" in members:
            rest = canonical_bytes({**members, "body": spoil(members["body"], chance)})
            spoiled.append(b'{"id":"%b",%b\n' % (str(entry).encode(), rest[1:]))
        else:
            spoiled.append(line)
    changed = restate(work, with_evidence(work, proof, name, b"".join(spoiled)), redacted=ids)
    verdict = work.check(changed)
    assert spoiled == lines or verdict.signer
    assert not any("\n" in text for part in verdict.parts for text in (part.checked, *part.problems))


@PROPERTY
@given(seed=st.integers(0, 2**32))
def test_hostile_statements_raise_nothing(work: Work, proof: Proof, seed: int):
    """Whatever an allowed signer signs, the check ends with problems or passes, and never with an error."""
    chance = random.Random(seed)
    members = json_thaw(json_load(proof.signed))
    data = canonical_bytes(spoil(members, chance)) + b"\n"
    try:
        statement = read_statement(data)
    except ValueError:
        return
    changed = restate(work, Proof(statement, data, b"", (), proof.evidence))
    rows = {(row.name, row.size, row.sha256) for row in statement.evidence}
    assume(rows == {(name, len(each), sha256_hex(each)) for name, each in proof.evidence.items()})
    verdict = work.check(changed)
    assert verdict.problems or data == proof.signed or statement.files == proof.statement.files


def test_unsigned_proof_is_not_worked_through(work: Work, proof: Proof):
    """Only who may sign can have the checker work: anything else ends with the signature."""
    verdict = work.check(work.signed(proof, "mallory"))
    assert [part.name for part in verdict.parts] == ["signature"]


def test_problem_is_one_line(work: Work, proof: Proof):
    put(work.root / "x\n::error::y", "evil\n")
    commit(work.root)
    verdict = work.check(proof)
    assert verdict.problems
    assert not any("\n" in problem for problem in verdict.problems)


def test_statement_has_bounds(work: Work, proof: Proof, monkeypatch: pytest.MonkeyPatch):
    proof.write(work.place / "whole.tar")
    monkeypatch.setattr("sagent.plugins.proofs.archive.MAX_STATEMENT_BYTES", len(proof.signed) - 1)
    with pytest.raises(NotProof, match="more than"):
        read_proof(work.place / "whole.tar")


def test_edited_list_of_signers_is_noted(work: Work, agent: Agent):
    put(work.root / ".sagent/allowed_signers", "mallory@example.org ssh-ed25519 AAAA\n")
    commit(work.root)
    verdict = work.check(work.prove())
    assert verdict.problems == ()
    assert any("allowed_signers" in note for note in verdict.notes)
