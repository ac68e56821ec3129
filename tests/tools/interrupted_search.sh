#!/bin/sh
# interrupted_search.sh PROGRAM: a search that a signal ends keeps what it found.
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# shellcheck source=tests/tools/check.sh
. "$(dirname "$0")/check.sh"

# search SIGNAL ARGUMENTS…: starts one that would take minutes, and sends the signal once it is under way, which
# a row of its log like $row tells. A shell starts background jobs with SIGINT ignored, hence env.
row='^[0-9]'
search() {
  signal=$1
  shift
  rm -f "$folder/log.csv"
  env --default-signal=INT "$program" search --seconds 300 --search-log "$folder/log.csv" "$@" \
    >"$folder/out" 2>"$folder/err" &
  job=$!
  for _ in $(seq 1200); do
    grep -q "$row" "$folder/log.csv" 2>/dev/null && break
    kill -0 $job 2>/dev/null || break
    sleep 0.05
  done
  kill -s "$signal" $job
  wait $job
  status=$?
  # A search that takes longer says every few seconds how far it has come.
  grep -v '^pipesim: [0-9]* proposals, ' "$folder/err" >"$folder/said"
  mv "$folder/said" "$folder/err"
}

for signal in INT TERM; do
  rm -f "$folder/plan.json"
  search $signal --algorithm mcmc --model lenet --topology p100-4x4:1 -o "$folder/plan.json"
  check "status after $signal" "$status" 0
  check "message" "$(sed 's/[0-9.]* s$/N s/' "$folder/err")" "pipesim: interrupted after N s"
  check "report" "$(grep -c '^best plan: ' "$folder/out")" 1
  check "log" "$(head -n 1 "$folder/log.csv")" "seconds,proposals,best,chain"
  "$program" simulate --plan "$folder/plan.json" >/dev/null || exit 1
done

# A model of 0.7 MB of weights and gradients on devices of 1 MB: nothing fits with its activations.
cat >"$folder/tiny.json" <<'TOPOLOGY'
{"pipesim_topology": 1, "name": "tiny",
 "device_kinds": {"tiny": {"peak": {"float32": "1 TFLOP/s"}, "memory": "1 MB", "memory_bandwidth": "100 GB/s"}},
 "levels": [{"size": 2, "bandwidth": "10 GB/s"}], "device": "tiny"}
TOPOLOGY
search INT --algorithm mcmc --model lenet --topology "$folder/tiny.json" -o "$folder/none.json"
check "status without a plan" "$status" 130
check "first line" "$(sed -n '1s/[0-9.]* s$/N s/p' "$folder/err")" "pipesim: interrupted after N s"
check "second line" "$(sed -n '2s/ was found;.*//p' "$folder/err")" \
  'pipesim: no plan for model "lenet" that fits the memory of topology "tiny"'
check "nothing written" "$(cat "$folder/out")$(ls "$folder" | grep none)" ""

# Of pipelines, too; over slow links hardly one can be left out.
pipelines="--algorithm exhaustive --microbatches 4 --layers 7 --model gpt:layers=6,batch=8"
row='^[^,]*,[^,]*,[0-9]'  # the first plan
search INT $pipelines --topology levels:8@10MB/s -o "$folder/pipeline.json"
check "status of pipelines" "$status" 0
check "message of pipelines" "$(sed 's/[0-9.]* s$/N s/' "$folder/err")" "pipesim: interrupted after N s"
check "note" "$(sed -n 's/[0-9]* of up to [0-9]*/N of up to M/;s/^  not proven/not proven/p' "$folder/out")" \
  "not proven: an interruption ended the search after N of up to M pipelines of 7 layers"
"$program" simulate --plan "$folder/pipeline.json" >/dev/null || exit 1
row='^[0-9]'
search INT $pipelines --topology levels:8@10MB/s --memory-margin 99% -o "$folder/none.json"
check "status without a pipeline" "$status" 130
check "last line" "$(sed -n 2p "$folder/err")" \
  "pipesim: exhaustive: no pipeline that fits into memory was found yet"
check "no pipeline written" "$(cat "$folder/out")$(ls "$folder" | grep none)" ""
