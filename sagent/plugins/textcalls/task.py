"""The task in a person's message, by its words: files to make or change, a command to run, a check that must pass.

A task that is not recognised gets no special help and no judgement; so every pattern is narrow.
"""

import re
from collections.abc import Container, Iterator, Sequence
from itertools import takewhile

from sagent.context.prompt import SHOWN
from sagent.messages import Message, Part, Text
from sagent.plugins.textcalls.paths import path_in

ATTACHED = re.compile(r'\s*<(?:stdin>|file path=")')
"""The beginning of a text that a person gave with the words of a request."""
_LISTING = re.compile(r"[^\n]+/\n```")
_COMMAND = re.compile(r"`[^`\n]{1,400}`")
_COMMANDS = (
    r"`(?:\./|(?:python[\d.]*|pytest|uv|tox|node|npm|npx|pnpm|yarn|deno|bun|make|cargo|go|sh|bash|ruby|perl|php|java|mvn|"
    r"gradle|dotnet)\b)[^`\n]{0,300}`"
)
_TESTS = r"(?<![\w/.-])(?:[\w.-]+/){0,9}(?:test_[\w.-]*\w|[\w.-]*[._-](?:test|spec))\.[A-Za-z]\w{0,4}(?!\w)"
_BARE = r"\b(?:(?:python[\d.]* -m )?(?:pytest|unittest)|tox|npm test|make (?:test|check)|cargo test|go test)\b"
_RUNS, _TEST = re.compile(_COMMANDS), re.compile(_TESTS)
_NUMBER = re.compile(r"\b(?:how (?:many|often)|count(?![.\w])|(?:the|total) number of)\b", re.IGNORECASE)
_PICKED = re.compile(
    r"\b(?:lines?|rows?|entries|records)\b[^.!?;,]*\b(?:contain|start|begin|end|match|that|which|whose|where|with|without)"
    r"|\b(?:first|last)\s+\w+\s+(?:lines?|rows?)\b",
    re.IGNORECASE,
)
_MANY_GONE = re.compile(
    r"\b(?:delete|remove|erase|rm)\s+(?:all|every|each|any)\b[^.!?;]*?(?:\b(?:files?|folders?|director(?:y|ies))\b|(?<!\w)\*?\.\w+\b)",
    re.IGNORECASE,
)
_OFTEN = re.compile(r"\bhow often\b|\bhow many times\b|\boccurrences\b", re.IGNORECASE)
_EVERYWHERE = re.compile(
    r"\beverywhere\b|\bwherever\b|\bwhere\s+\S+\s+(?:\w+\s+)?uses?\b|\b(?:all|every|each|any|both)\s+(?:\w+\s+)?(?:files?|places?|uses?|callers?|modules?)\b"
    r"|\bwhole\s+project\b",
    re.IGNORECASE,
)
_RENAMED = re.compile(
    r"\brename\s+(?:the\s+)?(?:(?:function|class|method|variable|constant|parameter|name|module-level\s+\w+)\s+)?"
    r"[`'\"]?([A-Za-z_]\w{1,60})(?:\(\))?[`'\"]?\s+(?:to|into|as)\s+[`'\"]?([A-Za-z_]\w*)(?![\w.])",
    re.IGNORECASE,
)
_NAME = (
    r"(?<![\w./*-])(?:[\w./-]{0,200}\w\.[A-Za-z][A-Za-z0-9]{0,7}|(?:[\w.-]{1,80}/){0,9}"
    r"(?:\.[A-Za-z][\w-]{1,40}(?:\.[\w-]{1,20})?|Makefile|Dockerfile))(?![\w/-])"
)
_FILE = re.compile(_NAME)
_RUN = re.compile(r"\b(?:run|execute|call|start)\s+(`[^`\n]{1,400}`)", re.IGNORECASE)
_IN_FILE = r"(?:^|[.!]\s+)in\s+(?:the\s+file\s+)?(?:,\s+)?"  # the name of the file is left out
_WISH = (  # words before a verb that orders
    r"please|then|and|first|now|(?:want|need|like)\s+you\s+to|you\s+(?:must|should|have\s+to|need\s+to)|(?:task|job)\s+is\s+to"
    r"|help\s+me(?:\s+to)?|let['\u2019]s|go\s+ahead\s+and|try\s+to|we\s+(?:must|should|have\s+to|need\s+to)"
)
_BEGINS = rf"(?:^|[.!;:]\s+|\b(?:{_WISH})\s+|{_IN_FILE})"  # before a verb that orders
_POLITE = re.compile(  # an order in the form of a question
    r"(^|[.!,;:]\s+|\bplease\s+)(?:can|could|would|will)\s+you\s+((?:(?:please|kindly|also|now)\s+){0,2}(?:fix|mend|repair|correct|add|"
    r"insert|append|put|change|edit|update|set|replace|rename|remove|delete|sort|translate|convert|turn|make|write|create|"
    r"implement|refactor|run|execute)\b[^?\n]*)\?",
    re.IGNORECASE | re.MULTILINE,
)
_RUN_ORDER = re.compile(rf"{_BEGINS}(?:run|execute)\s+(?:the\s+command\s+)?({_COMMANDS})", re.IGNORECASE | re.MULTILINE)
_CONDITION = re.compile(r"\b(?:if|when|whenever|unless|once|before|after|how|not|never|n['’]t)\b", re.IGNORECASE)
_QUESTION = re.compile(r"(?:^|(?<=[.!?]))[^.!?\n]*\?", re.MULTILINE)
_PROJECT = re.compile(
    r"\b(?:this|the|our|my)\s+(?:whole\s+|current\s+)?(?:project|repository|repo|code\s?base|package|folder|directory)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?:`[^`\n]*`|[^.!?\n`]|[.!?](?=\S))+", re.MULTILINE)
