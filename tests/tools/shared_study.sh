# shellcheck shell=bash
# shared_study.sh PROGRAM: several processes write the same study as one. When one is killed, the first says which it
# was and what it did, keeps what is done, and --resume ends with the same study. Several rank recipes as one does, too.
# Exit status 77 where MPI is missing.
set -euo pipefail
program=$1
if ! command -v mpirun >/dev/null || [[ ! -e $(dirname "$program")/libpipesim_mpi.so ]]; then
  echo "skipped: MPI is not installed (Debian packages openmpi-bin and libopenmpi-dev)"
  exit 77
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
folder=$(mktemp -d)
launcher=
trap '[[ -z $launcher ]] || kill -9 "$launcher" 2>/dev/null || true; rm -rf "$folder"' EXIT

fail() {
  echo "$1"
  tail -n 20 "$folder"/said* || true
  exit 1
}

gpt=(--model gpt:layers=4 --topology dgx-a100:2 --batch 64 --threads 1)
plans=(--model gpt:layers=4 --topology p100-4x4:1 --threads 1 --vary "batch=8,16,32" --vary "model.layers=2,4")
"$program" whatif "${plans[@]}" -o "$folder/alone.json" >"$folder/said.alone"
for ranks in 2 3; do
  mpirun -np "$ranks" "$program" whatif "${plans[@]}" -o "$folder/shared.json" >"$folder/said.$ranks" 2>/dev/null
  cmp "$folder/alone.json" "$folder/shared.json" || fail "$ranks processes wrote another study"
  cmp "$folder/said.alone" "$folder/said.$ranks" || fail "$ranks processes printed something else"
done

bandwidths=$(seq -s, 26 1 1025)
many=("${gpt[@]}" --recipe tp2 --vary "inter_node.bandwidth=${bandwidths}Gb/s")
rm "$folder/shared.json"
"$program" whatif "${many[@]}" -o "$folder/alone.json" >"$folder/said.alone"
mpirun -np 2 --enable-recovery "$program" whatif "${many[@]}" -o "$folder/shared.json" >"$folder/said.shared" 2>&1 &
launcher=$!
victim=
for ((i = 0; i < 500; ++i)); do
  if [[ -z $victim ]]; then
    for process in $(pgrep -f "$folder/shared.json"); do
      if tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | grep -qx OMPI_COMM_WORLD_RANK=1; then victim=$process; fi
    done
  fi
  [[ -z $victim || ! -e $folder/shared.json ]] || break
  sleep 0.02
done
[[ -n $victim && -e $folder/shared.json ]] || fail "the study was not begun"
sleep 0.3 # what a process does is told every 50 ms
kill -9 "$victim"
wait "$launcher" || true # mpirun is told to let the others live
launcher=
grep -q "rank 1 (process 1 on host .*) died" "$folder/said.shared" || fail "the process that died was not named"
grep -q "inter_node.bandwidth=" "$folder/said.shared" || fail "what it did was not said"
grep -q "of 1000 points are done; pipesim whatif --resume" "$folder/said.shared" || fail "what is done was not said"
"$program" whatif --resume "$folder/shared.json" >"$folder/said.resumed" 2>/dev/null
cmp "$folder/alone.json" "$folder/shared.json" || fail "the resumed study is another"

recipes=(search --model gpt:layers=4 --topology dgx-a100+dgx-h100 --batch 32 --algorithm recipes --threads 1 --only pp=1)
"$program" "${recipes[@]}" -o "$folder/alone.plan" >"$folder/said.alone" 2>/dev/null
for ranks in 2 3; do
  mpirun -np "$ranks" "$program" "${recipes[@]}" -o "$folder/shared.plan" >"$folder/said.$ranks" 2>/dev/null
  cmp "$folder/alone.plan" "$folder/shared.plan" || fail "$ranks processes found another plan"
  diff <(grep simulated "$folder/said.alone") <(grep simulated "$folder/said.$ranks") || fail "$ranks processes simulated others"
done
