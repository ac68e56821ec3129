#!/bin/sh
# logged_search.sh PROGRAM: a long search shows signs of life where stderr is a file.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" search --model lenet --topology p100-4x4:1 --seconds 6 >"$folder/out" 2>"$folder/err" || exit 1
sign='^pipesim: [0-9]* proposals, [0-9]*/s, best .* at most [0-9]* s left$'
if ! grep -q "$sign" "$folder/err" || grep -v "$sign" "$folder/err"; then
  echo "expected lines like \"$sign\", got \"$(cat "$folder/err")\"" >&2
  exit 1
fi
