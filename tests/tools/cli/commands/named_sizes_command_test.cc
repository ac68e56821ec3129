#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tests/refusal.h"
#include "tests/tools/command_line.h"
#include "tests/tools/two_layers.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/cli/base/command.h"

namespace pipesim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const char* const kNamed = R"({
  "pipesim_model": 1,
  "name": "mlp", "sizes": {"b": 64, "h": 512}, "batch": "b",
  "inputs": [{"name": "x", "shape": ["b", 784]}, {"name": "labels", "shape": ["b"], "dtype": "int64"}],
  "operators": [
    {"name": "fc1", "kind": "linear", "inputs": ["x"], "out": "h"},
    {"name": "fc2", "kind": "linear", "inputs": ["fc1"], "out": 10},
    {"name": "loss", "kind": "cross_entropy", "inputs": ["fc2", "labels"]}
  ]
})";

std::string refused_settings(const std::string& model, const std::vector<std::string>& settings) {
  return refusal<UsageError>([&] { with_settings(model, settings); });
}

TEST(WithSettings, StandBehindTheModelsName) {
  const TemporaryFolder folder;
  const std::string file = folder.file("mlp.json", kNamed), plain = folder.file("mlp", kNamed);
  EXPECT_EQ(with_settings("gpt", {"layers=12"}), "gpt:layers=12");
  EXPECT_EQ(with_settings("gpt:layers=12", {"batch=8", "dtype=bfloat16"}),
            "gpt:layers=12,batch=8,dtype=bfloat16");
  EXPECT_EQ(with_settings("gpt:layers=12", {"layers=12,batch=8"}), "gpt:layers=12,batch=8");
  EXPECT_EQ(with_settings(file, {"b=32", "h=8"}), file + ":b=32,h=8");
  EXPECT_EQ(with_settings(plain, {"b=32"}), plain + ":b=32");
  EXPECT_EQ(open_model(plain + ":b=32").batch(), 32);
  EXPECT_EQ(with_settings("graph.txt", {"batch=32"}), "graph.txt:batch=32");
  EXPECT_EQ(with_settings("gpt", {}), "gpt");
}

TEST(WithSettings, RefusesContradictions) {
  EXPECT_EQ(refused_settings("gpt:batch=8", {"batch=4"}),
            "--set batch=4: model \"gpt:batch=8\" says batch=8; leave one of them out");
  EXPECT_EQ(refused_settings("gpt", {"batch=4", "batch=8"}),
            "--set says batch=4 and batch=8; leave one of them out");
  EXPECT_EQ(refused_settings("gpt:batch=8", {"batch=8"}), "accepted");
  EXPECT_EQ(refused_settings("gpt", {"batch"}), "--set needs KEY=VALUE, not \"batch\"");
  EXPECT_EQ(refused_settings("gpt", {"=4"}), "--set needs KEY=VALUE, not \"=4\"");
  EXPECT_EQ(refused_settings("gpt", {""}), "--set needs KEY=VALUE, not \"\"");
}

TEST(OpenModel, BindsSizesOfAFile) {
  const TemporaryFolder folder;
  const std::string file = folder.file("mlp.json", kNamed);
  EXPECT_EQ(open_model(file).batch(), 64);
  EXPECT_EQ(open_model(file + ":b=32").name(), "mlp:b=32");
  EXPECT_EQ(open_model(file + ":h=8").parameter_count(), 784 * 8 + 8 + 80 + 10);
  const auto refused = [&](const std::string& text) { return refusal([&] { open_model(file + text); }); };
  EXPECT_EQ(refused(":n=3"), file + ": unknown size \"n\"; it has b=64, h=512");
  EXPECT_EQ(refused(":b=3x"), "model \"" + file +
                                  ":b=3x\": found \"b=3x\" after the file, allowed: size=N, N from 1 to "
                                  "2147483647");
  EXPECT_EQ(refused(":b=3,b=4"), "model \"" + file + ":b=3,b=4\": b is given twice");
  EXPECT_EQ(refused(":"), "model \"" + file + ":\": expected size=N after the colon");
}

