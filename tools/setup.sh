# shellcheck shell=bash
# Sourced by tools/pipesim, tools/test and .ci/run: installs missing packages, builds a preset. Says what it does on
# stderr, so that a program's stdout stays its own.

root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)

# Clones in different folders share compiled files, and users of a precompiled header are cached as well.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros

say() { printf 'pipesim: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

# Names from package lists that dpkg does not report as installed.
missing_packages() {
  local wanted installed
  wanted=$(sed 's/#.*//' "$@" | xargs -n1 | sort -u)
  # shellcheck disable=SC2086  # one argument per package
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted 2>/dev/null | sed -n 's/^installed //p' | sort -u)
  comm -23 <(printf '%s\n' "$wanted") <(printf '%s\n' "$installed")
}

# require_packages LIST…: installs what is missing, as root or with sudo; else says what to install and stops.
require_packages() {
  local missing as_root=()
  if ! command -v dpkg-query >/dev/null; then
    say "this is not Debian, so packages are not checked; needed are those in" "$@"
    return
  fi
  missing=$(missing_packages "$@" | xargs)
  [[ -n $missing ]] || return 0
  if ((EUID != 0)); then
    # Asking for a password needs a terminal; without one sudo must work silently.
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 && -t 2 ]]; }; then
      as_root=(sudo)
    else
      die "these packages are missing: $missing; install them as root: apt-get install -y $missing"
    fi
  fi
  say "installing packages: $missing"
  # shellcheck disable=SC2016,SC2086  # expanded by the inner shell; one argument per package
  "${as_root[@]}" bash -c '
    export DEBIAN_FRONTEND=noninteractive
    options=(-qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
    apt-get "${options[@]}" update && apt-get "${options[@]}" install -y --no-install-recommends "$@"
  ' apt $missing </dev/null >&2 || die "can't install packages; install them as root: apt-get install -y $missing"
}

# newer_than FILE [FOLDER…]: is FILE missing, or older than a source or than a folder that gained or lost one?
newer_than() {
  [[ -e $1 ]] || return 0
  local folder looked_at=()
  for folder in sim topologies models costmodel taskgraph search executor tools "${@:2}"; do
    [[ ! -d $root/$folder ]] || looked_at+=("$root/$folder")
  done
  [[ -n $(find "$root/CMakeLists.txt" "$root/CMakePresets.json" "${looked_at[@]}" -newer "$1" -print -quit) ]]
}

# Runs a command with its output on stderr: live on a terminal, else only when it fails.
quietly() {
  if [[ -t 2 ]]; then
    "$@" >&2
  else
    local log
    log=$(mktemp)
    "$@" >"$log" 2>&1 || { local status=$?; cat "$log" >&2; rm -f "$log"; return $status; }
    rm -f "$log"
  fi
}

# build_preset PRESET TARGET…: configures when needed, then builds. Calls at the same time wait for one another.
build_preset() (
  local preset=$1 folder=$root/build/$1 home targets=("${@:2}")
  if ! mkdir -p "$folder" 2>/dev/null || [[ ! -w $folder ]]; then
    die "can't write to $folder, where pipesim is built"
  fi
  exec 9>"$folder/.lock"
  flock 9
  # What another call built while this one waited need not be built again.
  newer_than "$folder/.built-${targets[0]}" tests || return 0
  require_packages "$root/tools/packages.txt"
  say "building $folder$([[ -e $folder/build.ninja ]] || echo ' (the first time takes minutes)')"
  touch "$folder/.started"
  cd "$root" || exit
  # A checkout that was moved leaves a cache that cmake refuses.
  home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$folder/CMakeCache.txt" 2>/dev/null || true)
  if [[ $home != "$root" || ! -e $folder/build.ninja ]]; then
    quietly cmake --fresh --preset "$preset" 9>&- || die "cmake failed"
  fi
  quietly cmake --build --preset "$preset" --target "${targets[@]}" 9>&- || die "the build failed"
  mv "$folder/.started" "$folder/.built-${targets[0]}"
)
