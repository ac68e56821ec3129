#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <regex>
#include <set>

#include "sim/base/files.h"
#include "tests/golden/printed_commands.h"
#include "tests/golden/recorded_run.h"
#include "tests/temporary_folder.h"

// Commands are run for real and their output is compared with what was recorded. After a change that is
// meant:
//
//     PIPESIM_RECORD=1 build/release/golden_test
//
// writes expected.txt anew, a folder for each command of a document that has none yet, and the figures in
// what documents show.

namespace pipesim {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

const fs::path kRoot = PIPESIM_SOURCE_DIR;
const fs::path kGolden = kRoot / "tests" / "golden";
// Where the build writes the pages that the program prints.
const fs::path kBuiltDocs = PIPESIM_BUILT_DOCS;

bool recording() { return std::getenv("PIPESIM_RECORD") != nullptr; }

// Not docs/files.md, which shows files and goes on with them: tests/tools/cli/commands/files_page_test.cc
// runs it.
std::vector<fs::path> documents() {
  std::vector<fs::path> documents;
  for (const fs::path& folder : {kRoot / "docs", kBuiltDocs}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".md" && entry.path().filename() != "files.md")
        documents.push_back(entry.path());
    }
  }
  std::ranges::sort(documents);
  documents.insert(documents.begin(), kRoot / "README.md");
  return documents;
}

// "docs/gpu.md", and "docs/commands.md" wherever it was built.
std::string name_of(const fs::path& document) {
  const fs::path folder = document.parent_path() == kBuiltDocs ? kBuiltDocs.parent_path() : kRoot;
  return fs::relative(document, folder).string();
}

std::vector<PrintedCommand> commands_of(const std::vector<fs::path>& documents) {
  std::vector<PrintedCommand> commands;
  for (const fs::path& document : documents) {
    for (PrintedCommand& c : printed_commands(read_file(document), name_of(document)))
      commands.push_back(std::move(c));
  }
  return commands;
}

std::vector<PrintedCommand> all_printed_commands() { return commands_of(documents()); }

// What builds or takes the whole machine is run by other means.
bool is_for_another_test(const std::string& command) {
  static const std::regex kOthers(
      R"((\S*gpu-check|tools/(test|fuzz|package|scripts/[a-z-]+)|\.ci/run|cmake|cpack|apt|dpkg|sudo|bash|source|docker|git)\b.*)");
  return std::regex_match(command, kOthers);
}

// "search-model-nmt-topology-p100-4x4", with a number where another command has the name.
std::string name_for(const std::string& command) {
  constexpr std::size_t kLongest = 40;
  const std::string start = "pipesim ";
  std::string name;
  for (const char letter : command.substr(command.starts_with(start) ? start.size() : 0)) {
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0) {
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    } else if (!name.empty() && name.back() != '-') {
      if (name.size() >= kLongest) break;
      name += '-';
    }
  }
  while (name.ends_with('-')) name.pop_back();
  std::string free = name;
  for (int n = 2; fs::exists(kGolden / free); ++n) free = fmt::format("{}-{}", name, n);
  return free;
}

void check(const RecordedRun& run, const std::string& found) {
  const fs::path expected = run.folder / "expected.txt", fresh = run.folder / "expected.new.txt";
  if (!run.matches.empty() || (!run.expected && !run.needs.empty())) {
    EXPECT_EQ(found.find("--- exit status"), std::string::npos) << found;
    EXPECT_EQ(unmatched(found, run.matches), "") << found;
  } else if (recording()) {
    if (!run.expected || settled(found) != settled(*run.expected)) write_file(expected, found);
    fs::remove(fresh);
  } else {
    ASSERT_TRUE(run.expected) << run.folder << " has no expected.txt";
    if (settled(found) != settled(*run.expected)) write_file(fresh, found);
    EXPECT_EQ(settled(found), settled(*run.expected)) << "compare " << expected << "\nwith    " << fresh;
  }
}

// The first thing that is missing here, or "".
std::string missing_need(const RecordedRun& run) {
  for (const std::string& need : run.needs) {
    if (!has(need)) return need;
  }
  return "";
}

// Every line that the document shows comes in the output, in the same order.
void check_shown(const PrintedCommand& printed, const std::string& found) {
  std::istringstream lines(settled(found));
  std::string line;
  for (const std::string& raw : printed.shown) {
    std::string shown = settled(raw);
    while (shown.ends_with(' ')) shown.pop_back();
    bool met = false;
    while (!met && std::getline(lines, line)) {
      while (line.ends_with(' ')) line.pop_back();
      met = line == shown;
    }
    EXPECT_TRUE(met) << printed.document << " shows this line, which the command does not print there:\n"
                     << raw;
    if (!met) return;
  }
}

