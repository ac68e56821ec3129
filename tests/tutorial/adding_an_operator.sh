#!/bin/sh
# Usage: adding_an_operator.sh SOURCE COMPILER FLAGS
# Applies the changes that docs/tutorial.md shows to a copy of the sources, compiles the changed files of the program, and
# builds and runs softsign_check.cc with them.
set -eu
source=$1 compiler=$2 flags=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk '/^```/ { shown = ($0 == "```diff"); next } shown' "$source/docs/tutorial.md" > "$work/shown.diff"
changed=$(sed -n 's|^+++ b/||p' "$work/shown.diff")
test -n "$changed" || { echo "docs/tutorial.md shows no changes"; exit 1; }

cd "$source"
mkdir "$work/tree"
find costmodel executor models sim tests topologies \( -name '*.h' -o -name '*.cc' \) > "$work/files"
tar -cf - -T "$work/files" | tar -xf - -C "$work/tree"
cd "$work/tree"
patch --quiet -p1 --fuzz=0 < "$work/shown.diff"

for file in $changed; do
  case $file in
    tests/*) ;;
    *.cc)
      echo "compiling $file"
      # shellcheck disable=SC2086 # several flags
      "$compiler" $flags -I. -fsyntax-only "$file"
      ;;
  esac
done
echo "running softsign_check.cc"
# shellcheck disable=SC2086
"$compiler" $flags -I. "$source/tests/tutorial/softsign_check.cc" -o "$work/softsign_check"
"$work/softsign_check"