_CHANGES = re.compile(
    rf"(?:^|[.!;:,]\s+|\b(?:{_WISH}|must|should)\s+|{_IN_FILE})(?:fix|mend|repair|correct|add|insert|append|give|put|change|edit|"
    r"update|set|replace|rename|remove|delete|sort|translate|convert|turn|make|write|create|implement|refactor)\b",
    re.IGNORECASE | re.MULTILINE,
)
_ALTERS = re.compile(  # never only a look
    rf"{_BEGINS}(?:fix|mend|repair|change|edit|update|rename|remove|delete|replace|insert|append|implement|refactor|create|"
    r"correct|adjust|bump|increase|decrease|swap|prepend|extend|improve|optimi[sz]e|simplify|resolve|patch|rewrite|modify|reformat|"
    r"make\s+\S+(?:\s+\S+){0,3}?\s+(?:return|print|raise|accept|ignore|handle|use|show|read|write|support|start|stop)\b|"
    r"add\s+(?:an?|another|the|new|some|one)\b|sort\s+(?:[^\s.]+\s+){1,8}in\s+(?:place|the\s+same\s+file)\b|set\s+[\w.`]+\s+(?:\w+\s+){0,5}to\b)",
    re.IGNORECASE | re.MULTILINE,
)
_SORTED = re.compile(
    rf"{_BEGINS}(?:(?:sort|re-?order)\b[^.!?;]*\b(?:lines?|rows?|entries|records|names|words|by)"
    r"|(?:remove|delete|drop|eliminate)\b[^.!?;]*\b(?:duplicates?|duplicated))\b",
    re.IGNORECASE | re.MULTILINE,
)
_MENDS = re.compile(
    rf"{_BEGINS}(?:fix|mend|repair|correct|debug|solve|resolve)\b|\bmake\s+(?:it|that|this)\s+(?:work|run|pass)\b",
    re.IGNORECASE | re.MULTILINE,
)
_TELLS = re.compile(
    r"\b(?:explain|show|describe|review|suggest|propose|tell|answer|how|what|why|which)\b", re.IGNORECASE
)
_CLAUSE = re.compile(
    r"\b(?:(?:find|figure|work)\s+out|see|check|determine|understand)\s+(?:why|what|where|how|which)\b"
    r"|(?<=\bfix )what\b|(?<=\bmend )what\b|(?<=\brepair )what\b|(?<=\bcorrect )what\b",
    re.IGNORECASE,
)
_STAYS = re.compile(  # a file that is not to change
    rf"(?:(?:\bnot|n['’]t|\bnever|\bwithout)\s+(?:chang|edit|modify|touch|alter)(?:e|ing)?|\b(?:leave|keep))\s+[`'\"]?({_NAME})",
    re.IGNORECASE,
)
_MADE = re.compile(  # a file that is to be made
    r"\b(?:create|write|generate|save|into|named|called)\s+"
    r"(?:(?!(?:for|from|of|that|which|with|using|like|by)\b)[\w-]+\s+){0,4}"
    rf"[`'\"]?({_NAME})",
    re.IGNORECASE,
)
_WORD = r"(?!(?:for|from|of|that|which|with|using|like|by|so)\b)\S*[^\s.!?;:]\s+"
_TO_FILE = re.compile(  # a file that the request itself wants to exist
    r"(?:^|[.!;:,]\s+|\b(?:please|then|and)\s+)"
    rf"(?:(?:create|write|generate)\s+(?:{_WORD}){{0,4}}?[`'\"]?({_NAME})"
    rf"|(?:write|save|store|put|convert|export|translate)\s+(?:{_WORD}){{1,8}}?(?:into|to|as|in)\s+[`'\"]?({_NAME}))",
    re.IGNORECASE | re.MULTILINE,
)
_INTO = re.compile(
    r"\b(?:write|save|copy|extract|put|store|collect|export|filter|append)\b[^!?;]{1,200}?\b(?:into|to|as|in)\s+"
    rf"(?:a\s+|the\s+)?(?:new\s+)?(?:file\s+)?(?:named\s+|called\s+)?[`'\"]?{_NAME}",
    re.IGNORECASE,
)
_MOVED = re.compile(  # a file as a whole
    r"\b(?:rename|move|copy|delete|remove)\s+(?:(?:the|old|this|that|file|script|module|folder|directory|document)\s+){0,4}"
    rf"[`'\"]?{_NAME}(?!['’]s\b)",
    re.IGNORECASE,
)
_A_CHECK = (
    r"(?:the\s+)?(?:(?:command|tests?|checks?|script|program)\s+(?:in\s+|of\s+)?)?"
    rf"({_COMMANDS}|`?{_TESTS}`?|{_BARE})"
)
_PASSES = (
    r"(?:pass(?:es)?|succeeds?|works?|runs?|is\s+green|exits?|finish(?:es)?|prints?|shows?|returns?|outputs?|"
    r"be\s+green|go(?:es)?\s+through)\b"
)
_DEMANDED = re.compile(  # a check that has to pass in the end
    rf"\b(?:make|get|have|let|ensure|so(?:\s+that)?|until|such\s+that)\s+(?:sure\s+)?(?:that\s+)?{_A_CHECK}\s+"
    rf"(?:to\s+)?(?:(?:again|then|now|must|should)\s+)?{_PASSES}"
    rf"|{_A_CHECK}\s+(?:must|should|has\s+to|have\s+to|needs?\s+to|shall)\s+(?:(?:then|again|now|still)\s+)?{_PASSES}",
    re.IGNORECASE,
)
_RUN_AND_MEND = re.compile(  # a check that the request wants run, and what is wrong mended
    rf"\b(?:run|execute)\s+{_A_CHECK}[^.!?]{{0,80}}?\b(?:fix|mend|repair|correct|solve|resolve)\b", re.IGNORECASE
)
_FAILING = re.compile(  # a check that fails before the change
    rf"{_A_CHECK}\s+(?:now\s+|currently\s+|always\s+)?"
    r"(?:fails?|is\s+failing|crash(?:es)?|breaks?|is\s+(?:red|broken)|ends\s+with|raises|(?:does\s+not|doesn['’]t)\s+(?:pass|work|run))\b",
    re.IGNORECASE,
)


