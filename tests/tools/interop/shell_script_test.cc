#include "tools/interop/shell/shell_script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "sim/base/files.h"
#include "tests/refusal.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

using testing::ElementsAre;

// The commands that get a word with two dashes, one in a line; a bar stands between words.
std::string commands_of(const std::string& text, const std::string& source = "run.sh") {
  std::string result;
  for (const std::vector<ShellWord>& command : read_shell_script(text, source).commands) {
    std::vector<std::string> words;
    for (const ShellWord& word : command) words.push_back(word.text);
    result += fmt::format("{}\n", fmt::join(words, "|"));
  }
  return result;
}

TEST(ShellScript, ReadsWordsQuotesAndComments) {
  EXPECT_EQ(commands_of("go --a 'b c' \"d e\" f\\ g # h\n"), "go|--a|b c|d e|f g\n");
  EXPECT_EQ(commands_of("go --a \\\n  b\\\nc; go --d\n"), "go|--a|bc\ngo|--d\n");
  EXPECT_EQ(commands_of("# it's a comment\ngo --a x#y 'it''s' \"a 'b'\"\n"), "go|--a|x#y|its|a 'b'\n");
  EXPECT_EQ(commands_of("go --a \"b\nc\" $'d'\n"), "go|--a|b\nc|d\n");
}

TEST(ShellScript, KnowsWhereWordsStand) {
  const ShellScript script = read_shell_script("A=\"\n  --x 1\n  --y 2\"\n\ngo $A \\\n  --z\n", "run.sh");
  ASSERT_EQ(script.commands.size(), 1);
  std::vector<std::string> places;
  for (const ShellWord& word : script.commands[0])
    places.push_back(fmt::format("{} {}:{}", word.text, word.file, word.line));
  EXPECT_THAT(places, ElementsAre("go run.sh:5", "--x run.sh:2", "1 run.sh:2", "--y run.sh:3", "2 run.sh:3",
                                  "--z run.sh:6"));
}

TEST(ShellScript, ReplacesVariables) {
  EXPECT_EQ(commands_of("N=4; M=${N}0; go --a $N ${M} '$N' \"$N $M\" \\$N\n"), "go|--a|4|40|$N|4 40|$N\n");
  EXPECT_EQ(commands_of("A='x  y'; go --a $A \"$A\"\n"), "go|--a|x|y|x  y\n");
  EXPECT_EQ(
      commands_of("E=; go --a $E \"$E\" ${E:-3} ${E-4} ${F:-\"5 6\"} \"${G:-\"7\"}\" ${H:=8} $H ${H:+9}\n"),
      "go|--a||3|5 6|7|8|8|9\n");
  EXPECT_EQ(
      commands_of("P=a/b.tar.gz; go --a ${P##*/} ${P%.*} ${P%%.*} ${P#*/} ${P/b/c} ${P:2:1} ${#P} ${P^^}\n"),
      "go|--a|b.tar.gz|a/b.tar|a/b|b.tar.gz|a/c.tar.gz|b|10|A/B.TAR.GZ\n");
  EXPECT_EQ(commands_of("A=1; B=A; go --a ${!B}; A+=2; go --b $A\n"), "go|--a|1\ngo|--b|12\n");
}

TEST(ShellScript, LeavesVariablesThatNoFileSets) {
  EXPECT_EQ(commands_of("go --a $X ${Y} $(date +%s) \"$Z/b\" $(($X*2)) \"$@\" `hostname`\n"),
            "go|--a|$X|${Y}|$(date +%s)|$Z/b|$(($X*2))|`hostname`\n");
}

TEST(ShellScript, ComputesSums) {
  EXPECT_EQ(commands_of("N=8; go --a $((N*2+1)) $(( $N / 3 )) $((2**10 % 7)) $((N > 4 ? 1 : 2)) $((-N))\n"),
            "go|--a|17|2|2|1|-8\n");
  EXPECT_EQ(commands_of("((N = 3, N += 4)); let M=N*2; go --a $N $M $((N++)) $N $((0x10)) $((010))\n"),
            "go|--a|7|14|7|8|16|8\n");
  EXPECT_EQ(commands_of("go --a $((1/0)) $((9223372036854775807+1)) $((1 +))\n"),
            "go|--a|$((1/0))|$((9223372036854775807+1))|$((1 +))\n");
}

TEST(ShellScript, ReadsLists) {
  EXPECT_EQ(
      commands_of("A=(--x 1 # one\n  --y \"2 3\")\nA+=(--z)\ngo \"${A[@]}\" ${#A[@]} ${A[1]} ${A[*]}\n"),
      "go|--x|1|--y|2 3|--z|5|1|--x|1|--y|2|3|--z\n");
  EXPECT_EQ(commands_of("A=(); go --a \"${A[@]}\" b; B[2]=x; go --c ${B[2]}\n"), "go|--a|b\ngo|--c|x\n");
  EXPECT_EQ(commands_of("declare -A M=([tp]=4 [pp]=2); M[dp]=8; K=tp; go --a ${M[$K]} ${M[dp]}\n"),
            "go|--a|4|8\n");
}

