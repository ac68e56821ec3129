#!/bin/sh
# killed_study.sh PROGRAM: a study that is killed (SIGKILL) leaves a complete file, and goes on from it to the same bytes
# as one that nobody killed.
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

study() {
  exec "$program" whatif --model gpt:layers=8 --topology dgx-a100:2 --batch 64 --recipe tp2,pp2 --threads 1 \
    --vary inter_node.bandwidth=10..69+1Gb/s --vary device.rate=x0.5..x1.5+0.1 "$@" >"$folder/out" 2>"$folder/err"
}

(study -o "$folder/whole.json") || exit 1
study -o "$folder/part.json" &
job=$!
while [ ! -f "$folder/part.json" ] && kill -0 $job 2>/dev/null; do sleep 0.05; done
kill -KILL $job 2>/dev/null
wait $job 2>/dev/null
status=$?
[ -f "$folder/part.json" ] || exit 1
if ! "$program" whatif --resume "$folder/part.json" >"$folder/out" 2>"$folder/err"; then
  cat "$folder/err" >&2
  exit 1
fi
cmp "$folder/whole.json" "$folder/part.json" || exit 1
echo "the study was killed with status $status and went on"
[ "$status" -eq 137 ]