def said_in(message: Message) -> str:
    """Return a message's text without the files within it and what was piped in. A polite question is an order."""
    texts = (part.text for part in message.parts if isinstance(part, Text))
    said = (text for text in texts if not (is_enclosure(text) or _LISTING.match(text) or ATTACHED.match(text)))
    return _POLITE.sub(r"\1. \2.", " ".join(said))


def _without_names(text: str) -> str:
    """Return a text without commands and names of files, in which there is no verb (show.py), and without clauses that
    ask nothing ("find out why")."""
    return _CLAUSE.sub(" ", _FILE.sub(" ", _COMMAND.sub(" ", text)))


def is_enclosure(text: str) -> bool:
    """Return True for a text that consists of a path and a block."""
    path, _, rest = text.partition("\n")
    return rest.startswith(("```", "~~~")) and bool(path_in(path))


def encloses(message: Message) -> bool:
    """Return True for a message with a file within it."""
    return any(is_enclosure(part.text) for part in message.parts if isinstance(part, Text))


def is_shown_file(message: Message) -> bool:
    """Return True for a message with a file or directory that an earlier message names."""
    return message.sender.startswith(SHOWN) and (encloses(message) or _LISTING.match(message.content) is not None)


def paths_in(parts: Sequence[Part]) -> Sequence[str]:
    """Return the paths of the files within a message, each once."""
    texts = (part.text for part in parts if isinstance(part, Text))
    return [*dict.fromkeys(path_in(text.partition("\n")[0]) for text in texts if is_enclosure(text))]


