"""`sagent completion`: completion for a shell, and a man page. The shells ask sagent itself for the candidates."""

import re
import sys
from collections.abc import Iterator, Sequence

from sagent.cli.flags import Parser, plugins_of, run_parser
from sagent.plugin import Command
from sagent.version import __version__

BASH = """# sagent completion bash > ~/.local/share/bash-completion/completions/sagent
_sagent() {
    local word=${COMP_WORDS[COMP_CWORD]} found about places= typed before IFS=$'\\n'
    [[ $word == [=:] ]] && word=
    COMPREPLY=()
    while IFS=$'\\t' read -r found about; do
        if [[ -z $places ]]; then
            places=$found before=${about%"$word"}
        else
            COMPREPLY+=("${found#"$before"}")
        fi
    done < <(sagent completion words "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    case $places in
        none) compopt +o default ;;
        directories) compopt -o dirnames ;;
        *) [[ ${#COMPREPLY[@]} -gt 0 ]] && COMPREPLY+=($(compgen -f -- "$word")) && compopt -o filenames ;;
    esac 2>/dev/null
    return 0
}
complete -o default -F _sagent sagent
"""

ZSH = """#compdef sagent
# sagent completion zsh > a file named _sagent in a directory of $fpath
_sagent() {
    local -a lines words_with_what
    local line
    lines=("${(@f)$(sagent completion words "${(j: :)words[1,CURRENT-1]} $PREFIX" 2>/dev/null)}")
    for line in "${(@)lines[2,-1]}"; do
        words_with_what+=("${${line%%$'\\t'*}//:/\\\\:}${${line#*$'\\t'}:+:${line#*$'\\t'}}")
    done
    (( ${#words_with_what} )) && _describe -V word words_with_what
    [[ $PREFIX == --*=* ]] && compset -P '*='
    case ${lines[1]} in
        files*) _files ;;
        directories*) _files -/ ;;
    esac
}
compdef _sagent sagent
[[ $funcstack[1] == _sagent ]] && _sagent "$@"
"""

FISH = """# sagent completion fish > ~/.config/fish/completions/sagent.fish
function __sagent_words
    set -l lines (sagent completion words (commandline -cp) 2>/dev/null)
    set -l flag (string match -r -- '^--[a-z-]+=' (commandline -ct))
    set -l path (string replace -- "$flag" '' (commandline -ct))
    printf '%s\\n' $lines[2..]
    switch "$lines[1]"
        case 'files*'
            printf '%s\\n' "$flag"(__fish_complete_path "$path")
        case 'directories*'
            printf '%s\\n' "$flag"(__fish_complete_directories "$path" '')
    end
end
complete -c sagent -f -k -a '(__sagent_words)'
"""


def run_completion(argv: Sequence[str]) -> int:
    """Write it on standard output."""
    if argv[:1] == ["words"]:
        sys.stdout.writelines(_words(" ".join(argv[1:])))
        return 0
    writers = {"bash": (BASH,), "zsh": (ZSH,), "fish": (FISH,), "man": _man()}
    parser = Parser("completion", "Print shell completion or a man page. Its first line says where to save it.")
    parser.add_argument("what", choices=tuple(writers), help="the shell, or man for the man page")
    sys.stdout.writelines(writers[parser.parse_args(argv or ["--help"]).what])
    return 0


def _words(line: str) -> Iterator[str]:
    """Yield the lines for the shell. The first has the kind of paths that fit and the typed word. Then each candidate
    follows with its description."""
    from sagent.plugins.completion.candidates import candidates

    found = candidates(line)
    yield f"{found.places}\t{found.typed}\n"
    yield from (f"{word}\t{what}\n" for word, what in found.words)


def _man() -> Iterator[str]:
    from sagent.plugins.completion.candidates import help_of

    def plain(text: str) -> str:
        return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"), flags=re.MULTILINE)

    plugins = plugins_of(())
    parser = run_parser(plugins)
    yield '.\\" sagent completion man > ~/.local/share/man/man1/sagent.1\n'
    yield f'.TH SAGENT 1 "" "sagent {__version__}"\n.SH NAME\nsagent \\- a coding agent on any model\n'
    synopsis = "\n".join(re.split(" {3}[|] {3}", parser.usage or ""))
    yield f".ad l\n.SH SYNOPSIS\n.nf\n{plain(synopsis)}\n.fi\n"
    yield f".SH DESCRIPTION\n{plain(parser.description or '')}\n.SH OPTIONS\n"
    for action in parser.flags:
        value = "" if action.nargs == 0 else f" \\fI{plain(str(action.metavar))}\\fR"
        yield f".TP\n\\fB{plain(', '.join(action.option_strings))}\\fR{value}\n{plain(help_of(action))}\n"
    yield ".SH COMMANDS\n"
    for each in plugins.every(Command):
        yield f".TP\n\\fB{plain(each.name)}\\fR\n{plain(each.help)}\n"
    codes = (parser.epilog or "").partition("exit codes:\n")[2].strip()
    codes = "\n".join(re.split(" {3}|\n +", codes))
    yield f".SH EXIT STATUS\n.nf\n{plain(codes)}\n.fi\n"
