#!/bin/sh
# manual_page.sh PROGRAM: groff has no complaints about any page of the manual. Skipped where it is not installed.
program=$1
command -v groff >/dev/null || { echo "groff is not installed"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

check() {
  said=$("$program" help "$@" >"$folder/page" && groff -K utf8 -man -Tutf8 -P -cbou -wmac -wchar -wfont -wsyntax -wdelim -wescape -wmissing \
    "$folder/page" 2>&1 >"$folder/text") || { echo "help $*: groff failed: $said" >&2; exit 1; }
  [ -z "$said" ] || { echo "help $*: $said" >&2; exit 1; }
  grep -q "NAME" "$folder/text" || { echo "help $*: the page has no NAME" >&2; exit 1; }
}

check --man
for command in $("$program" help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
  check "$command" --man
done
