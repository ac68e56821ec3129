# shellcheck shell=bash
# kill.sh PROGRAM TIMES: starts 4 ranks, kills one at a random moment, and looks whether all others end within 10 s
# with exit status 3 and a message that names it. So it is when mpirun is told to let the others live, every second
# time. Else mpirun kills them for good, at times within 10 ms: then none may be left, those that ended by themselves
# must have done so with 3 and the message, and at least one must have.
set -euo pipefail
program=$1 times=$2 ranks=4
RANDOM=$(date +%N | sed 's/^0*//')
echo "seed $RANDOM"
folder=$(mktemp -d)
launcher=
trap '[[ -z $launcher ]] || kill -9 "$launcher" 2>/dev/null || true; rm -rf "$folder"' EXIT

# await PATTERN COUNT SECONDS: whether there are so many files of the pattern soon.
await() {
  local deadline=$((SECONDS + $3))
  until [[ $(compgen -G "$folder/$1" | wc -l) -ge $2 ]]; do
    ((SECONDS < deadline)) || return 1
    sleep 0.02
  done
}

# has_ended RANK: whether its process is gone, or only waits for its parent to look at it.
has_ended() {
  ! grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$(<"$folder/process.$1")/status"
}

fail() {
  echo "time $time, rank $victim killed: $1"
  ls "$folder"
  tail -n +1 "$folder"/said.* "$folder/launcher" || true
  exit 1
}

for ((time = 1; time <= times; ++time)); do
  victim=$((RANDOM % ranks))
  rm -f "$folder"/process.* "$folder"/said.* "$folder"/status.*
  options=()
  ((time % 2)) || options=(--enable-recovery)
  mpirun -np "$ranks" "${options[@]}" "$program" "$folder" >"$folder/launcher" 2>&1 &
  launcher=$!
  await 'process.*' "$ranks" 20 || fail "the ranks did not start"
  sleep "0.$((RANDOM % 4))$((RANDOM % 10))"
  kill -9 "$(<"$folder/process.$victim")"
  if ((${#options[@]} == 0)); then
    deadline=$((SECONDS + 10))
    while kill -0 "$launcher" 2>/dev/null; do
      ((SECONDS < deadline)) || fail "not all others ended within 10 s"
      sleep 0.02
    done
  fi
  ((${#options[@]} == 0)) || await 'status.*' "$ranks" 10 || fail "not all others ended within 10 s"
  named=0
  for ((rank = 0; rank < ranks; ++rank)); do
    ((rank != victim)) || continue
    deadline=$((SECONDS + 10))
    until has_ended "$rank"; do
      ((SECONDS < deadline)) || fail "rank $rank has not ended"
      sleep 0.02
    done
    # Without a status, mpirun has killed it.
    compgen -G "$folder/status.$rank.*" >/dev/null || continue
    [[ -e $folder/status.$rank.3 ]] || fail "rank $rank did not end with 3"
    grep -q "rank $victim (gpu$victim on host .*) died; its last task \(was \"call \|is not known\)" \
      "$folder/said.$rank" || fail "rank $rank did not name it"
    named=$((named + 1))
  done
  ((named >= (${#options[@]} ? ranks - 1 : 1))) || fail "only $named ranks ended by themselves"
  wait "$launcher" || true
  launcher=
done
echo "$times deaths noticed, the last one so:"
tail -qn 1 "$folder"/said.*
