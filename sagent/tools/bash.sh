# What runs each command of Bash; Python fills in the braces.
# The shell leaves its directory and exported variables on the descriptor that came as its standard input: after the
# command, and at EXIT for a command that calls `exit`. Both, since a command may set an EXIT trap of its own.
# Where the machine runs out of memory, the command is ended rather than we. By its limit of locks it is found, and all
# that it starts (see process.py).
# `{plain}` is "builtin" or "command", past functions of the command that bear the same name. All of it is one line, parsed
# before the command runs: a quote that is open at its end would upset the parser for a line that follows.
exec {notes}>&0 </dev/null; {{ {plain} echo 500 > /proc/self/oom_score_adj; }} 2>/dev/null;
set -- "${{{mark}%.}}" "$@"; {plain} ulimit -x "${{1##*.}}" 2>/dev/null; shift;
__sagent_keep() {{ case ${{__sagent_kept-}} in "") __sagent_kept=1;
{{ {plain} pwd; {plain} printf '\0'; {plain} export -p; }} >&{notes};; esac; }};
trap '{{ {plain} set +x; __sagent_keep; }} 2>/dev/null' EXIT;
__sagent_command=$1; set --; eval "$__sagent_command";
{{ __sagent_code=$?; {plain} set +exu; __sagent_keep; }} 2>/dev/null; {plain} exit $__sagent_code
