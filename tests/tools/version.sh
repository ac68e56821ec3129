#!/bin/sh
# version.sh CMAKE SOURCE: tools/packaging/commit.cmake names the commit, says what was modified, and writes nothing
# that it need not write.
cmake=$1
source=$2
command -v git >/dev/null || { echo "git is not installed"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

fail() { echo "$*" >&2; exit 1; }

# commit_of FOLDER: what is compiled into a program that is built there.
commit_of() {
  "$cmake" -DSOURCE="$1" -DOUTPUT="$folder/out/commit.cc" -P "$source/tools/packaging/commit.cmake" || fail "cmake failed"
  sed -n 's/.*kCommit = "\(.*\)";/\1/p' out/commit.cc
}

mkdir checkout checkout/unpacked tarball
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.invalid
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.invalid
git -C checkout init -q && echo one >checkout/file && git -C checkout add file && git -C checkout commit -qm one ||
  fail "git failed"
commit=$(git -C checkout rev-parse --short=12 HEAD)

found=$(commit_of "$folder/checkout")
[ "$found" = "$commit" ] || fail "expected $commit, got $found"
touch -d 2001-01-01 out/commit.cc
commit_of "$folder/checkout" >/dev/null
[ "$(stat -c %y out/commit.cc | cut -c 1-4)" = 2001 ] || fail "the same was written again"
echo two >checkout/file
found=$(commit_of "$folder/checkout")
[ "$found" = "$commit-modified" ] || fail "expected $commit-modified, got $found"
git -C checkout tag -a v9 -m nine && git -C checkout checkout -q file
found=$(commit_of "$folder/checkout")
[ "$found" = "$commit" ] || fail "with a tag: expected $commit, got $found"
for elsewhere in tarball checkout/unpacked; do
  found=$(commit_of "$folder/$elsewhere")
  [ -z "$found" ] || fail "$elsewhere: expected no commit, got $found"
done
