"""`sagent completion`: completion for a shell, and a man page, made from the flags and commands."""

import re
import sys
from argparse import Action
from collections.abc import Callable, Iterator, Sequence
from typing import get_args

from sagent.cli.flags import COMMANDS, Parser, run_parser
from sagent.config.settings import Settings
from sagent.version import __version__

BASH = """# sagent completion bash > ~/.local/share/bash-completion/completions/sagent
_sagent() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} first=${{COMP_WORDS[1]}} words=""
    case ${{COMP_WORDS[COMP_CWORD-1]}} in
{values}
    esac
    if [[ -n $words ]]; then
        :
    elif [[ $COMP_CWORD -gt 1 && " {commands} " == *" $first "* ]]; then
        words=$(sagent "$first" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+|^    [a-z][a-z-]* ' | sort -u)
    elif [[ $word == -* ]]; then
        words="{flags}"
    elif [[ $COMP_CWORD -eq 1 ]]; then
        words="{commands}"
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _sagent sagent
"""

ZSH = """#compdef sagent
# sagent completion zsh > a file named _sagent in a directory of $fpath
_sagent() {{
    local -a known
    known=(
{described}
    )
    if (( CURRENT > 2 && ${{known[(I)${{words[2]}}:*]}} )); then
        local -a flags
        local wanted='--[a-z][a-z-]+|^    [a-z][a-z-]* '
        flags=(${{(u)${{(f)"$(sagent ${{words[2]}} --help 2>/dev/null | grep -oE -- $wanted | tr -d ' ')"}}}})
        compadd -- $flags
        _files
        return
    fi
    (( CURRENT == 2 )) && _describe command known
    _arguments -S \\
{arguments}
        '*:prompt:_files'
}}
_sagent "$@"
"""


def run_completion(argv: Sequence[str]) -> int:
    """Write it on standard output."""
    writers: dict[str, Callable[[], Iterator[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish, "man": _man}
    parser = Parser("completion", "Print shell completion or a man page. Its first line says where to save it.")
    parser.add_argument("what", choices=tuple(writers), help="the shell, or man for the man page")
    sys.stdout.writelines(writers[parser.parse_args(argv).what]())
    return 0


def _values(action: Action) -> Sequence[str]:
    """The words that a flag takes; none where it takes others too."""
    known = Settings.__annotations__.get(action.dest) if action.nargs is None else None
    words = [word for part in get_args(known) for word in (get_args(part) or (part,))]
    return [*(action.choices or ()), *(word for word in words if isinstance(word, str))]


def _bash() -> Iterator[str]:
    actions = run_parser().flags
    flags = " ".join(name for action in actions for name in action.option_strings)
    values = "\n".join(
        f'        {"|".join(action.option_strings)}) words="{" ".join(found)}" ;;'
        for action in actions
        if (found := _values(action))
    )
    yield BASH.format(commands=" ".join(COMMANDS), flags=flags, values=values)


def _zsh() -> Iterator[str]:
    def quoted(text: str) -> str:
        return re.sub(r"([][:\\\\])", r"\\\1", text).replace("'", "'\\''")

    described = "\n".join(f"        '{name}:{quoted(what)}'" for name, what in COMMANDS.items())

    def value(action: Action) -> str:
        words = " ".join(_values(action))
        return "" if action.nargs == 0 else f":value:({words})" if words else ":value:_files"

    arguments = "\n".join(
        f"        '*{name}[{quoted(action.help or '')}]{value(action)}' \\"
        for action in run_parser().flags
        for name in action.option_strings
    )
    yield ZSH.format(described=described, arguments=arguments)


def _fish() -> Iterator[str]:
    def quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    yield "# sagent completion fish > ~/.config/fish/completions/sagent.fish\n"
    for name, what in COMMANDS.items():
        yield f"complete -c sagent -n __fish_use_subcommand -a {name} -d {quoted(what)}\n"
    for action in run_parser().flags:
        names = " ".join(
            f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in action.option_strings
        )
        words = " ".join(_values(action))
        value = "" if action.nargs == 0 else f" -x -a {quoted(words)}" if words else " -r"
        yield f"complete -c sagent -n __fish_use_subcommand {names}{value} -d {quoted(action.help or '')}\n"
    wanted = "'--[a-z][a-z-]+|^    [a-z][a-z-]* '"
    listed = f"(sagent (commandline -opc)[2] --help 2>/dev/null | string match -ar -- {wanted} | string trim | sort -u)"
    yield f'complete -c sagent -n "__fish_seen_subcommand_from {" ".join(COMMANDS)}" -a "{listed}"\n'


def _man() -> Iterator[str]:
    def plain(text: str) -> str:
        return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"), flags=re.MULTILINE)

    parser = run_parser()
    yield '.\\" sagent completion man > ~/.local/share/man/man1/sagent.1\n'
    yield f'.TH SAGENT 1 "" "sagent {__version__}"\n.SH NAME\nsagent \\- a coding agent on any model\n'
    yield f".SH SYNOPSIS\n{plain(parser.usage or '')}\n"
    yield f".SH DESCRIPTION\n{plain(parser.description or '')}\n.SH OPTIONS\n"
    for action in run_parser().flags:
        value = "" if action.nargs == 0 else f" \\fI{plain(str(action.metavar))}\\fR"
        yield f".TP\n\\fB{plain(', '.join(action.option_strings))}\\fR{value}\n{plain(action.help or '')}\n"
    yield ".SH COMMANDS\n"
    for name, what in COMMANDS.items():
        yield f".TP\n\\fB{plain(name)}\\fR\n{plain(what)}\n"
    codes = (parser.epilog or "").partition("exit codes:\n")[2].strip()
    yield f".SH EXIT STATUS\n.nf\n{plain(codes)}\n.fi\n"
