# shellcheck shell=bash
# Sourced by tools/scripts/setup.sh: signs of life on stderr, at least every five seconds, on a terminal and in a log.

seconds_between_signs=3

# One line on a terminal, which the next one replaces; in a log a line each.
show_sign() {
  if [[ -t 2 ]]; then printf '\r\033[Kpipesim: %s' "$1" >&2; else say "$1"; fi
}
clear_sign() { [[ ! -t 2 ]] || printf '\r\033[K' >&2; }

# next_line: the next line of stdin into `line`. Status 0 when there is one, 2 after a second without, 1 at the end.
unfinished=
next_line() {
  local status=0
  IFS= read -r -t 1 line || status=$?
  line=$unfinished$line
  unfinished=
  if ((status > 128)); then
    unfinished=$line
    return 2
  fi
  ((status == 0)) || [[ -n $line ]]
}

# follow_steps WHAT LOG: copies stdin to LOG and says how far it has come: "[12/30] compiling, 47 s" of ninja, else the
# line that came last.
follow_steps() {
  local what=$1 log=$2 line last='' started=$SECONDS said=0 now status
  exec 7>"$log"
  while true; do
    status=0
    next_line || status=$?
    if ((status == 1)); then break; fi
    if ((status == 0)); then
      printf '%s\n' "$line" >&7
      # Its count is of another build.
      [[ $line == *'Re-checking globbed'* ]] || last=$line
    fi
    now=$((SECONDS - started))
    ((now - said >= seconds_between_signs)) || continue
    said=$now
    if [[ $last =~ ^\[[0-9]+/[0-9]+\] ]]; then
      show_sign "${BASH_REMATCH[0]} $what, $now s"
    else
      show_sign "$what, $now s${last:+: ${last:0:90}}"
    fi
  done
  clear_sign
}

# with_progress WHAT COMMAND…: runs it. What it prints is seen only when it fails.
with_progress() {
  local what=$1 log status=0
  shift
  log=$(mktemp)
  "$@" </dev/null 2>&1 | follow_steps "$what" "$log" || status=$?
  ((status == 0)) || grep -v '^\[[0-9]*/[0-9]*\] ' "$log" >&2 || true
  rm -f "$log"
  return "$status"
}

# follow_tests: passes on what ctest prints, and says which tests are running when it has not said anything for a while.
follow_tests() {
  local line last=$SECONDS started=$SECONDS done=0 all='?' status name running
  local -A begun=()
  while true; do
    status=0
    next_line || status=$?
    if ((status == 1)); then break; fi
    if ((status == 0)); then
      clear_sign
      printf '%s\n' "$line"
      last=$SECONDS
      if [[ $line =~ ^\ *Start\ +[0-9]+:\ (.*)$ ]]; then
        begun[${BASH_REMATCH[1]}]=1
      elif [[ $line =~ ^\ *([0-9]+)/([0-9]+)\ Test\ +#[0-9]+:\ ([^ ]+) ]]; then
        done=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]}
        unset "begun[${BASH_REMATCH[3]}]"
      fi
    fi
    ((SECONDS - last >= seconds_between_signs)) || continue
    last=$SECONDS
    running=
    for name in "${!begun[@]}"; do running+=", $name"; done
    show_sign "$done of $all tests done, $((SECONDS - started)) s; running: ${running:2}"
  done
  clear_sign
}
