#!/usr/bin/env bash
# completion.sh PROGRAM: completes command lines as bash does. zsh and fish, where they are installed, read their
# scripts, and fish completes by its own.
set -u
export LC_ALL=C
program=$(readlink -f "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
touch plan.json model.txt

fail() {
  echo "$*" >&2
  exit 1
}

"$program" help --completion bash >bash.sh || fail "no script for bash"
bash -n bash.sh || fail "bash can't read its script"
# shellcheck source=/dev/null
source ./bash.sh
[[ $(complete -p pipesim) == "complete -F _pipesim pipesim" ]] || fail "got: $(complete -p pipesim)"

# What bash is asked beside the words, outside of a completion.
asked=
compopt() { asked+="$* "; }

# completed WORD…: what is proposed for the last of them.
completed() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=() asked=
  _pipesim
}

check() {
  local expected=$1 got
  shift
  completed "$@"
  got=$(printf '%s\n' "${COMPREPLY[@]}" | sort | paste -sd' ')
  [[ $got == "$expected" ]] || fail "pipesim ${*:2}: expected \"$expected\", got \"$got\""
}

check "search" pipesim se
check "--help" pipesim --h
check "--threads" pipesim search --thr
check "dapple data-parallel" pipesim search --algorithm da
check "dapple data-parallel" pipesim search --model lenet --algorithm = da
check "alpa auto dapple data-parallel exhaustive expert gpipe intra mcmc model-parallel pipedream recipes single-device" \
  pipesim search --algorithm =
check "vgg16 vgg19" pipesim search --model vgg
check "model.txt" pipesim search --model mod
[[ $asked == "-o filenames " ]] || fail "files were asked for as: $asked"
check "plan.json" pipesim simulate --plan pl
check "plan.json" pipesim search -o pl
check "cpu:" pipesim execute --topology cp
[[ $asked == "-o nospace " ]] || fail "cpu: was asked for as: $asked"
check "zb-h1 zb-h2" pipesim simulate --schedule zb-h
check "simulate" pipesim help sim
check "topology" pipesim import topo
check "bash" pipesim help --completion b
check "" pipesim search --seconds ""
check "" pipesim nosuchcommand --s

# Every option that help shows is proposed.
for command in $("$program" help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
  options=$("$program" "$command" --help-all | sed -nE 's/^  (-[a-z], )?(--[a-z0-9-]+).*/\2/p' | sort -u | paste -sd' ')
  [[ $options == *--help* ]] || fail "no options of $command"
  check "$options" pipesim "$command" --
done

if command -v zsh >/dev/null; then
  "$program" help --completion zsh >_pipesim
  zsh -n _pipesim || fail "zsh can't read its script"
  got=$(zsh -fc 'autoload -Uz compinit && compinit -u -d ./dump && source ./_pipesim && echo $_comps[pipesim]')
  [[ $got == _pipesim ]] || fail "zsh completes pipesim by \"$got\""
fi

if command -v fish >/dev/null; then
  "$program" help --completion fish >pipesim.fish
  fish -n pipesim.fish || fail "fish can't read its script"
  got=$(HOME=$folder fish -c 'source pipesim.fish; complete -C "pipesim search --algorithm da"' | cut -f1 | sort | paste -sd' ')
  [[ $got == "dapple data-parallel" ]] || fail "fish proposes \"$got\""
fi
