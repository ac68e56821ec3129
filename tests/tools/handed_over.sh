#!/bin/sh
# handed_over.sh PIPESIM PIPESIM_EXECUTION: the first program starts the second for what needs `executor`, and both say the
# same.
pipesim=$1
execution=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# shellcheck source=tests/tools/check.sh
. "$(dirname "$0")/check.sh"

# both NAME STATUS ARGUMENTS…: with the same outputs and this exit status.
both() {
  name=$1 wanted=$2
  shift 2
  "$pipesim" "$@" >"$folder/out" 2>"$folder/err"
  check "status of $name" "$?" "$wanted"
  "$execution" "$@" >"$folder/out2" 2>"$folder/err2"
  check "status of $name, directly" "$?" "$wanted"
  cmp "$folder/out" "$folder/out2" || exit 1
  cmp "$folder/err" "$folder/err2" || exit 1
}

lenet="--model lenet:batch=8 --topology cpu:2"
both help 0 help --markdown
both version 0 --version
# shellcheck disable=SC2086  # several arguments
both 'a wrong device' 1 execute $lenet --baseline data-parallel --backend emulated --slow nothing=2
check "its message" "$(grep -c '^pipesim: .*nothing' "$folder/err")" 1
# shellcheck disable=SC2086
both 'an argument with spaces' 2 execute $lenet --baseline data-parallel --backend emulated --slow "a b=2 c"
check "its message" "$(grep -c 'found "a b=2 c"' "$folder/err")" 1
both 'a missing file' 2 calibrate
both 'a GPU of this machine' "$("$execution" import topology >/dev/null 2>&1; echo $?)" import topology --device H200 --name here
# shellcheck disable=SC2086
"$pipesim" compare --execute $lenet --steps 1 --warmup 0 --backend emulated --json >"$folder/out" || exit 1
check "compare --execute" "$(grep -c '"spearman"' "$folder/out")" 1

# Without the other program, what needs none of it works, and the rest says what is missing.
mkdir -p "$folder/bin" "$folder/libexec/pipesim"
cp "$pipesim" "$folder/bin/pipesim"
folder=$(readlink -f "$folder")
"$folder/bin/pipesim" models >/dev/null || exit 1
message=$("$folder/bin/pipesim" devices 2>&1)
check "without pipesim-execution" "$? $message" "3 pipesim: the program pipesim-execution, which runs plans, is neither in \
$folder/bin nor in $folder/libexec/pipesim; tools/pipesim builds it"
# As a package installs it.
ln -s "$(readlink -f "$execution")" "$folder/libexec/pipesim/pipesim-execution"
"$folder/bin/pipesim" devices --json >"$folder/out" || exit 1
check "installed" "$(grep -c '"cpu"' "$folder/out")" 1
