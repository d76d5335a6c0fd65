# Kill whatever carries a mark, once standard input ends.
#
# Standard input: line one is the mark; every later line is a list, and the last one counts: process group ids, and
# followed by a dot the numbers of marks that are spared ("3." spares what carries the mark followed by "3.").
# The agent holds the other end of the pipe, so the kernel ends it whatever becomes of the agent.
# A process carries the mark in its environment or as the name of a file it has open (process.py says why both).
# First SIGTERM, 0.4 s later SIGKILL; then again until nothing is found twice in a row. POSIX sh.

trap '' HUP INT QUIT TERM PIPE TSTP TTIN TTOU
LC_ALL=C
export LC_ALL
groups=
read -r mark || exit 0
line=
while read -r words; do line=$words; done
spared=
for word in $line; do
    case $word in
    *.) spared="${spared:+$spared
}$mark$word" ;;
    *) groups="$groups $word" ;;
    esac
done

# The pids of living processes with one of the marks, one in a line, as often as it is found.
# Never this shell's or its helpers': they start with an empty environment.
bearers() {
    for word in $(grep -lsF -e "$1" /proc/[0-9]*/environ) $(ls -l /proc/[0-9]*/fd/219 | grep -F -e "$1"); do
        case $word in
        /proc/[0-9]*) word=${word#/proc/} && echo "${word%%/*}" ;;
        esac
    done
}

# The pids of those with the mark and without one that is spared.
marked() {
    if [ -r /proc/self/environ ]; then
        bearing=$(bearers "$mark")
        if [ "$spared" ] && [ "$bearing" ]; then
            free=" $(echo $(bearers "$spared")) " # looked for later: a new child of theirs is not taken for another's
            for pid in $bearing; do
                case $free in
                *" $pid "*) ;;
                *) echo "$pid" ;;
                esac
            done
        else
            echo "$bearing"
        fi
    else
        ps -axEww -o pid= -o command= | while read -r pid words; do
            for free in $spared; do
                case $words in
                *"$free"*) continue 2 ;;
                esac
            done
            case $words in
            *"$mark"*) echo "$pid" ;;
            esac
        done
    fi
}

send() {
    for group in $groups; do kill -s "$1" -- "-$group"; done
    for pid in $pids; do kill -s "$1" "$pid"; done
}

round=0
found=$groups
clear=0
while [ $round -lt 200 ]; do
    pids=$(marked)
    if [ "$pids" ]; then
        found=yes
        clear=0
    else
        clear=$((clear + 1))
        if [ -z "$found" ] || [ $clear -ge 2 ]; then break; fi
    fi
    if [ $round -eq 0 ]; then
        send TERM
        send CONT
    elif [ $round -ge 10 ]; then
        send KILL
    fi
    round=$((round + 1))
    sleep 0.04 || sleep 1
done
pids=
send KILL
exit 0
