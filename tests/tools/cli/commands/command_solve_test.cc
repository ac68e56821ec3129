#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "sim/base/files.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// A strategy that is cheap and large, and one that is dear and small; both large ones don't fit.
std::string solvable(const TemporaryFolder& folder, const std::string& limit = "15") {
  std::string file = folder.path("two.json");
  write_file(file, R"({"problem": {"nodes": {"intervals": [[0, 5], [3, 9]], "costs": [[1, 4], [2, 7]],)"
                   R"( "usages": [[10, 5], [10, 4]]}, "edges": {"nodes": [[0, 1]], "costs": [[0, 1, 2, 3]]},)"
                   R"( "usage_limit": )" +
                       limit + "}}");
  return file;
}

TEST(SolveCommand, PrintsATable) {
  const TemporaryFolder folder;
  const std::string file = solvable(folder);
  const Outcome outcome = pipesim_run({"solve", file, "--rounds", "9"});
  EXPECT_EQ(outcome.status, 0) << outcome;
  // Large first, small second: 1 + 7 + 1. Small first, large second: 4 + 2 + 2.
  EXPECT_THAT(outcome.out,
              AllOf(StartsWith("instance  nodes  edges  nodes left  best  bound      gap  seconds\n"),
                    HasSubstr("\ntwo.json      2      1 "), HasSubstr("8      8  optimal")));
  const Outcome markdown = pipesim_run({"solve", file, file, "--rounds", "9", "--markdown"});
  EXPECT_EQ(markdown.status, 0) << markdown;
  EXPECT_THAT(markdown.out, AllOf(HasSubstr("|---|--:|"), HasSubstr(" | 8 | 8 | optimal | ")));
}

TEST(SolveCommand, TakesAFolder) {
  const TemporaryFolder folder;
  const Outcome none = pipesim_run({"solve", folder.path(".")});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("no instances in this folder, allowed: files that end in .json"));
  const std::string file = solvable(folder);
  write_file(folder.path("one.json"), read_file(file));
  write_file(folder.path("one.answer.json"), "[1, 0]");
  const Outcome outcome = pipesim_run({"solve", folder.path("."), "--rounds", "9", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome;
  const nlohmann::json json = nlohmann::json::parse(outcome.out)["instances"];
  ASSERT_EQ(json.size(), 2U);
  EXPECT_THAT(json[0]["file"].get<std::string>(), EndsWith("one.json"));
  EXPECT_THAT(json[1]["file"].get<std::string>(), EndsWith("two.json"));
}

TEST(SolveCommand, PrintsJson) {
  const TemporaryFolder folder;
  const Outcome outcome = pipesim_run({"solve", solvable(folder), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome;
  const nlohmann::json json = nlohmann::json::parse(outcome.out)["instances"][0];
  EXPECT_EQ(json["cost"], 8);
  EXPECT_EQ(json["bound"], 8);
  EXPECT_EQ(json["proven"], true);
  EXPECT_EQ(json["gap"], 0);
}

TEST(SolveCommand, WritesAnAnswerAndChecksIt) {
  const TemporaryFolder folder;
  const std::string file = solvable(folder), answer = folder.path("two.answer.json");
  ASSERT_EQ(pipesim_run({"solve", file, "-o", answer}).status, 0);
  EXPECT_EQ(read_file(answer), "{\"cost\": \"8\", \"strategies\": [1, 0]}\n");
  const Outcome checked = pipesim_run({"solve", file, "--check", answer});
  EXPECT_EQ(checked, (Outcome{0, "allowed; cost 8; at most 15 of 15 used, at time 3\n", ""}));
  write_file(answer, "[0, 0]");
  const Outcome broken = pipesim_run({"solve", file, "--check", answer});
  EXPECT_EQ(broken.status, 1);
  EXPECT_EQ(broken.err, "pipesim: " + answer + ": at time 3 the usage is 20, 5 over the limit 15\n");
  const Outcome json = pipesim_run({"solve", file, "--check", answer, "--json"});
  EXPECT_EQ(json.status, 1);
  EXPECT_EQ(nlohmann::json::parse(json.out)["allowed"], false);
  EXPECT_EQ(nlohmann::json::parse(json.out)["cost"], 3);
}

TEST(SolveCommand, SaysWhyThereIsNoAnswer) {
  const TemporaryFolder folder;
  const std::string file = solvable(folder, "8");
  const Outcome none = pipesim_run({"solve", file});
  EXPECT_EQ(none.status, 1);
  EXPECT_EQ(none.err, "pipesim: " + file +
                          ": at time 3 the usage is at least 9, 1 over the limit 8, whatever is chosen\n");
  std::string text = read_file(solvable(folder));
  text.replace(text.find("[0, 1, 2, 3]"), 12, "[1e18, 1e18, 1e18, 1e18]");
  write_file(file, text);
  EXPECT_EQ(
      pipesim_run({"solve", file}).err,
      "pipesim: " + file + ": no answer keeps to what is forbidden and to the limit 15: this is proven\n");
}

TEST(SolveCommand, RefusesWhatDoesNotGoTogether) {
  const TemporaryFolder folder;
  const std::string file = solvable(folder);
  const Outcome two = pipesim_run({"solve", file, file, "-o", folder.path("a.json")});
  EXPECT_EQ(two.status, 2);
  EXPECT_THAT(two.err, HasSubstr("--output goes with one file; found 2"));
  EXPECT_THAT(pipesim_run({"solve", folder.path("none.json")}).err, EndsWith("none.json: can't be read\n"));
  EXPECT_THAT(pipesim_run({"solve", folder.path(""), "--check", file}).err,
              HasSubstr("is a directory, allowed: an instance"));
  write_file(file, "\x1f\x8b and no more");
  EXPECT_THAT(pipesim_run({"solve", file}).err, HasSubstr("the compressed data is damaged"));
}

}  // namespace
}  // namespace pipesim