TEST(ShellScript, FollowsConditions) {
  EXPECT_EQ(
      commands_of(
          "N=4\nif [ $N -gt 8 ]; then A=big; elif [[ $N == 4 && ! $N < 1 ]]; then A=four\nelse A=small; fi\n"
          "go --a $A\n"),
      "go|--a|four\n");
  EXPECT_EQ(commands_of("Z=\"true\"; [ \"${Z}\" = \"true\" ] && go --a || go --b\n[ -z \"$Z\" ] || go --c\n"),
            "go|--a\ngo|--c\n");
  EXPECT_EQ(commands_of("case 7b in 1b) go --a ;; 7* | 8b) go --b ;; *) go --c ;; esac\n"), "go|--b\n");
  EXPECT_EQ(commands_of("if ((2 > 1)); then go --a; fi; if ! false; then go --b; fi\n"), "go|--a\ngo|--b\n");
}

TEST(ShellScript, TellsConditionsThatNeedMoreThanFiles) {
  const auto notes = [](const std::string& text) { return read_shell_script(text, "run.sh").notes; };
  EXPECT_THAT(notes("if [ -n \"$MORE\" ]; then\n  A=--x\nfi\n"),
              ElementsAre("run.sh:1: MORE is not set here, and taken as empty in a condition"));
  EXPECT_THAT(notes("\nif grep -q x y; then A=--x; fi\n"),
              ElementsAre("run.sh:2: a condition is not known here, and taken as false"));
  EXPECT_THAT(notes("[ -n \"$MORE\" ] && A=--x\n"),
              ElementsAre("run.sh:1: MORE is not set here, and taken as empty in a condition"));
  EXPECT_THAT(notes("if [ ! -f data.bin ]; then wget data; fi\nmkdir x || exit 1\n"), ElementsAre());
}

TEST(ShellScript, KnowsWhatProgramsSee) {
  using Exported = std::map<std::string, std::string>;
  const auto exported = [](const std::string& text) { return read_shell_script(text, "run.sh").exported; };
  EXPECT_EQ(exported("A=1\nexport B=2 C=$A\ngo --a\n"), (Exported{{"B", "2"}, {"C", "1"}}));
  EXPECT_EQ(exported("A=1\nexport A\nA=3\ngo --a\n"), (Exported{{"A", "3"}}));
  EXPECT_EQ(exported("declare -x A=1\nB=2 go --a\n"), (Exported{{"A", "1"}, {"B", "2"}}));
  EXPECT_EQ(exported("export A=1\nunset A\ngo --a\n"), Exported{});
}

TEST(ShellScript, FollowsLoopsAndFunctions) {
  EXPECT_EQ(commands_of("for i in 1 {4..5}; do go --a $i; done\n"), "go|--a|1\ngo|--a|4\ngo|--a|5\n");
  EXPECT_EQ(commands_of("for ((i = 0; i < 2; i++)); do go --a $i; done\n"), "go|--a|0\ngo|--a|1\n");
  EXPECT_EQ(
      commands_of("i=3; while [ $i -gt 1 ]; do go --a $i; i=$((i-1)); done; until true; do go --b; done\n"),
      "go|--a|3\ngo|--a|2\n");
  EXPECT_EQ(commands_of(
                "f() { local x=$1; go --a $x $# ${2:-n}; }\nx=0; f 7 8; function g { f 9; }; g; go --x $x\n"),
            "go|--a|7|2|8\ngo|--a|9|1|n\ngo|--x|0\n");
  EXPECT_EQ(commands_of("(A=2; go --a $A); go --b ${A:-none}; exit; go --c\n"), "go|--a|2\ngo|--b|none\n");
}

TEST(ShellScript, FollowsCommandsInText) {
  EXPECT_EQ(commands_of("C=\"go --a 'b c'\"; eval $C; bash -c \"run.py --x \\$HOST | tee log\"\n"),
            "go|--a|b c\nrun.py|--x|$HOST\n");
  EXPECT_EQ(
      commands_of(
          "L='python -m launch'; P=' t.py --y 1 '; srun --jobid 3 bash -c \"$L --node 0 $P\" 2>&1 | tee a\n"),
      "python|-m|launch|--node|0|t.py|--y|1\n");
  EXPECT_EQ(
      commands_of("go --a $(dirname a/b.sh) $(basename a/b.sh .sh) $(echo x y) $(expr 2 + 3) `echo 4`\n"),
      "go|--a|a|b|x|y|5|4\n");
}

TEST(ShellScript, KeepsFilesThatItWrites) {
  const ShellScript script = read_shell_script(
      "S=1\ncat <<EOT > c.$S.json\n{\"stage\": $S, \"x\": \"${S}\"}\nEOT\ncat > d <<'E'\n$S\nE\necho more >> "
      "d\n",
      "run.sh");
  EXPECT_EQ(script.written.at("c.1.json"), "{\"stage\": 1, \"x\": \"1\"}\n");
  EXPECT_EQ(script.written.at("d"), "$S\nmore\n");
}

