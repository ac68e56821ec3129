# shellcheck shell=sh
# Sourced by tests of whole programs.

# check WHAT GOT WANTED: ends the test when they differ.
check() {
  [ "$2" = "$3" ] && return
  echo "$1: expected \"$3\", got \"$2\"" >&2
  exit 1
}
