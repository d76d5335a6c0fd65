"""The sandbox profile of a command, derived from the mode, the rules and the known places."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path

from sagent.lib.git import files_named, git_directories, is_git_directory, shared_directory, work_tree_directories
from sagent.policy.paths import PathJudge
from sagent.policy.places import is_env
from sagent.policy.rules import EDITS, Rule
from sagent.sandbox.places import caches, known_places, listening
from sagent.sandbox.profile import Profile, is_below

_OWN_PLACES = ("/run", "/dev", "/proc", "/tmp", "/var/tmp")  # noqa: S108 -- each box has its own
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix", "/System", "/Library", *_OWN_PLACES[:3])


def profile_of(judge: PathJudge, domains: Sequence[str]) -> Profile:
    """Return a profile by the judgement of file tools: paths that they would be denied or asked about are hidden."""
    rules, home = judge.rules, os.path.realpath(judge.places.home)
    known = known_places()
    hidden = {*judge.places.secrets, *_sockets(judge)}
    protected = _own_program(judge.roots)
    repositories = [str(place) for root in judge.roots if (place := shared_directory(Path(root)))]
    tops = set(judge.roots)
    denied = [(rule, judge.denied_by(rule)) for rule in rules.deny if rule.pattern and rule.tool in (*EDITS, "Read")]
    counts = partial(_counts, [pattern for _, pattern in denied], frozenset({*known.repositories, *known.protected}))
    key = (*judge.roots, *(str(rule) for rule, _ in denied))
    surveys = {root: judge.places.survey(root, key, counts) for root in judge.roots}
    for survey in surveys.values():
        for path in survey.look():
            last = path.rpartition("/")[2]
            if last.upper() == "HEAD":  # of a repository, whatever that is called
                above = path.rpartition("/")[0]
                protected |= {f"{above}/{name}" for name in _git_names()} if is_git_directory(above) else set()
            if last in known.repositories:
                tops.add(path.rpartition("/")[0])
            elif is_env(last):
                hidden.add(path)
            elif last in known.protected:
                protected.add(path)
            for rule, pattern in denied:
                if pattern(path):
                    (hidden if rule.tool == "Read" else protected).add(path)
    hidden |= set(_led_to(filter(os.path.islink, hidden), judge.roots))
    protected |= {f"{top}/{name}" for top in tops for name in known.protected}
    obeyed = {path for top in tops for path in _obeyed_by_git(top)}
    protected |= {path for path in obeyed if is_below(path, [*judge.roots, *repositories])}
    literal = [(path, rule.tool) for rule, _ in denied for each in rule.readings for path in _literal(each, judge)]
    literal += [(root, rule.tool) for rule, pattern in denied for root in judge.roots if pattern(root)]
    unread = {path for path, tool in literal if tool == "Read"}
    unwritten = {path for path, tool in literal if tool != "Read"}
    hidden |= unread
    protected |= unwritten
    allowed = [rule for rule in rules.allow if rule.pattern]
    named = [(path, rule.tool) for rule in allowed for path in _literal(rule.documented, judge)]
    written = [path for path, tool in named if tool in EDITS and not is_below(path, unwritten | unread)]
    read = [path for path, tool in named if tool == "Read" and not is_below(path, unread)]
    hosts = (*domains, *(rule.pattern for rule in allowed if rule.tool == "Network"))
    places = (*judge.roots, *repositories, *caches(home, judge.roots), *written)
    writable = [path for path in places if not is_below(path, unwritten)]  # denials win, even over deeper allowed paths
    starts = (f"{home}/{name}" for name in known.run_by_themselves)
    session = judge.places.session  # may contain read `.env` files: only its long outputs are shown
    own = {path for path in (*starts, *judge.places.obeyed) if is_below(path, [*judge.roots, *written])}
    return Profile(
        writable=() if judge.mode == "plan" else tuple(dict.fromkeys(writable)),
        protected=tuple(sorted((protected | own) - set(written))),
        hidden=tuple(sorted(session | (hidden - {*written, *read}))),
        exposed=tuple(
            {*(root for root in judge.roots if not is_below(root, unread)), *judge.places.exposed, *written, *read}
            - session
        ),
        domains=tuple(_not_denied(hosts, rules.deny)),
        partly_known=tuple(root for root, survey in surveys.items() if survey.is_cut),
        origin=(judge.mode, *map(str, rules.deny)),
        allowed=() if judge.mode == "plan" else tuple(written),
    )


def _led_to(links: Iterable[str], roots: Sequence[str]) -> Iterator[str]:
    """Yield the targets of hidden links, except those that all commands need: a command may have made the link."""
    needed = (*roots, *map(os.path.realpath, os.get_exec_path()), "/etc/hosts")
    for real in map(os.path.realpath, links):
        if not is_below(real, _SYSTEM) and not any(is_below(each, [real]) for each in needed):
            yield real


def _sockets(judge: PathJudge) -> Iterator[str]:
    """Yield the sockets of programs outside the sandbox, except in places of which commands have their own."""
    roots = (*judge.roots, os.path.realpath(judge.places.home))
    return (path for path in listening(roots) if is_below(path, roots) or not is_below(path, _OWN_PLACES))


def _own_program(roots: Sequence[str]) -> set[str]:
    """Return sagent's own files, which run outside the sandbox, if it was installed in a workspace. A checkout of its
    source is not protected, because people who work on it must be able to write it."""
    package = os.path.realpath(Path(__file__).parents[1])
    if "/site-packages/" not in package:
        return set()
    programs, _, program = sys.executable.rpartition("/")
    return {path for path in (package, f"{os.path.realpath(programs)}/{program}") if is_below(path, roots)}


def _counts(denied: Sequence[Callable[[str], bool]], names: AbstractSet[str], path: str) -> bool:
    """Return True if a path has to be hidden or protected wherever it is."""
    name = path.rpartition("/")[2]
    return name in names or name.upper() == "HEAD" or is_env(name) or any(pattern(path) for pattern in denied)


def _not_denied(hosts: Sequence[str], rules: Sequence[Rule]) -> Iterator[str]:
    rules = [rule for rule in rules if rule.tool == "Network"]
    if not rules:
        yield from hosts
        return
    from sagent.policy.needs import rules_out_host

    yield from (host for host in hosts if not any(rules_out_host(rule, host) for rule in rules))


def _literal(rule: Rule, judge: PathJudge) -> Iterator[str]:
    """Return the places that a rule names without a wildcard, as they really lie."""
    return map(os.path.realpath, rule.named_places(judge.roots, judge.places.home))


def _git_names() -> list[str]:
    return [name.removeprefix(".git/") for name in known_places().protected if name.startswith(".git/")]


def _obeyed_by_git(top: str) -> Iterator[str]:
    """Return files that name programs for git to run in a work tree, wherever its repository is, in work trees that
    share it, and in submodules."""
    names = _git_names()
    starts = [os.path.realpath(place) for place in work_tree_directories(Path(top))]
    if starts[0] != f"{top}/.git":
        yield f"{top}/.git"
    places = (str(place) for start in starts for place in git_directories(Path(start)))
    for place in dict.fromkeys((*starts, *places)):
        is_linked = os.path.lexists(f"{place}/commondir")
        yield from (f"{place}/{name}" for name in (*names, *(["gitdir"] if is_linked else ())))
    for named in files_named(top):
        if not is_below(top, [named]):
            yield named
