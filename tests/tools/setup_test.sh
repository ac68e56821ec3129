#!/usr/bin/env bash
# setup_test.sh: what tools/scripts/setup.sh decides and says, without building anything.
set -euo pipefail
# shellcheck source=tools/scripts/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../tools/scripts/setup.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK

failures=0
# expect NAME WANTED FOUND
expect() {
  [[ $2 != "$3" ]] || return 0
  printf '%s: expected "%s", got "%s"\n' "$1" "$2" "$3" >&2
  failures=$((failures + 1))
}

# Which parts a command line needs.
needs() {
  local wanted=$1
  shift
  expect "parts of \"$*\"" "$wanted" "$(parts_of "$@" | xargs)"
}
needs ''
needs '' help execute
needs '' --version
needs '' search --model nmt --topology p100-4x4 -o plan.json
needs '' simulate --plan execute
needs '' models --execute
needs '' topologies cpu:2
needs '' compare --model lenet --topology cpu:2
needs execution compare --execute --model lenet --topology cpu:2
needs execution execute --plan plan.json --check
needs execution execute --check --backend cpu
needs 'execution cuda' execute --check --backend cuda
needs 'execution cuda' execute --check --backend=cuda --plan plan.json
needs 'execution cuda' compare --backend cuda --execute
needs '' compare --backend cuda
needs 'execution cuda' calibrate --backend cuda -o cuda.db
needs execution calibrate --model cuda --plan --backend
needs '' calibrate --runs runs.csv -o cluster.json
needs 'execution mpi cuda' execute --backend cuda --rendezvous mpi
needs 'execution mpi cuda' execute --rendezvous=mpi --backend=cuda
needs execution execute --rendezvous tcp://a:1
needs 'execution cuda' devices --json
needs 'execution cuda' import topology -o here.json
needs 'execution cuda' import topology --virtual-devices 8 --name eight
needs '' import topology node.xml --nodes 16
needs '' import topology --device H200 node.xml
needs '' import topology --device=H200 node.xml -o cluster.json
needs '' execute --plan plan.json --help
needs '' execute --plan plan.json --help-all
needs '' devices -h
for variable in OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK; do
  export $variable=2
  needs 'execution mpi' execute --plan plan.json
  needs '' search --model nmt
  unset $variable
done

expect 'parts of the program' '' "$(parts_of_targets pipesim)"
expect 'parts of both programs' execution "$(parts_of_targets pipesim pipesim-execution)"
expect 'parts of the Python package' python "$(parts_of_targets python_package)"
expect 'parts of what is installed' '' "$(parts_of_targets installed)"
expect 'parts of tests' 'execution mpi python tests' "$(parts_of_targets pipesim tests | xargs)"

# What is configured already.
printf 'PIPESIM_EXECUTION:BOOL=ON\nPIPESIM_CUDA:BOOL=OFF\n' >"$scratch/CMakeCache.txt"
has_parts "$scratch" execution || expect 'execution is there' yes no
! has_parts "$scratch" execution cuda || expect 'cuda is not there' no yes
has_parts "$scratch" || expect 'nothing is always there' yes no
! has_parts "$scratch/none" execution || expect 'nothing is in a folder without a cache' no yes

# GPUs, by an nvidia-smi of ours.
mkdir "$scratch/bin"
gpus() { printf '#!/bin/sh\n%s\n' "$1" >"$scratch/bin/nvidia-smi" && chmod +x "$scratch/bin/nvidia-smi"; }
without="pipesim: no GPU of NVIDIA is found here (by nvidia-smi), so libpipesim_cuda.so is not built"
old_path=$PATH PATH=$scratch/bin:$PATH
gpus 'printf "9.0\n8.0\n9.0\n"'
expect 'architectures' '80;90' "$(gpu_architectures)"
expect 'possible with GPUs' 'execution cuda' "$(possible_parts "$scratch" execution cuda 2>&1 | xargs)"
gpus 'echo "NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver." && exit 9'
expect 'no architectures' '' "$(gpu_architectures || true)"
expect 'possible without GPUs' "execution
$without" "$(possible_parts "$scratch" execution cuda 2>&1)"
echo PIPESIM_CUDA:BOOL=ON >"$scratch/CMakeCache.txt"
expect 'possible where it was built' cuda "$(possible_parts "$scratch" cuda 2>&1)"
PATH=$old_path

# Lists of packages name what there is.
for list in program execution mpi tests figures package; do
  [[ -s $root/tools/scripts/packages/$list.txt ]] || expect "list $list" 'a file' none
done
echo 'bash # there' >"$scratch/list"
expect 'nothing is missing' '' "$(missing_packages "$scratch/list")"
echo 'no-such-package' >>"$scratch/list"
expect 'a missing package' no-such-package "$(missing_packages "$scratch/list")"

# Signs of life where stderr is a file; a second without output is one step of the clock.
seconds_between_signs=0
steps() { printf '[0/2] Re-checking globbed directories...\n[1/3] Building a.o\nnote\n[2/3] Building b.o\n'; sleep 1.5; printf '[3/3] Link'; printf 'ing c\n'; return "$1"; }
with_progress compiling steps 0 2>"$scratch/err"
expect 'stdin and stdout stay as they are' '' "$(with_progress quiet steps 0 2>/dev/null)"
expect 'signs' 'pipesim: compiling, N s
pipesim: [1/3] compiling, N s
pipesim: compiling, N s: note
pipesim: [2/3] compiling, N s
pipesim: [3/3] compiling, N s' "$(sed 's/, [0-9]* s/, N s/' "$scratch/err" | uniq)"
status=0
with_progress compiling steps 3 2>"$scratch/err" || status=$?
expect 'status of what failed' 3 "$status"
expect 'what failed is printed' note "$(tail -n 1 "$scratch/err")"
seconds_between_signs=1
with_progress waiting sleep 2.5 2>"$scratch/err"
expect 'signs without output' 'pipesim: waiting, N s' "$(sed 's/, [0-9]* s/, N s/' "$scratch/err" | uniq)"
seconds_between_signs=3
with_progress nothing true 2>"$scratch/err"
expect 'nothing of short work' '' "$(cat "$scratch/err")"

# ctest's lines pass; between them it is said what runs.
tests() {
  printf 'Test project /tmp\n    Start 2: long\n    Start 1: short\n1/2 Test #1: short .....   Passed    0.10 sec\n'
  sleep 1.5
  printf '2/2 Test #2: long ......***Failed    2.00 sec\n'
  return 8
}
seconds_between_signs=1
status=0
tests | follow_tests >"$scratch/out" 2>"$scratch/err" || status=$?
expect 'status of ctest' 8 "$status"
expect 'lines of ctest' "$({ tests || true; } | cat)" "$(cat "$scratch/out")"
expect 'which test runs' 'pipesim: 1 of 2 tests done, N s; running: long' "$(sed 's/, [0-9]* s/, N s/' "$scratch/err" | uniq)"

((failures == 0))
