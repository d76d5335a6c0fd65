"""A change and its proof: what passes, and what each line is said to come from."""

import subprocess
from decimal import Decimal

import pytest
from proven_work import BOB, Agent, Work, commit, git, put

from sagent.plugins.audit.signature import sign
from sagent.plugins.proofs.archive import Proof, approval_of
from sagent.plugins.proofs.making import Wanted
from sagent.plugins.proofs.quotes import quotation, quoted_in
from sagent.plugins.proofs.statement import Quote
from sagent.session.contents import Unknown
from sagent.session.store import Session, copy

pytestmark = pytest.mark.needs("ssh-keygen")


def test_lines_of_agent_are_proven(work: Work, agent: Agent):
    verdict = work.check(work.prove())
    assert verdict.problems == ()
    assert (verdict.relation, verdict.agents, verdict.people) == ("same", {agent.id: 4}, {})
    assert verdict.signer.startswith("ann@example.org, ED25519")


def test_lines_of_person_are_named(work: Work, agent: Agent):
    put(work.root / "b.py", "one = 1\ntwo = 2\n")
    commit(work.root, "Add two", BOB)
    verdict = work.check(work.prove())
    assert verdict.problems == ()
    assert verdict.people == {"Bob <bob@example.org>": 1}
    assert verdict.agents == {agent.id: 4}
    named = work.check(work.prove(wanted=Wanted(by="Carol")))
    assert (named.problems, named.people) == ((), {"Carol": 1})
    assert work.check(work.prove(), max_person_lines=0).problems


def test_persons_may_have_to_sign_for_themselves(work: Work, agent: Agent):
    put(work.root / "b.py", "one = 1\ntwo = 2\n")
    commit(work.root, "Add two", BOB)
    proof, both = work.prove(), work.signers("ann", "bob")
    verdict = work.check(proof, signers=both)
    assert (verdict.problems, verdict.has_signed("Bob <bob@example.org>")) == ((), False)
    assert work.check(proof, signers=both, own_signatures=True).problems
    assert work.check(work.prove(by="bob"), signers=both, own_signatures=True).problems == ()
    signature = sign(approval_of(proof.signed), work.key("bob"))
    approved = Proof(proof.statement, proof.signed, proof.signature, (signature,), proof.evidence)
    assert work.check(approved, signers=both, own_signatures=True).problems == ()
    assert work.check(work.prove(wanted=Wanted(by="ann@example.org")), own_signatures=True).problems == ()
    assert work.check(work.prove(wanted=Wanted(by="Ann")), own_signatures=True).problems


def test_same_change_makes_same_proof(work: Work, agent: Agent):
    assert work.make().signed == work.make().signed


def test_renamed_deleted_binary_and_linked_files_are_proven(work: Work, agent: Agent):
    agent.write("data.bin", b"\0\1\2")
    agent.write("run.sh", "#!/bin/sh\n", 0o755)
    agent.write("b.py", None)
    put(work.root / "empty", "")
    (work.root / "link").symlink_to("../outside")
    git(work.root, "mv", "a.py", "c.py")
    commit(work.root)
    verdict = work.check(work.prove())
    assert verdict.problems == ()
    person = 1 + 1 + 1 + 3  # the empty file, the link, and of the moved file one line before and three after
    assert verdict.people == {"Ann <ann@example.org>": person}


def test_names_of_any_bytes_are_proven(work: Work, agent: Agent):
    for name in ("ü ä.py", "tab\there", "q'uote\n", "-dash"):
        agent.write(name, "x\n")
    put(work.root / "\udcff.py", "y\n")
    commit(work.root)
    verdict = work.check(work.prove())
    assert verdict.problems == ()
    assert (verdict.agents[agent.id], verdict.people) == (8, {"Ann <ann@example.org>": 1})


