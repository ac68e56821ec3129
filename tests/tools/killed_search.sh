#!/bin/sh
# killed_search.sh PROGRAM KILLS ARGUMENTS…: whenever a search with these arguments is killed (SIGKILL), its last
# checkpoint loads, and the search that goes on from there finds the same bytes as one that nobody killed.
program=$1
kills=$2
shift 2
arguments=$*
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# In place of the shell that calls it, so that a job is the search itself.
search() {
  exec "$program" search --model rnnlm:batch=32,steps=2,layers=1,hidden=64,vocab=200 --topology levels:2@10GB/s,2@1GB/s \
    --chains 4 $arguments "$@" >"$folder/out" 2>"$folder/err"
}

begin=$(date +%s%N)
(search -o "$folder/whole.json") || exit 1
took=$((($(date +%s%N) - begin) / 1000000))  # ms; the instants are spread over it, and follow the host's pace
went_on=0 killed=0
for kill in $(seq "$kills"); do
  rm -f "$folder/checkpoint" "$folder/plan.json"
  search --checkpoint "$folder/checkpoint" --checkpoint-every 0 -o "$folder/plan.json" &
  job=$!
  sleep "$(awk -v t=$took -v k="$kill" -v n="$kills" 'BEGIN { srand(k); printf "%.4f", t * (k - rand()) / n / 1000 }')"
  kill -KILL $job 2>/dev/null
  wait $job 2>/dev/null
  if [ $? -eq 137 ]; then
    killed=$((killed + 1))
  else
    took=$((took * 4 / 5))
  fi
  if [ ! -f "$folder/checkpoint" ]; then  # killed before the search began
    took=$((took * 5 / 4 + 1))
    continue
  fi
  rm -f "$folder/plan.json"
  if ! (search --resume "$folder/checkpoint" -o "$folder/plan.json"); then
    echo "kill $kill: $(cat "$folder/err")" >&2
    exit 1
  fi
  cmp "$folder/whole.json" "$folder/plan.json" || exit 1
  went_on=$((went_on + 1))
done
echo "$killed of $kills searches were killed in time, $went_on went on from a checkpoint"
[ "$killed" -ge $((kills / 2)) ] && [ "$went_on" -ge $((kills / 4)) ]
