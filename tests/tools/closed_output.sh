#!/bin/sh
# closed_output.sh PROGRAM: what happens when nobody can read the results.
program=$1

# shellcheck source=tests/tools/check.sh
. "$(dirname "$0")/check.sh"

# A reader that has seen enough is no error; the status comes through a file, since a pipe hides it.
status=$(mktemp)
message=$({ { "$program" models gpt3-175b --json; echo $? >"$status"; } | head -n 1 >/dev/null; } 2>&1)
check "closed pipe" "$message $(cat "$status")" " 0"
rm -f "$status"

message=$("$program" models 2>&1 >/dev/full)
check "full disk" "$? $message" "1 pipesim: can't write to standard output"
message=$("$program" models 2>&1 >&-)
check "closed stdout" "$? $message" "1 pipesim: can't write to standard output"