def test_squash_and_amend_pass(work: Work, agent: Agent):
    put(work.root / "b.py", "one = 1\ntwo = 2\n")
    commit(work.root, "two", BOB)
    proof = work.prove()
    git(work.root, "checkout", "-q", "-b", "squashed", "main")
    git(work.root, "merge", "-q", "--squash", "topic")
    commit(work.root, "all of it")
    verdict = work.check(proof)
    assert (verdict.problems, verdict.relation) == ((), "squashed")
    git(work.root, "commit", "-q", "--amend", "-m", "another message")
    assert work.check(proof).problems == ()


def test_rebase_and_merge_pass(work: Work, agent: Agent):
    proof = work.prove()
    git(work.root, "checkout", "-q", "main")
    put(work.root / "a.py", "# Sums.\n\n\n\n\ndef mean(total, n):\n    return 0\n")
    put(work.root / "new.py", "new = 1\n")
    commit(work.root, "elsewhere", BOB)
    git(work.root, "checkout", "-q", "topic")
    git(work.root, "checkout", "-q", "-b", "rebased")
    git(work.root, "rebase", "-q", "main")
    verdict = work.check(proof)
    assert (verdict.problems, verdict.relation) == ((), "rebased")
    git(work.root, "checkout", "-q", "--detach", "main")
    git(work.root, "merge", "-q", "--no-edit", "topic")  # as CI checks out a pull request
    verdict = work.check(proof)
    assert (verdict.problems, verdict.relation) == ((), "rebased")


def test_resolved_conflict_is_a_persons(work: Work, agent: Agent):
    proof = work.prove()
    git(work.root, "checkout", "-q", "main")
    put(work.root / "a.py", "def mean(total, n):\n    return None\n")
    commit(work.root, "elsewhere", BOB)
    git(work.root, "checkout", "-q", "-b", "resolved")
    put(work.root / "a.py", "def mean(total, n):\n    if not n:\n        return None\n    return total / n\n")
    commit(work.root, "resolved", BOB)
    (problem,) = work.check(proof).problems
    assert "a.py" in problem
    assert "conflicts" in problem
    verdict = work.check(work.prove("main..resolved"))
    assert verdict.problems == ()
    assert verdict.people["Bob <bob@example.org>"] == 2
    assert verdict.agents == {agent.id: 2}


def test_part_that_is_in_base_already_passes(work: Work, agent: Agent):
    agent.write("b.py", "one = 11\n")
    commit(work.root)
    proof = work.prove()
    git(work.root, "checkout", "-q", "main")
    put(work.root / "b.py", "one = 11\n")
    commit(work.root, "the same here")
    git(work.root, "checkout", "-q", "topic")
    git(work.root, "rebase", "-q", "main")
    assert work.check(proof).problems == ()


def test_moved_lines_are_no_persons(work: Work, agent: Agent):
    put(work.root / "a.py", "")
    put(work.root / "moved.py", (work.root / "b.py").read_text())
    (work.root / "b.py").unlink()
    commit(work.root)
    proof = work.prove("HEAD~1..HEAD")
    verdict = work.check(proof, "HEAD~1..HEAD")
    assert verdict.problems == ()
    removed = 4 + 1
    assert verdict.people == {"Ann <ann@example.org>": removed}


def test_proof_in_the_tree_says_nothing_of_itself(work: Work, agent: Agent):
    own = Wanted(own="proof.tar")
    work.prove(wanted=own).write(work.root / "proof.tar")
    commit(work.root, "with its proof")
    assert work.check(work.prove(wanted=own), own="proof.tar").problems == ()
    assert work.check(work.prove(wanted=own)).problems


def test_models_and_costs_are_those_of_the_log(work: Work, agent: Agent):
    proof = work.prove(wanted=Wanted(cap=Decimal(1)))
    assert work.check(proof, models=("anthropic/claude-sonnet-4-6",), max_usd=Decimal("0.5")).problems == ()
    assert "not allowed" in str(work.check(proof, models=("openai/gpt-5.5",)).problems)
    assert "budget" in str(work.check(proof, max_usd=Decimal("0.49")).problems)
    assert "budget" in str(work.check(work.prove(wanted=Wanted(cap=Decimal("0.1")))).problems)
    agent.say("Read", {}, usd=None)
    assert "or more" in str(work.check(work.prove(), max_usd=Decimal(9)).problems)


