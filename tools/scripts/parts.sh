# shellcheck shell=bash
# Sourced by tools/scripts/setup.sh: which parts of pipesim a command needs beside the program itself. execution: pipesim-execution,
# which runs plans; mpi and cuda: the libraries that it loads; python: the compiled part of the Python package; tests.

# parts_of WORD…: for a command line of pipesim, a line each. Wrong command lines may need nothing: the program refuses them.
parts_of() {
  local word before='' operands=0 executes='' cuda='' mpi=''
  case ${1:-} in
    execute | calibrate) executes=1 ;;
    devices) executes=1 cuda=1 ;;
    compare | import) ;;
    *) return 0 ;;
  esac
  for word in "${@:2}"; do
    case $word in
      --help | --help-all | -h) return 0 ;;
      --execute) executes=1 ;;
      --runs | --runs=*) [[ $1 != calibrate ]] || return 0 ;;  # read, not made
      --backend=cuda) cuda=1 ;;
      --rendezvous=mpi) mpi=1 ;;
    esac
    case $before' '$word in
      '--backend cuda') cuda=1 ;;
      '--rendezvous mpi') mpi=1 ;;
    esac
    # Operands count for import alone, whose options all take an argument.
    [[ -n $before || $word == -* ]] || operands=$((operands + 1))
    before=
    if [[ $word =~ ^(--[a-z-]+|-o)$ ]]; then before=$word; fi
  done
  if [[ $1 == import && $operands -eq 1 ]]; then executes=1 cuda=1; fi
  [[ -n $executes ]] || return 0
  echo execution
  # As Open MPI, MPICH and Slurm's PMIx tell their processes.
  [[ -z $mpi && -z ${OMPI_COMM_WORLD_SIZE:-}${PMI_SIZE:-}${PMIX_RANK:-} ]] || echo mpi
  [[ -z $cuda ]] || echo cuda
}

# parts_of_targets TARGET…: what they can't be built without.
parts_of_targets() {
  local target
  for target in "$@"; do
    case $target in
      pipesim | fuzzers | installed) ;;
      pipesim-execution) echo execution ;;
      python_package) echo python ;;
      tests | all) printf '%s\n' execution mpi python tests ;;
      *) printf '%s\n' execution mpi tests ;;
    esac
  done | sort -u
}

# has_parts FOLDER PART…: is it configured with them? A part whose libraries are missing counts: it can't be had.
has_parts() {
  local part
  for part in "${@:2}"; do
    grep -qsx "PIPESIM_${part^^}:BOOL=ON" "$1/CMakeCache.txt" || return 1
  done
}

# The compute capabilities of this machine's GPUs of NVIDIA, as CMake wants them: "80;90". Fails where there are none.
gpu_architectures() {
  local found
  command -v nvidia-smi >/dev/null || return 1
  found=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d '. ' | grep -x '[0-9]\+' | sort -un | paste -sd ';') || return 1
  [[ -n $found ]] && echo "$found"
}

# possible_parts FOLDER PART…: those that can be built here, or are already; says why others can't.
possible_parts() {
  local part
  for part in "${@:2}"; do
    if [[ $part == cuda ]] && ! has_parts "$1" cuda && ! gpu_architectures >/dev/null; then
      say "no GPU of NVIDIA is found here (by nvidia-smi), so libpipesim_cuda.so is not built"
      continue
    fi
    echo "$part"
  done
}