TEST(WithBatch, SetsTheSizeThatCountsSamples) {
  const TemporaryFolder folder;
  const std::string file = folder.file("mlp.json", kNamed), fixed = folder.file("fixed.json", kTwoLayers);
  EXPECT_EQ(with_batch(file, 16), file + ":b=16");
  EXPECT_EQ(with_batch(file + ":h=8,b=4", 16), file + ":h=8,b=16");
  EXPECT_EQ(
      refusal([&] { with_batch(fixed, 16); }),
      "model \"" + fixed +
          "\" has a batch of 64 in its file, found 16; to choose it, name it there: \"sizes\": {\"b\": "
          "64}, \"batch\": \"b\", and \"b\" instead of 64 in the shapes of \"x\", \"labels\" and wherever "
          "else it counts samples");
}

// What the message says, done: the file with numbers becomes the file with names.
TEST(NamedSizesCommand, TakesBatchAndMicrobatches) {
  const TemporaryFolder folder;
  const std::string file = folder.file("mlp.json", kNamed);
  const auto batch_line = [&](std::vector<std::string> options) {
    std::vector<std::string> args{"compare", "--model", file, "--topology", "p100-4x4:1"};
    args.insert(args.end(), options.begin(), options.end());
    const Outcome outcome = pipesim_run(args);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out.substr(0, outcome.out.find('\n'));
  };
  EXPECT_EQ(batch_line({}), "mlp on p100-4x4:1 (4 devices), batch 64");
  EXPECT_EQ(batch_line({"--batch", "256"}), "mlp:b=256 on p100-4x4:1 (4 devices), batch 256");
  EXPECT_EQ(batch_line({"--set", "b=32", "--microbatches", "4"}),
            "mlp:b=32 on p100-4x4:1 (4 devices), batch 128 in 4 microbatches of 32");
  EXPECT_EQ(batch_line({"--batch", "128", "--microbatch", "16", "--set", "h=64"}),
            "mlp:b=16,h=64 on p100-4x4:1 (4 devices), batch 128 in 8 microbatches of 16");
  EXPECT_EQ(batch_line({"--batch", "128", "--microbatches", "2"}),
            "mlp on p100-4x4:1 (4 devices), batch 128 in 2 microbatches of 64");
}

TEST(NamedSizesCommand, PlansOpenAgain) {
  const TemporaryFolder folder;
  const std::string file = folder.file("mlp.json", kNamed), plan = folder.path("plan.json");
  const Outcome found = pipesim_run({"search", "--model", file, "--set", "b=32", "--microbatches", "4",
                                     "--topology", "p100-4x4:1", "--algorithm", "data-parallel", "-o", plan});
  EXPECT_EQ(found.status, 0) << found.err;
  const auto json = nlohmann::json::parse(read_file(plan));
  EXPECT_EQ(json["model"], file + ":b=32");
  EXPECT_EQ(json["microbatches"], 4);
  const Outcome again = pipesim_run({"simulate", "--plan", plan});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.out,
              StartsWith("mlp:b=32 on p100-4x4:1 (4 devices), batch 128 in 4 microbatches of 32, plan by "
                         "data-parallel\n"));
  EXPECT_EQ(pipesim_run({"simulate", "--plan", plan, "--set", "b=16"}),
            (Outcome{2, "",
                     "pipesim: simulate: --plan and --set exclude each other without --model: the plan tells "
                     "sizes\n"}));
  EXPECT_EQ(pipesim_run({"simulate", "--plan", plan, "--model", file, "--set", "b=32"}).status, 0);
}

