#!/usr/bin/env bash
# messages.sh PROGRAM FILE: what the program says to wrong command lines, as messages.txt beside this file records it:
# a line "$ pipesim …", what comes on stderr, and "[STATUS]". With --write the file is written again.
set -u
program=$(readlink -f "$1")
recorded=$(readlink -f "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

# Files that get mixed up.
"$program" models lenet --json >model.json
"$program" topologies p100-4x4:1 --json >topology.json
"$program" search --model lenet --topology p100-4x4:1 --proposals 50 --checkpoint checkpoint.json -o plan.json >/dev/null 2>&1
"$program" search --model lenet --topology p100-4x4:1 --proposals 50 --algorithm auto --checkpoint auto.json >/dev/null 2>&1
"$program" search --model lenet --topology p100-4x4:1 --algorithm mcmc --proposals 50 --search-log log.csv --json >result.json 2>/dev/null
echo '{"pipesim_study": 1, "arguments": [], "plans": "best"}' >study.json
"$program" simulate --plan plan.json --trace trace.json --json >report.json
printf 'SQLite format 3\0' >calibration.db
printf '\010\007' >network.onnx
echo '<system version="1">' >node.xml
echo '<system version="1"><cpu><pci busid="0000:00:16.0"/></cpu></system>' >bridges.xml
echo '<system version="1"><cpu><pci busid="0000:18:00.0" class="0x030200" vendor="0x10de" device="0x2330"><gpu dev="0" sm="90"/><gpu dev="1" sm="90"/></pci></cpu></system>' >two.xml
echo '<system version="2"><cpu><pci busid="0000:0c:00.0" class="0x120000" vendor="0x1002"><gpu dev="0" gcn="gfx1201"/></pci></cpu></system>' >radeon.xml
echo '<system version="1"><cpu><pci busid="0000:18:00.0" class="0x030200" vendor="0x10de" device="0x2330"/></cpu></system>' >h100.xml
printf 'GPU0 GPU1\nGPU0 X SYS\nGPU1 PIX X\n' >matrix.txt
echo hello >notes.txt
touch empty.json

while IFS= read -r line; do
  [[ $line == '$ pipesim'* ]] || continue
  echo "$line"
  # The words are those of a shell.
  eval "words=(${line#\$ pipesim})"
  "$program" "${words[@]}" 2>&1 >/dev/null </dev/null
  echo "[$?]"
done <"$recorded" >found.txt

if [[ ${3:-} == --write ]]; then
  cp found.txt "$recorded"
  exit
fi
diff -u "$recorded" found.txt
