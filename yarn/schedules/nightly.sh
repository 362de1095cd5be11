#!/bin/sh
# One run of sparktf, for schedulers to which an exit code says nothing: it tries again what may come right by itself,
# keeps a log for each date, lets one run of a configuration go at a time, and prints only what somebody has to know.
#
#   nightly.sh CONFIG DATE [OPTION...]    DATE as `date -d` takes it: today, yesterday, 2026-11-20
#                                         options are those of sparktf submit
#
# From the environment, or from the file that SPARKTF_ENVIRONMENT names:
#   SPARKTF         the command; default: sparktf, on the PATH
#   SPARKTF_TRIES   it is submitted so often while cluster or data are not there; default: 6
#   SPARKTF_PAUSE   seconds between two of them; default: 600
#   SPARKTF_LOGS    folder for the logs; without it all output goes to standard error
#   SPARKTF_LOCKS   folder for a lock of each configuration, where nobody else may write; default: ~/.cache/sparktf/locks
#
# The exit code is that of the last try; 75 where a run of the same configuration, of this user, is still under way.
set -u

if [ "$#" -lt 2 ]; then
	echo "usage: nightly.sh CONFIG DATE [OPTION...]" >&2
	exit 2
fi
if [ -n "${SPARKTF_ENVIRONMENT:-}" ]; then
	set -a
	. "$SPARKTF_ENVIRONMENT" || exit 2
	set +a
fi
locks=${SPARKTF_LOCKS:-${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}/.cache/sparktf/locks}
config=$1
# Once: a try after midnight is still the same run.
date=$(date -d "$2" +%F) || exit 2
shift 2
run="$(basename "$config" .yaml) $date"
if [ -n "${SPARKTF_LOGS:-}" ]; then
	log=$SPARKTF_LOGS/$(basename "$config" .yaml)-$date.log
	mkdir -p "$SPARKTF_LOGS" || exit 2
	told="see $log, which ends with:"
fi

# Not the configuration itself, nor any file that others may open: whoever can open one can lock it, and stop all nights.
if ! exec 9<"$config"; then
	exit 2
fi
lock=$locks/$(realpath "$config" | sha256sum | cut -c1-32)
(umask 077 && mkdir -p "$locks" && : >>"$lock") || exit 2
if ! exec 9<>"$lock"; then
	exit 2
fi
if ! flock -n 9; then
	echo "$run: not begun, an earlier run of $config is still under way"
	exit 75
fi

child=
stopped=
trap 'stopped=yes; [ -z "$child" ] || kill -TERM "$child" 2>/dev/null' HUP INT TERM

# Runs a command that a signal to us reaches, too: a shell would only hear of it when the command has ended.
heed() {
	[ -z "$stopped" ] || exit 130
	"$@" &
	child=$!
	[ -z "$stopped" ] || kill -TERM "$child" 2>/dev/null
	wait "$child"
	code=$?
	if [ -n "$stopped" ]; then
		wait "$child"
		exit 130
	fi
	child=
}

submit() {
	if [ -n "${log:-}" ]; then
		exec "${SPARKTF:-sparktf}" submit "$config" --date "$date" "$@" >>"$log" 2>&1
	fi
	exec "${SPARKTF:-sparktf}" submit "$config" --date "$date" "$@" >&2
}

left=${SPARKTF_TRIES:-6}
while :; do
	heed submit "$@"
	tried=$code
	left=$((left - 1))
	case $tried in
	4 | 6 | 7) [ "$left" -gt 0 ] || break ;;
	*) break ;;
	esac
	heed sleep "${SPARKTF_PAUSE:-600}"
done

case $tried in
0) exit 0 ;;
1) what="the model's code failed" ;;
2) what="refused: configuration or cluster has to be changed" ;;
3) what="the data was refused: this is for those who make it" ;;
4) what="the cluster did not carry it, so often as it was tried" ;;
5) what="the gate kept the old model" ;;
6) what="the data has not come" ;;
7) what="another submission trains it" ;;
130) what="interrupted" ;;
*) what="it could not be run" ;;
esac
echo "$run: exit code $tried, $what${told:+; $told}"
[ -z "${log:-}" ] || tail -n 20 "$log"
exit "$tried"