def test_quoted_output_is_the_recorded_one(work: Work, agent: Agent):
    proof = work.prove(wanted=Wanted(quote=("pytest",)))
    (quote,) = proof.statement.quotes
    text = f"Tests pass:\n\n{quotation(quote)}\n"
    assert quote.fresh
    assert work.check(proof, texts={"body": text}, fresh=True).problems == ()
    short = text.replace("3 passed in 0.1s\n", "...\n")
    assert work.check(proof, texts={"body": short}).problems == ()
    other = (("3 passed", "4 passed"), ("3 passed in 0.1s\n", "\n"), ("recorded ", "recorded 0"))
    for before, after in other:
        changed = text.replace(before, after)
        assert work.check(proof, texts={"body": changed}).problems


def test_output_before_last_change_is_not_fresh(work: Work, agent: Agent):
    agent.write("b.py", "one = 3\n")
    commit(work.root)
    proof = work.prove(wanted=Wanted(quote=("pytest",)))
    assert not proof.statement.quotes[0].fresh
    verdict = work.check(proof)
    assert verdict.problems == ()
    assert any("before the change" in note for note in verdict.notes)
    assert work.check(proof, fresh=True).problems
    agent.run("pytest -q", "3 passed")
    assert work.check(work.prove(wanted=Wanted(quote=("pytest",))), fresh=True).problems == ()


def test_approvals_are_of_other_signers(work: Work, agent: Agent):
    def approved(proof: Proof, *names: str) -> Proof:
        signatures = (sign(approval_of(proof.signed), work.key(name)) for name in names)
        return Proof(proof.statement, proof.signed, proof.signature, tuple(signatures), proof.evidence)

    proof, both = work.prove(), work.signers("ann", "bob")
    assert work.check(proof, approvals=1).problems
    verdict = work.check(approved(proof, "bob"), approvals=1, signers=both)
    assert (verdict.problems, verdict.approvers) == ((), ("bob@example.org",))
    assert work.check(approved(proof, "ann"), signers=both).problems
    assert work.check(approved(proof, "bob")).problems
    assert work.check(approved(proof, "bob", "bob"), approvals=2, signers=both).problems
    other = work.make(wanted=Wanted(by="Carol"))
    elsewhere = Proof(proof.statement, proof.signed, proof.signature, approved(other, "bob").approvals, proof.evidence)
    assert elsewhere.signed == proof.signed
    own = Proof(proof.statement, proof.signed, proof.signature, (proof.signature,), proof.evidence)
    assert work.check(own, signers=both).problems


def test_sealed_logs_carry_no_other_words(work: Work, agent: Agent):
    agent.run("cat secret-plans", "the plans of the company")
    put(work.root / "c.py", "")
    proof = work.prove()
    assert not any(b"the plans" in data or b"secret-plans" in data for data in proof.evidence.values())
    assert work.check(proof, whole=True).problems
    whole = work.prove(wanted=Wanted(whole=True))
    assert any(b"the plans" in data for data in whole.evidence.values())
    assert work.check(whole, whole=True).problems == ()


def test_secrets_are_taken_out_and_lines_stay_proven(work: Work, agent: Agent):
    key = "sk-ant-api03-" + "a1B2" * 12
    agent.write("a.py", f'key = "{key}"\nx = 1\n')
    agent.write("a.py", "import os\nx = 1\n")
    agent.run("pytest", f"the key is {key}")
    commit(work.root)
    proof = work.prove(wanted=Wanted(whole=True, quote=("pytest",)))
    assert not any(key.encode() in data for data in (proof.signed, *proof.evidence.values()))
    verdict = work.check(proof)
    assert (verdict.problems, verdict.people) == ((), {})


def test_work_in_worktree_is_found(work: Work, agent: Agent):
    git(work.root, "worktree", "add", "-q", str(work.place / "beside"), "-b", "other")
    beside = work.agent(work.place / "beside")
    beside.write("b.py", "one = 5\n")
    commit(work.place / "beside", "five")
    proof = work.prove("topic..other")
    verdict = work.check(proof, "topic..other")
    assert (verdict.problems, verdict.agents, verdict.people) == ((), {beside.id: 2}, {})