TEST(ShellScript, AsksItsMachineForDevices) {
  const std::string text =
      "N=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)\nA=$(($(ds_ssh nvidia-smi | wc "
      "-l)-2))\n"
      "go --a $N $A\n";
  const ShellScript script = read_shell_script(text, "run.sh", {16, 8});
  ASSERT_EQ(script.commands.size(), 1);
  std::vector<std::string> words;
  for (const ShellWord& word : script.commands[0]) words.push_back(word.text);
  EXPECT_THAT(words, ElementsAre("go", "--a", "8", "16"));
}

TEST(ShellScript, ReadsDirectivesOfSlurm) {
  EXPECT_EQ(commands_of("#!/bin/bash\n#SBATCH --nodes=24   # all\n#SBATCH -N 3\ngo --a $SLURM_NNODES\n"),
            "go|--a|3\n");
}

// Files beside a script, and in folders above.
class ShellFiles : public testing::Test {
 protected:
  ShellFiles() {
    std::filesystem::create_directories(folder_ / "inner");
    write_file(folder_ / "common.sh", "TP=8\nMORE=\"--b $TP\"\n");
    write_file(folder_ / "inner" / "args", "--c 3\n--d 4\n");
    write_file(folder_ / "inner" / "train.sh", "go --e $1 $#\n");
  }
  ~ShellFiles() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) / "shell_files";
};

TEST_F(ShellFiles, AreSourcedPrintedAndStarted) {
  const std::string source = (folder_ / "inner" / "run.sh").string();
  EXPECT_EQ(commands_of("source common.sh\nhere=$(dirname \"$0\")\ngo --a $TP $MORE $(cat \"$here/args\")\n",
                        source),
            "go|--a|8|--b|8|--c|3|--d|4\n");
  EXPECT_EQ(
      commands_of("DIR=$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\n. $DIR/../common.sh\ngo --a $TP\n",
                  source),
      "go|--a|8\n");
  EXPECT_EQ(commands_of("bash train.sh 7\n. $ROOT/common.sh\ngo --a $TP\n", source),
            "go|--e|7|1\ngo|--a|8\n");
  const ShellScript script = read_shell_script("\n. other.sh\ngo --a\n", source);
  EXPECT_THAT(script.notes,
              ElementsAre(source + ":2: \"other.sh\" is not there, so what it sets is not known"));
  EXPECT_THAT(script.missing, ElementsAre("other.sh"));
}

TEST(ShellScript, RefusesWhatIsOpen) {
  const auto refused = [](const std::string& text) {
    return refusal([&] { read_shell_script(text, "run.sh"); });
  };
  EXPECT_EQ(refused("go \"a\n\nb"), "run.sh:1: a quote is not closed");
  EXPECT_EQ(refused("\ngo $(a"), "run.sh:2: a parenthesis or brace is not closed");
  EXPECT_EQ(refused("\nif true; then go\n"), "run.sh:2: \"if\" has no \"fi\"");
  EXPECT_EQ(refused("for i in 1 2; go; done\n"), "run.sh:1: \"for\" has no \"do\"");
  EXPECT_EQ(refused("case x in\n a) go\n"), "run.sh:1: \"case\" has no \"esac\"");
  EXPECT_EQ(refused("go\n)"), "run.sh:2: \")\" closes nothing");
  EXPECT_EQ(refused("f() { f; }; f\n"), "run.sh:1: functions within each other, allowed: 50");
  EXPECT_EQ(refused("A=x; for i in {1..40}; do A=$A$A; done\n"),
            "run.sh:1: a text of more than 1048576 characters");
}

// Whatever stands in a script, it is read or refused.
TEST(ShellScript, ReadsOrRefusesAnything) {
  const std::vector<std::string> parts{
      "go",    "--a",    "if",         "then",     "else",  "elif",   "fi",  "for",  "in",     "do",
      "done",  "while",  "case",       "x)",       ";;",    "esac",   "{",   "}",    "(",      ")",
      "((",    "))",     "[[",         "]]",       "[",     "]",      "&&",  "||",   "|",      "&",
      ";",     "\n",     "\"",         "'",        "`",     "$(",     "$((", "${",   "$x",     "x=",
      "x+=",   "x=(",    "${x:-2}",    "${x[@]}",  "${#x}", "f()",    "f",   "eval", "<<E\n",  "E\n",
      "> y",   "\\",     "1",          "+",        "*",     "#",      "!",   "-gt",  "=",      "==",
      "local", "export", "declare -A", "shift",    "$'",    "{1..3}", "cd",  "echo", "source", "bash -c",
      "exit",  "return", "break",      "continue", "unset", "read",   "cat"};
  int read = 0;
  for_each_seed(3000, [&](Rng& rng) {
    std::string text;
    for (std::uint64_t i = rng.below(30); i > 0; --i)
      text += parts[rng.below(parts.size())] + (rng.below(6) == 0 ? "" : " ");
    const std::string refused = refusal([&] { read_shell_script(text, "run.sh"); });
    if (refused == "accepted") ++read;
  });
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace pipesim