TEST(NamedSizesCommand, EveryCommandWithAModelTakesThem) {
  for (const Command& command : commands()) {
    const auto has = [&](const char* name) {
      return std::ranges::any_of(command.options, [&](const Option& o) { return o.name == name; });
    };
    EXPECT_EQ(has("set"), has("model") || command.name == "models") << command.name;
  }
  const TemporaryFolder folder;
  const std::string file = folder.file("mlp.json", kNamed);
  EXPECT_THAT(pipesim_run({"simulate", "--model", file, "--set", "b=8", "--topology", "cpu:2", "--baseline",
                           "data-parallel"})
                  .out,
              StartsWith("mlp:b=8 on cpu (2 devices), batch 8, plan by data-parallel\n"));
  EXPECT_EQ(pipesim_run({"execute", "--model", file, "--set", "b=8,h=4", "--topology", "cpu:2", "--baseline",
                         "data-parallel", "--steps", "1", "--warmup", "0", "--check", "--no-realtime",
                         "--oversubscribe"})
                .status,
            0);
}

TEST(NamedSizesCommand, RefusesWhatContradicts) {
  const TemporaryFolder folder;
  const std::string file = folder.file("mlp.json", kNamed);
  const auto refused = [&](const std::string& model, std::vector<std::string> options) {
    std::vector<std::string> args{"compare", "--model", model, "--topology", "p100-4x4:1"};
    args.insert(args.end(), options.begin(), options.end());
    return pipesim_run(args);
  };
  EXPECT_EQ(
      refused(file, {"--set", "b=8", "--batch", "16"}),
      (Outcome{2, "",
               "pipesim: --set b=8 and --batch both tell the model's samples; leave one of them out\n"}));
  EXPECT_EQ(
      refused("lenet", {"--set", "batch=8", "--microbatch", "16"}),
      (Outcome{
          2, "",
          "pipesim: --set batch=8 and --microbatch both tell the model's samples; leave one of them out\n"}));
  EXPECT_EQ(
      refused("lenet:batch=8", {"--set", "batch=4"}),
      (Outcome{2, "",
               "pipesim: --set batch=4: model \"lenet:batch=8\" says batch=8; leave one of them out\n"}));
  const Outcome unknown = refused("gpt", {"--set", "layer=4"});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.err,
              StartsWith("pipesim: model \"gpt:layer=4\": unknown option \"layer\" (did you mean "
                         "\"layers\"?); allowed: batch, "));
}

TEST(NamedSizesCommand, NeedsAModel) {
  EXPECT_EQ(pipesim_run({"search", "--set", "b=8", "--algorithm", "alpa", "--stage-costs", "c.json"}),
            (Outcome{2, "", "pipesim: search: --set needs --model\n"}));
  EXPECT_EQ(pipesim_run({"compare", "--set", "b=8", "--topology", "cpu"}),
            (Outcome{2, "", "pipesim: compare: --model is missing; see \"pipesim help compare\"\n"}));
}

TEST(NamedSizesCommand, ModelsShowsThem) {
  const TemporaryFolder folder;
  const std::string file = folder.file("mlp.json", kNamed);
  const Outcome shown = pipesim_run({"models", file, "--set", "b=8"});
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, StartsWith("mlp:b=8\n\n  batch        8\n"));
  EXPECT_THAT(shown.out, HasSubstr("\nSizes in the file, for " + file +
                                   ":size=N,… or --set size=N\n"
                                   "  b=64   the batch, see --batch\n"
                                   "  h=512\n"));
  EXPECT_THAT(pipesim_run({"models", folder.file("fixed.json", kTwoLayers)}).out,
              testing::Not(HasSubstr("Sizes")));
  EXPECT_EQ(pipesim_run({"models", "--set", "b=8"}),
            (Outcome{2, "", "pipesim: models: --set needs MODEL\n"}));
  EXPECT_THAT(pipesim_run({"models", "lenet", "--set", "batch=4"}).out, StartsWith("lenet:batch=4: "));
}

}  // namespace
}  // namespace pipesim