def test_copied_session_counts_once(work: Work, agent: Agent):
    made = work.prove()
    copied = copy(agent.session.path, work.state, work.root)
    with Session.open(copied) as session:
        again = Agent(work.root, session)
        again.calls = agent.calls
        again.write("b.py", "one = 4\n")
    commit(work.root)
    proof = work.prove()
    verdict = work.check(proof)
    assert verdict.problems == ()
    assert verdict.agents == {agent.id: 4, copied.name: 2}
    assert proof.statement.bill.usd == made.statement.bill.usd + Decimal("0.25")


def test_calls_that_a_person_allowed_are_told(work: Work, agent: Agent):
    proof = work.prove()
    assert work.check(proof).problems == ()
    assert work.check(proof, allowed=True).problems
    agent.session.log().append(Unknown("approved", {"call": "call_1", "by": "a person"}))
    verdict = work.check(work.prove(), allowed=True)
    assert verdict.problems == ()
    assert "1 of 1 call allowed by a person" in next(part.checked for part in verdict.parts if part.name == "lines")
    agent.write("b.py", "one = 4\n")
    commit(work.root)
    assert work.check(work.prove(), allowed=True).problems


def test_line_typed_again_by_a_person_is_theirs(work: Work, agent: Agent):
    """The history of the file decides where it is known: the agent removed its line, and a person wrote it again."""
    line = "limit_of_the_requests_in_a_minute = 60\n"
    agent.write("b.py", f"one = 1\n{line}")
    agent.write("b.py", "one = 1\n")
    commit(work.root, "Without a limit")
    put(work.root / "b.py", f"one = 1\ntwo = 2\n{line}")
    commit(work.root, "With a limit", BOB)
    verdict = work.check(work.prove())
    assert verdict.problems == ()
    assert verdict.people == {"Bob <bob@example.org>": 2}


QUOTED = "one\n  1 failed\n3 passed in 0.1s"


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("```recorded ID\none\n  1 failed\n3 passed in 0.1s\n```", 0),
        ("   ~~~~ recorded ID\n   one\n     1 failed\n   3 passed in 0.1s\n~~~~", 0),
        ("> ```recorded ID\n> one\n>   1 failed\n> 3 passed in 0.1s\n> ```\n", 0),
        ("- ```recorded ID\n  one\n    1 failed\n  3 passed in 0.1s\n  ```\n", 0),
        ("```recorded ID\r\none\r\n  1 failed\r\n3 passed in 0.1s\r\n```\r\n", 0),
        ("```recorded ID\none\n...\n3 passed in 0.1s\n```", 1),
        ("```recorded ID\n...\n3 passed in 0.1s\n```", 2),
        ("```recorded ID\none\n…\n```", 2),
        ("```recorded ID\n3 passed in 0.1s\n```", None),
        ("```recorded ID\none\n  1 failed\n```", None),
        ("```recorded ID\none\n3 passed in 0.1s\n```", None),
        ("```recorded ID\n...\n```", None),
        ("```recorded ID\n4 passed in 0.1s", None),  # a block without an end reaches to the end of the text
        ("```recorded ID\r4 passed in 0.1s\r```", None),
        ("  ```recorded ID\n  4 passed in 0.1s\n  ```", None),
        ("~~~recorded ID\n4 passed in 0.1s\n~~~", None),
        ("1. > ```\tRecorded ID\n   > 4 passed in 0.1s\n   > ```", None),
        ("```recorded ID\n...\n3 passed in 0.1s\n    ```\n4 passed\n```", None),  # five spaces end no block
        ("  ```recorded ID\n  ...\n  3 passed in 0.1s\n     ```\n  4 passed\n  ```", None),
        ("```recorded ID\n...\n3 passed in 0.1s\u2028```\n4 passed\n```", None),
        ("~~~recorded ID\n...\n3 passed in 0.1s\n```\n4 passed\n~~~", None),
        ("```recorded\n4 passed\n```", None),
        ("```recorded ID\none\n  1 fai\u200bled\n3 passed in 0.1s\n```", None),
        ("```recorded ID\none\n  1 failed\n3 p\u0430ssed in 0.1s\n```", None),
    ],
)
def test_quotation_is_whole_or_tells_what_it_leaves_out(text: str, left_out: int | None):
    quote = Quote("s", "root", "0123456789abcdef", "pytest", QUOTED, "exit 1", fresh=True)
    (found,) = quoted_in(text.replace("ID", "0123456789ab"))
    assert found.source([quote]) == (None if left_out is None else (quote, left_out))


