"""`sagent completion`: completion for a shell, and a man page, made from the flags and commands."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence

from sagent.cli.flags import COMMANDS, Parser, run_parser
from sagent.version import __version__

BASH = """# sagent completion bash > ~/.local/share/bash-completion/completions/sagent
_sagent() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} first=${{COMP_WORDS[1]}} words=""
    if [[ $COMP_CWORD -gt 1 && " {commands} " == *" $first "* ]]; then
        words=$(sagent "$first" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+' | sort -u)
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
        flags=(${{(u)${{(f)"$(sagent ${{words[2]}} --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+')"}}}})
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
    parser = Parser("completion", "Completion for a shell, or a man page, to be put where the first lines say.")
    parser.add_argument("what", choices=tuple(writers), help="for which shell, or `man`")
    sys.stdout.writelines(writers[parser.parse_args(argv).what]())
    return 0


def _bash() -> Iterator[str]:
    flags = " ".join(name for action in run_parser().flags for name in action.option_strings)
    yield BASH.format(commands=" ".join(COMMANDS), flags=flags)


def _zsh() -> Iterator[str]:
    def quoted(text: str) -> str:
        return re.sub(r"([][:\\\\])", r"\\\1", text).replace("'", "'\\''")

    described = "\n".join(f"        '{name}:{quoted(what)}'" for name, what in COMMANDS.items())
    arguments = "\n".join(
        f"        '*{name}[{quoted(action.help or '')}]{'' if action.nargs == 0 else ':value:_files'}' \\"
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
        value = "" if action.nargs == 0 else " -r"
        yield f"complete -c sagent -n __fish_use_subcommand {names}{value} -d {quoted(action.help or '')}\n"
    listed = "(sagent (commandline -opc)[2] --help 2>/dev/null | string match -ar -- '--[a-z][a-z-]+' | sort -u)"
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
