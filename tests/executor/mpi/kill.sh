# kill.sh PROGRAM TIMES: starts 4 ranks, kills one at a random moment, and looks whether all others end within 10 s
# with exit status 3 and a message that names it. Every second time mpirun is told to let the others live; else it
# stops them itself.
set -euo pipefail
program=$1 times=$2 ranks=4
RANDOM=$(date +%N | sed 's/^0*//')
echo "seed $RANDOM"
folder=$(mktemp -d)
launcher=
trap '[[ -z $launcher ]] || kill -9 "$launcher" 2>/dev/null || true; rm -rf "$folder"' EXIT

# Run by mpirun in place of the program: leaves what it said and its exit status. mpirun's signals reach both.
cat >"$folder/rank.sh" <<'RANK'
trap : TERM
"$1" "$2/process" 2>"$2/said.$OMPI_COMM_WORLD_RANK" &
child=$!
status=0
while wait "$child" || status=$?; kill -0 "$child" 2>/dev/null; do :; done
echo "$status" >"$2/.status.$OMPI_COMM_WORLD_RANK"
mv "$2/.status.$OMPI_COMM_WORLD_RANK" "$2/status.$OMPI_COMM_WORLD_RANK"
RANK

# await FILES SECONDS: whether there are so many files of the pattern soon.
await() {
  local deadline=$((SECONDS + $3))
  until [[ $(compgen -G "$folder/$1" | wc -l) -ge $2 ]]; do
    ((SECONDS < deadline)) || return 1
    sleep 0.02
  done
}

fail() {
  echo "time $time, rank $victim killed: $1"
  tail -n +1 "$folder"/said.* "$folder"/status.* "$folder/launcher" || true
  exit 1
}

for ((time = 1; time <= times; ++time)); do
  victim=$((RANDOM % ranks))
  rm -f "$folder"/process.* "$folder"/said.* "$folder"/status.*
  options=()
  ((time % 2)) || options=(--enable-recovery)
  mpirun -np "$ranks" "${options[@]}" bash "$folder/rank.sh" "$program" "$folder" >"$folder/launcher" 2>&1 &
  launcher=$!
  await 'process.*' "$ranks" 20 || fail "the ranks did not start"
  sleep "0.$((RANDOM % 4))$((RANDOM % 10))"
  kill -9 "$(<"$folder/process.$victim")"
  await 'status.*' "$ranks" 10 || fail "not all others ended within 10 s"
  for ((rank = 0; rank < ranks; ++rank)); do
    ((rank != victim)) || continue
    [[ $(<"$folder/status.$rank") == 3 ]] || fail "rank $rank did not end with 3"
    grep -q "rank $victim (gpu$victim on host .*) died; its last task was \"call " "$folder/said.$rank" ||
      fail "rank $rank did not name it"
  done
  wait "$launcher" || true
  launcher=
done
echo "$times deaths noticed, the last one so:"
cat "$folder/said.$(((victim + 1) % ranks))"