// Writes what the document shows with the figures of the output.
void renew_shown(const PrintedCommand& printed, const std::string& found) {
  const fs::path document = kRoot / printed.document;
  const std::string text = read_file(document);
  const RenewedText renewed = with_shown_lines(text, printed, found);
  EXPECT_THAT(renewed.missing, IsEmpty()) << printed.document << " shows what the command prints no more";
  if (renewed.text != text) write_file(document, renewed.text);
}

// Commands may go on with files that those above them wrote. Those of the reference go on with files of two
// other documents as well.
std::vector<std::vector<fs::path>> documents_that_go_together() {
  std::vector<std::vector<fs::path>> groups{
      {kRoot / "README.md", kRoot / "docs/calibration.md", kBuiltDocs / "commands.md"}};
  for (const fs::path& document : documents()) {
    if (std::ranges::find(groups.front(), document) == groups.front().end()) groups.push_back({document});
  }
  return groups;
}

class Documents : public testing::TestWithParam<std::vector<fs::path>> {};

TEST_P(Documents, PrintWhatTheirCommandsPrint) {
  const TemporaryFolder folder;
  fs::create_directory_symlink(kRoot / "docs", folder.path("docs"));
  std::map<std::string, RecordedRun> runs;
  for (RecordedRun& run : recorded_runs(kGolden)) runs.emplace(run.command, std::move(run));
  std::set<std::string> done;
  for (const PrintedCommand& printed : commands_of(GetParam())) {
    if (is_for_another_test(printed.command) || (printed.shown.empty() && done.contains(printed.command)))
      continue;
    SCOPED_TRACE(fmt::format("{}:{}: {}", printed.document, printed.line, printed.command));
    auto run = runs.find(printed.command);
    if (run == runs.end()) {
      if (!recording()) {
        ADD_FAILURE() << "no folder of " << kGolden << " has this command; PIPESIM_RECORD=1 makes one";
        continue;
      }
      const fs::path made = kGolden / name_for(printed.command);
      fs::create_directories(made);
      write_file(made / "cmd", printed.command + "\n");
      run = runs.emplace(printed.command, RecordedRun{made, printed.command, std::nullopt, {}, {}}).first;
    }
    if (const std::string need = missing_need(run->second); !need.empty()) {
      std::cout << fmt::format("skipped, needs {}: {}\n", need, printed.command);
      continue;
    }
    const std::string found = output_of(printed.command, folder.path(), PIPESIM_PROGRAM);
    EXPECT_EQ(found.find("--- exit status"), std::string::npos) << "a document prints what fails:\n" << found;
    if (done.insert(printed.command).second) check(run->second, found);
    if (!recording()) {
      check_shown(printed, found);
    } else if (!printed.shown.empty()) {
      renew_shown(printed, found);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Documents, testing::ValuesIn(documents_that_go_together()),
                         [](const auto& group) {
                           std::string name =
                               fs::path(name_of(group.param.back())).replace_extension().string();
                           std::ranges::replace_if(
                               name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; },
                               '_');
                           return name;
                         });

// Files that printed commands write into a clone don't show up in `git status`.
TEST(Golden, GitIgnoresWhatPrintedCommandsWrite) {
  if (std::system(fmt::format("git -C '{}' rev-parse >/dev/null 2>&1", kRoot.string()).c_str()) != 0)
    GTEST_SKIP() << "this is not a clone, or git is not installed";
  const std::regex writes(
      R"((?:-o|--output|--trace|--dot|--checkpoint|--search-log|--flexflow|--onnx) (\S+)|> (\S+))");
  std::set<std::string> files;
  for (const PrintedCommand& printed : all_printed_commands()) {
    if (is_for_another_test(printed.command)) continue;
    for (std::sregex_iterator m(printed.command.begin(), printed.command.end(), writes), end; m != end; ++m)
      files.insert((*m)[1].matched ? (*m)[1] : (*m)[2]);
  }
  EXPECT_FALSE(files.empty());
  for (const std::string& file : files) {
    EXPECT_EQ(std::system(fmt::format("cd '{}' && git check-ignore -q '{}'", kRoot.string(), file).c_str()),
              0)
        << file << " is not ignored";
  }
}

// Recorded runs that no document prints.
TEST(Golden, OtherCommandsPrintWhatTheyDid) {
  std::set<std::string> printed;
  for (const PrintedCommand& c : all_printed_commands()) printed.insert(c.command);
  for (const RecordedRun& run : recorded_runs(kGolden)) {
    if (printed.contains(run.command)) continue;
    SCOPED_TRACE(run.command);
    if (!missing_need(run).empty()) continue;
    const TemporaryFolder folder;
    fs::create_directory_symlink(kRoot / "docs", folder.path("docs"));
    check(run, output_of(run.command, folder.path(), PIPESIM_PROGRAM));
  }
}

TEST(PrintedCommands, AreThoseOfBlocksAndSentences) {
  const std::string text =
      "Try `pipesim models` or `tools/pipesim help COMMAND`, or `pipesim a|b`.\n"
      "```sh\n"
      "tools/pipesim search --model lenet \\\n"
      "  -o a.json   # finds one\n"
      "\n"
      "tools/test\n"
      "```\n"
      "```text\n"
      "first\n"
      "  …\n"
      "last\n"
      "```\n"
      "```json\n"
      "tools/pipesim none\n"
      "```\n";
  EXPECT_THAT(printed_commands(text, "a.md"),
              ElementsAre(PrintedCommand{"a.md", 1, "pipesim models", {}},
                          PrintedCommand{"a.md", 3, "pipesim search --model lenet   -o a.json", {}},
                          PrintedCommand{"a.md", 6, "tools/test", {"first", "last"}}));
}

TEST(PrintedCommands, ShowWhatIsPrintedNow) {
  const std::string text =
      "```sh\npipesim a\n```\n```text\n  time  1.5 s\n…\n  time  9 s\nGone for good\n```\n  time  1.5 s\n";
  const PrintedCommand printed = printed_commands(text, "a.md").front();
  const RenewedText renewed = with_shown_lines(text, printed, "head\n  time   12.25 s  \n  time  3 s\n");
  EXPECT_EQ(renewed.text,
            "```sh\npipesim a\n```\n```text\n  time   12.25 s\n…\n  time  3 s\nGone for good\n```\n  time  "
            "1.5 s\n");
  EXPECT_THAT(renewed.missing, ElementsAre("Gone for good"));
  const RenewedText same =
      with_shown_lines(text, printed, "  time  7 s\n  time  1.5 s\n  time  9 s\nGone for good\n");
  EXPECT_EQ(same.text, text);
  EXPECT_THAT(same.missing, IsEmpty());
}

TEST(Settled, TakesOutWhatVaries) {
  EXPECT_EQ(settled("12 proposals, 390 a second, 30.6 s\n"), "12 proposals, ~\n");
  EXPECT_EQ(settled("planned by auto in 3.1 ms, a   12 ms\n"), "~, a   12 ms\n");
  EXPECT_EQ(settled("a\n   0      0.4 s\nb\n"), "a\n~\nb\n");
  EXPECT_EQ(settled("a\n--- stderr\npipesim: 3 of 6 points, about 4 s left\npipesim: 6 of 6 points\n"),
            "a\n");
  EXPECT_EQ(settled("a\n--- stderr\npipesim: looking for crossovers, 4 more points predicted\n"), "a\n");
  EXPECT_EQ(settled("a\n--- stderr\npipesim: 830 proposals, 210/s\npipesim: 990 proposals, 2/s\n"), "a\n");
  EXPECT_EQ(settled("a\n--- stderr\npipesim: fitting to 20 runs, simulated 40 times\n"), "a\n");
  EXPECT_EQ(settled("a\n--- stderr\npipesim: t.csv: 9 of at most 12 runs predicted\n"), "a\n");
  EXPECT_EQ(settled("a\n--- stderr\nb\n"), "a\n--- stderr\nb\n");
  EXPECT_EQ(settled("a line of a document"), "a line of a document");
  const std::string curve = " 1 us ┤┄╰──  best 1 us\n   └──\n   ┤╮\n";
  EXPECT_EQ(settled("time, by wall time\n" + curve),
            "time, by wall time\n 1 us ┤~best 1 us\n   └──\n   ┤╮\n");
  EXPECT_EQ(settled("time, by proposals\n" + curve), "time, by proposals\n" + curve);
}

TEST(Unmatched, IsTheFirstExpressionWithoutALineInOrder) {
  EXPECT_EQ(unmatched("a 1\nb 2\nc 3\n", {"a \\d", "c \\d"}), "");
  EXPECT_EQ(unmatched("a 1\nb 2\nc 3\n", {"c \\d", "a \\d"}), "a \\d");
  EXPECT_EQ(unmatched("a 12\n", {"a \\d"}), "a \\d");
}

TEST(RecordedRuns, SayWhatRanAndHowItEnded) {
  const TemporaryFolder folder;
  EXPECT_EQ(output_of("echo out; echo err >&2; exit 3", folder.path(), "/bin/true"),
            "out\n--- stderr\nerr\n--- exit status 3\n");
  EXPECT_EQ(output_of("tools/pipesim && pipesim", folder.path(), "/bin/true"), "");
}

}  // namespace
}  // namespace pipesim
