#!/bin/sh
# installed_program.sh CMAKE BUILD: what `cmake --install` copies works where it is.
cmake=$1
build=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
prefix=$folder/usr

fail() { echo "$*" >&2; exit 1; }

"$cmake" --install "$build" --prefix "$prefix" --component pipesim >"$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
program=$prefix/bin/pipesim
[ "$("$program" --version)" = "$("$build/pipesim" --version)" ] || fail "another version was installed"
"$program" models | grep -q '^resnet50 ' || fail "no models"
for file in man/man1/pipesim.1.gz man/man1/pipesim-search.1.gz doc/pipesim/changelog.gz; do
  gzip -t "$prefix/share/$file" || fail "$file is no archive"
done
for command in $("$program" help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
  [ -s "$prefix/share/man/man1/pipesim-$command.1.gz" ] || fail "$command has no page"
done
gzip -dc "$prefix/share/man/man1/pipesim.1.gz" >"$folder/page"
"$program" help --man | cmp -s - "$folder/page" || fail "the page of the manual is of another program"
for file in bash-completion/completions/pipesim zsh/vendor-completions/_pipesim fish/vendor_completions.d/pipesim.fish; do
  grep -q 'help --completion' "$prefix/share/$file" || fail "$file is not there"
done
for file in README.md copyright docs/llm.md docs/commands.md docs/models.md; do
  [ -s "$prefix/share/doc/pipesim/$file" ] || fail "$file is not there"
done
"$program" help --markdown | cmp -s - "$prefix/share/doc/pipesim/docs/commands.md" || fail "docs/commands.md is of another program"
for kind in model plan search study topology; do
  "$program" help --schema $kind | cmp -s - "$prefix/share/pipesim/schemas/$kind.schema.json" || fail "the schema of $kind files"
done

# The Python package, which is a package of its own, too.
if ls "$build"/python/_pipesim.*.so >/dev/null 2>&1; then
  "$cmake" --install "$build" --prefix "$prefix" --component python3-pipesim >"$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
  for file in pipesim/capture/command.py pipesim/commands.py pipesim/py.typed _pipesim.pyi; do
    [ -e "$prefix/lib/python3/dist-packages/$file" ] || fail "$file was not installed"
  done
  version=$(cd "$folder" && PYTHONPATH=$prefix/lib/python3/dist-packages PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -c \
    'import pipesim, _pipesim; assert pipesim.Model("lenet").parameters == 61706; assert pipesim.simulate.__module__ == "pipesim.commands"; print(_pipesim.version(), end="")' 2>"$folder/log") ||
    { cat "$folder/log" >&2; fail "the Python package"; }
  [ "$version" = "$("$program" --version)" ] || fail "the Python package is of another version: $version"
fi

# Libraries are found beside bin. The one for GPUs is a package of its own.
message=$("$program" execute --model lenet:batch=2 --topology cpu:1 --baseline single-device --backend cuda 2>&1)
case $message in
  *"libpipesim_cuda.so is not in $prefix/"*" or $prefix/lib/pipesim; "*) ;;
  *) fail "where libraries are looked for: $message" ;;
esac
for library in "$build"/libpipesim_*.so; do
  [ -e "$library" ] || continue
  name=$(basename "$library")
  [ "$name" = libpipesim_cuda.so ] || [ -s "$prefix/lib/pipesim/$name" ] ||
    fail "$name was not installed"
done
# MPI keeps what it allocates, which LeakSanitizer would tell.
if command -v mpirun >/dev/null && [ -e "$prefix/lib/pipesim/libpipesim_mpi.so" ]; then
  ASAN_OPTIONS=detect_leaks=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -np 2 "$program" execute \
    --model lenet:batch=2 --topology cpu:2 --baseline data-parallel --oversubscribe --no-realtime --steps 1 --warmup 0 \
    >"$folder/log" 2>&1 || { cat "$folder/log" >&2; fail "two processes"; }
fi
