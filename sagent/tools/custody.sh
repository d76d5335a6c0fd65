# Kill whatever carries a mark, once standard input ends.
#
# Standard input: line one is the mark; every later line is a list of process group ids, and the last one counts.
# The agent holds the other end of the pipe, so the kernel ends it whatever becomes of the agent.
# A process carries the mark in its environment or as the name of a file it has open (custody.py says why both).
# First SIGTERM, 0.4 s later SIGKILL; then again until nothing is found twice in a row. POSIX sh.

trap '' HUP INT QUIT TERM PIPE TSTP TTIN TTOU
LC_ALL=C
export LC_ALL
groups=
read -r mark || exit 0
while read -r line; do groups=$line; done

# The pids of living processes with the mark. Never this shell's or its helpers': they start with an empty environment.
marked() {
    if [ -r /proc/self/environ ]; then
        for word in $(grep -lsF -e "$mark" /proc/[0-9]*/environ) $(ls -l /proc/[0-9]*/fd/219 | grep -F -e "$mark"); do
            case $word in
            /proc/[0-9]*) word=${word#/proc/} && echo "${word%%/*}" ;;
            esac
        done
    else
        ps -axEww -o pid= -o command= | while read -r pid words; do
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
