# shellcheck shell=bash
# Sourced by tools/pipesim, tools/test, .ci/run and others: installs missing packages, builds a preset. Says what it does
# on stderr, so that a program's stdout stays its own.

root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)

# Clones in different folders share compiled files, and users of a precompiled header are cached as well.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros

say() { printf 'pipesim: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

# shellcheck source=tools/scripts/progress.sh
source "$root/tools/scripts/progress.sh"
# shellcheck source=tools/scripts/parts.sh
source "$root/tools/scripts/parts.sh"

# Names from package lists that dpkg does not report as installed.
missing_packages() {
  local wanted installed
  wanted=$(sed 's/#.*//' "$@" | xargs -n1 | sort -u)
  # shellcheck disable=SC2086  # one argument per package
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted 2>/dev/null | sed -n 's/^installed //p' | sort -u)
  comm -23 <(printf '%s\n' "$wanted") <(printf '%s\n' "$installed")
}

# require_packages LIST…: installs what is missing, as root or with sudo; else says what to install and stops. A list is a
# file, or the name of one in tools/scripts/packages.
require_packages() {
  local missing list lists=() as_root=()
  for list in "$@"; do
    [[ $list == */* ]] || list=$root/tools/scripts/packages/$list.txt
    lists+=("$list")
  done
  if ! command -v dpkg-query >/dev/null; then
    say "this is not Debian, so packages are not checked; needed are those in ${lists[*]}"
    return
  fi
  missing=$(missing_packages "${lists[@]}" | xargs)
  [[ -n $missing ]] || return 0
  if ((EUID != 0)); then
    # Asking for a password needs a terminal; without one sudo must work silently.
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 && -t 2 ]]; }; then
      as_root=(sudo)
      sudo -v 2>/dev/null || true
    else
      die "these packages are missing: $missing; install them as root: apt-get install -y $missing"
    fi
  fi
  say "installing packages: $missing"
  # shellcheck disable=SC2016,SC2086  # expanded by the inner shell; one argument per package
  with_progress installing "${as_root[@]}" bash -c '
    export DEBIAN_FRONTEND=noninteractive
    options=(-o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
    apt-get "${options[@]}" update && apt-get "${options[@]}" install -y --no-install-recommends "$@"
  ' apt $missing 9>&- || die "can't install packages; install them as root: apt-get install -y $missing"
}

# newer_than FILE [FOLDER…]: is FILE missing, or older than a source or than a folder that gained or lost one?
newer_than() {
  [[ -e $1 ]] || return 0
  local folder looked_at=()
  for folder in sim topologies models costmodel taskgraph search executor tools python "${@:2}"; do
    [[ ! -d $root/$folder ]] || looked_at+=("$root/$folder")
  done
  [[ -n $(find "$root/CMakeLists.txt" "$root/CMakePresets.json" "${looked_at[@]}" -newer "$1" -print -quit) ]]
}

# Whoever builds the same preset at the same time waits here.
lock_build() {
  flock -n 9 && return
  say "waiting for another build of the same folder"
  with_progress waiting flock 9
}

# build_preset PRESET TARGET… [-- PART…]: configures when needed, then builds; parts beside those that the targets need.
build_preset() (
  local preset=$1 folder=$root/build/$1 targets=() built part parts
  shift
  while (($#)) && [[ $1 != -- ]]; do targets+=("$1"); shift; done
  shift $(($# > 0))
  mapfile -t parts < <(parts_of_targets "${targets[@]}"; (($# == 0)) || printf '%s\n' "$@")
  built=$folder/.built-${targets[0]}
  if ! mkdir -p "$folder" 2>/dev/null || [[ ! -w $folder ]]; then
    die "can't write to $folder, where pipesim is built"
  fi
  exec 9>"$folder/.lock"
  lock_build
  # What another call built while this one waited need not be built again.
  if ! newer_than "$built" tests && has_parts "$folder" "${parts[@]}"; then return; fi
  touch "$folder/.started"
  require_packages program
  for part in "${parts[@]}"; do
    case $part in
      # Not another MPI beside the one that is there.
      mpi) command -v mpicxx >/dev/null || require_packages mpi ;;
      execution | python | tests) require_packages "$part" ;;
    esac
  done
  cd "$root" || exit
  configure "$preset" "$folder" "${parts[@]}"
  say "compiling $folder"
  with_progress compiling cmake --build --preset "$preset" --parallel "$(nproc)" --target "${targets[@]}" 9>&- || die "the build failed"
  mv "$folder/.started" "$built"
)

# configure PRESET FOLDER PART…: where it was not, or without these parts. Parts that are there stay.
configure() {
  local preset=$1 folder=$2 home part options=() fresh=()
  # A checkout that was moved leaves a cache that cmake refuses. A cache keeps what presets said when it was made.
  home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$folder/CMakeCache.txt" 2>/dev/null || true)
  if [[ $home != "$root" || ! -e $folder/build.ninja || CMakePresets.json -nt $folder/CMakeCache.txt ]]; then
    fresh=(--fresh)
    for part in execution mpi cuda python tests; do options+=("-DPIPESIM_${part^^}=OFF"); done
  elif has_parts "$folder" "${@:3}"; then
    return
  fi
  for part in "${@:3}"; do
    options+=("-DPIPESIM_${part^^}=ON")
    # For the GPU that is here; other presets than these two name theirs.
    if [[ $part == cuda && ($preset == release || $preset == dev) ]]; then
      options+=("-DPIPESIM_CUDA_ARCHITECTURES=$(gpu_architectures || echo all-major)")
    fi
  done
  with_progress configuring cmake "${fresh[@]}" --preset "$preset" "${options[@]}" 9>&- || die "cmake failed"
}
