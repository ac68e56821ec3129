#!/bin/sh
# out_of_memory.sh PROGRAM: what happens when memory runs out.
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# check NAME PATTERN KILOBYTES COMMAND…: with so much memory the command ends with status 1 and one such line.
check() {
  name=$1 pattern=$2 most=$3
  shift 3
  (ulimit -v "$most" && exec "$program" "$@") >"$folder/out" 2>"$folder/err"
  status=$?
  if [ $status -ne 1 ] || [ "$(wc -l <"$folder/err")" -ne 1 ] || ! grep -Eqx "$pattern" "$folder/err"; then
    echo "$name: expected status 1 and \"$pattern\", got $status and:" >&2
    cat "$folder/err" >&2
    exit 1
  fi
}
take='Take fewer microbatches \(--microbatches\), fewer devices, or a model of fewer operators'

graph='the task graph of 1024 microbatches on 128 devices has about [0-9]+ tasks, which need [0-9.]+ GB'
check "a graph that can't fit" \
  "pipesim: out of memory: $graph; [0-9.]+ MB are left of the 1\.02 GB that ulimit -v allows\. $take" 1000000 \
  simulate --model gpt3-175b --topology dgx-a100:16 --baseline data-parallel --batch 131072 --microbatches 1024 \
  --trace "$folder/trace.json"

graph='building the task graph of 1 microbatch on 512 devices \([0-9]+ tasks so far, [0-9.]+ MB\)'
check "a graph that grows too large" \
  "pipesim: out of memory while $graph; ulimit -v allows 410 MB\. Take fewer devices, or a model of fewer operators" \
  400000 simulate --model llama3-405b --topology dgx-a100:64 --baseline data-parallel --trace "$folder/trace.json"

truncate -s 1G "$folder/large.json"
check "a file that can't fit" \
  "pipesim: out of memory while reading .*/large\.json \(1\.07 GB\); ulimit -v allows 410 MB\. The file must fit into memory" \
  400000 simulate --plan "$folder/large.json"

threads='the plan needs [0-9]+ threads here, and the system refuses more than [0-9]+ \(Resource temporarily unavailable\)'
check "too many threads" \
  "pipesim: $threads; run a plan for fewer devices, or allow more threads and memory \(ulimit -u, ulimit -v\)" \
  600000 execute --model mlp --topology p100-4x4:64 --baseline data-parallel --backend emulated --no-realtime