def test_quoted_output_is_told_with_command_and_exit_code(work: Work, agent: Agent):
    agent.run("echo 3 passed # pytest", "1 failed\n3 passed\n", "exit 1, 2 lines")
    proof = work.prove(wanted=Wanted(quote=("pytest",)))
    body = quotation(proof.statement.quotes[0]).replace("1 failed", "...")
    notes = work.check(proof, texts={"body": body}).notes
    assert any("echo 3 passed # pytest" in note and "exit 1" in note for note in notes)
    assert any("leaves out 1 line" in note for note in notes)


def test_approval_counts_in_its_own_session_only(work: Work, agent: Agent):
    other = work.agent()
    other.write("b.py", "one = 4\n")  # its call has the same id
    commit(work.root)
    agent.session.log().append(Unknown("approved", {"call": "call_1", "by": "a person"}))
    verdict = work.check(work.prove(), allowed=True)
    assert verdict.problems
    assert "1 of 2 calls allowed by a person" in next(part.checked for part in verdict.parts if part.name == "lines")


def test_certificate_of_a_key_is_no_other_approver(work: Work, agent: Agent):
    """One key approves once, and not its own proof, whatever names a certificate gives it."""
    ann, bob, authority = work.key("ann"), work.key("bob"), work.key("ca")
    for key, name in ((ann, "ann-too@example.org"), (bob, "bob-too@example.org")):
        public = key.with_name(f"{key.name}-copy.pub")
        public.write_bytes(key.with_suffix(".pub").read_bytes())
        key.with_name(f"{key.name}-copy").write_bytes(key.read_bytes())
        key.with_name(f"{key.name}-copy").chmod(0o600)
        subprocess.run(["ssh-keygen", "-q", "-s", authority, "-I", "id", "-n", name, public], check=True)
    signers = work.signers("ann", "bob") + b"*@example.org cert-authority " + authority.with_suffix(".pub").read_bytes()
    proof = work.prove()

    def approved(*keys: str) -> Proof:
        signatures = tuple(sign(approval_of(proof.signed), work.place / key) for key in keys)
        return Proof(proof.statement, proof.signed, proof.signature, signatures, proof.evidence)

    assert work.check(approved("bob-copy-cert.pub"), signers=signers, approvals=1).problems == ()
    assert work.check(approved("ann-copy-cert.pub"), signers=signers, approvals=1).problems
    assert work.check(approved("bob", "bob-copy-cert.pub"), signers=signers, approvals=2).problems


def test_mailmap_of_a_change_renames_nobody(work: Work, agent: Agent):
    put(work.root / "b.py", "one = 1\ntwo = 2\n")
    put(work.root / ".mailmap", "Ann <ann@example.org> <bob@example.org>\n")
    commit(work.root, "two", BOB)
    assert work.check(work.prove()).people == {"Bob <bob@example.org>": 2}


@pytest.mark.parametrize("case", ["program", "link", "text"])
def test_only_a_proof_may_lie_in_the_place_of_the_proof(work: Work, agent: Agent, case: str):
    own = Wanted(own="proof.tar")
    file = work.root / "proof.tar"
    match case:
        case "program":
            work.prove(wanted=own).write(file)
            file.chmod(0o755)
        case "link":
            file.symlink_to("a.py")
        case _:
            put(file, "evil()\n")
    commit(work.root)
    assert "proof.tar" in str(work.check(work.prove(wanted=own), own="proof.tar").problems)