def _enclosed(message: Message) -> set[str]:
    return {*paths_in(message.parts)}


def is_test(path: str) -> bool:
    """Return True for the path of a file of tests."""
    return _TEST.fullmatch(path) is not None


def names_file(message: Message) -> bool:
    """Return True for a message that names a file outside a command in backticks. Such a file may have to be
    written."""
    return bool(_FILE.search(_COMMAND.sub(" ", said_in(message))))


def mends_command(text: str) -> bool:
    """Return True for a request to mend what a command in backticks runs, or to change it because it fails. It names no
    file beside the command."""
    beside = _COMMAND.sub(" ", text)
    wanted = _MENDS.search(beside) or (_FAILING.search(text) and _CHANGES.search(beside))
    return _COMMAND.search(text) is not None and bool(wanted) and not _FILE.search(beside)


def command_to_run(message: Message) -> str:
    """Return the command in backticks that a message says to run; "" if there is none."""
    match = _RUN.search(said_in(message))
    return match[1] if match else ""


def names_project(text: str) -> bool:
    """Return True for a text about the project, or the folder, as such."""
    return _PROJECT.search(text) is not None


def counts(message: Message) -> bool:
    """Return True for a message that asks how many of something there are."""
    return bool(_NUMBER.search(said_in(message)))


def counts_occurrences(message: Message) -> bool:
    """Return True for a message that asks how often a word occurs, which may be several times in a line."""
    return bool(_OFTEN.search(said_in(message)))


def renamed_in(message: Message) -> tuple[str, str]:
    """Return the name that a request says to replace wherever it is, and the new one; "" for any other request."""
    found = _RENAMED.search(said_in(message))
    return (found[1], found[2]) if found and _EVERYWHERE.search(said_in(message)) else ("", "")


def counts_in_files(message: Message) -> bool:
    """Return True for a message that asks to count something in the enclosed files. It names no other file, into which
    the number could be written."""
    return counts(message) and {found[0] for found in _FILE.finditer(said_in(message))} <= _enclosed(message)


def sorts(message: Message) -> bool:
    """Return True for a message that asks to sort lines or rows, or to remove those that occur again."""
    said = _without_names(said_in(message))
    return "?" not in said and _SORTED.search(said) is not None


def picks_lines(message: Message) -> bool:
    """Return True for a message that asks to write lines of a file into a new one."""
    into = _INTO.search(_named(message))
    return into is not None and _PICKED.search(_without_names(said_in(message))) is not None


def deletes_many(message: Message) -> bool:
    """Return True for a message that asks to delete all files or folders of a kind."""
    return _MANY_GONE.search(said_in(message)) is not None


def mends(message: Message) -> bool:
    """Return True for a request to mend something."""
    said = said_in(message)
    return "?" not in said and _MENDS.search(_without_names(said)) is not None


def moves_file(message: Message) -> bool:
    """Return True for a message that asks to rename, move, copy or delete a whole file."""
    return _MOVED.search(said_in(message)) is not None


def file_to_make(message: Message) -> str:
    """Return the one new file that a request wants made; "" for a question, and if there are several."""
    made = {found[1] for found in _MADE.finditer(_named(message))}
    named = {found[0] for found in _FILE.finditer(_named(message))} - _enclosed(message)
    new = {name for name in named if name in made or name[0] != "."}  # other names that begin with a dot are endings
    return new.pop() if len(new) == 1 and new <= made else ""


def one_file(message: Message) -> str:
    """Return the one file that a request can be about: a new file, or an enclosed file that is not to stay as it is.
    Returns "" for a question, and if there are several."""
    if path := file_to_make(message):
        return path
    text = said_in(message) if mends_command(said_in(message)) else _named(message)
    named = {found[0] for found in _FILE.finditer(text)}
    left = named - {found[1] for found in _STAYS.finditer(_named(message))}
    return left.pop() if len(left) == 1 and named <= _enclosed(message) else ""


def _named(message: Message) -> str:
    """Return a request's text without its commands; "" for a question."""
    said = re.sub(r"`[^`\n]*\s[^`\n]*`", " ", said_in(message))
    return "" if "?" in said else said


def check_in(message: Message) -> str:
    """Return how to check a request: the command that it names in backticks, or the test; "" if it names none."""
    said = said_in(message)
    found = _RUNS.search(said) or _TEST.search(said)
    return found[0] if found else ""


def demanded_checks(message: Message) -> Sequence[str]:
    """Return the commands and tests that have to pass when the request is done, as it names them. Sentences that ask or
    tell something are left out. A check that fails is one if the request says to change something."""
    said = said_in(message)
    found = [found for sentence in _plain_sentences(said) for found in _DEMANDED.finditer(sentence)]
    found += _RUN_AND_MEND.finditer(_QUESTION.sub(". ", said))
    if _CHANGES.search(_without_names(said)) and not _TELLS.search(_without_names(said)):
        found += [found for sentence in _plain_sentences(said) for found in _FAILING.finditer(sentence)]
    return [*dict.fromkeys(next(filter(None, each.groups())) for each in found)]


def commands_to_run(message: Message) -> Sequence[str]:
    """Return the commands that a request orders to run, whatever the circumstances."""
    said = said_in(message)
    found: list[str] = []
    for match in _SENTENCE.finditer(_QUESTION.sub(". ", said)):
        if not _CONDITION.search(_COMMAND.sub("", match[0])):
            found += [order[1] for order in _RUN_ORDER.finditer(match[0].strip())]
    return [*dict.fromkeys(found)]


def _plain_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text that neither ask nor ask to tell something."""
    for match in _SENTENCE.finditer(text):
        if text[match.end() : match.end() + 1] != "?" and not _TELLS.search(_without_names(match[0])):
            yield match[0]


def alters_files(message: Message) -> bool:
    """Return True for a request that can only be done by a change of a file which it names."""
    said = said_in(message)
    plain = _without_names(said)
    return bool(_ALTERS.search(plain) and _FILE.search(_COMMAND.sub(" ", said))) and not (
        "?" in said or _TELLS.search(plain)
    )


def alters(message: Message) -> bool:
    """Return True for a request that can only be done by a change, of files that it may not name."""
    plain = _without_names(said_in(message))
    return _ALTERS.search(plain) is not None and "?" not in plain and not _TELLS.search(plain)


def asks(message: Message) -> bool:
    """Return True for a request to tell something, which words can be the answer to."""
    said = said_in(message)
    return "?" in said or _TELLS.search(_without_names(said)) is not None


def only_asks(message: Message) -> bool:
    """Return True for a request to tell something that orders no change."""
    return asks(message) and not _CHANGES.search(_without_names(said_in(message)).replace("?", "."))


def last_request(history: Sequence[Message], senders: Container[str]) -> int:
    """Return the index of the last request of these senders, -1 if there is none."""
    return next((at for at in range(len(history) - 1, -1, -1) if _is_request(history[at], senders)), -1)


def _is_request(message: Message, senders: Container[str]) -> bool:
    """Return True for a message of one of these senders that asks for something."""
    return message.role == "user" and message.sender in senders and not message.results


def path_to_change(history: Sequence[Message], at: int) -> str:
    """Return the one file that the request at this index asks to change; "" for any other, and for a question."""
    said = _without_names(_POLITE.sub(r"\1. \2.", history[at].content)) if at >= 0 else ""
    if not _CHANGES.search(said) or _TELLS.search(said):
        return ""
    files = takewhile(is_shown_file, history[at + 1 :])
    parts = (part for message in (history[at], *files) for part in message.parts)
    return one_file(Message("user", tuple(parts)))


def path_to_make(message: Message) -> str:
    """Return the one file that a request wants to exist, whatever else it asks; "" for any other."""
    said = _QUESTION.sub(". ", _COMMAND.sub(" ", said_in(message)))
    made = {found[1] or found[2] for found in _TO_FILE.finditer(said)}
    return made.pop() if len(made) == 1 else ""
