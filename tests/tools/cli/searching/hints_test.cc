#include "tools/cli/searching/hints.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "models/zoo/zoo.h"
#include "search/baselines/baselines.h"
#include "tests/tools/command_line.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

constexpr const char* kTightGpt = "gpt:batch=64,layers=4,hidden=256,heads=4,sequence=256,vocab=512";
constexpr const char* kAuto = "--algorithm auto: it tries pipelines too, whose devices hold some layers each";

// Data parallelism on four devices of which so much memory may be used.
struct Tight {
  explicit Tight(const std::string& margin, const std::string& model = kTightGpt, PlanOptions options = {})
      : graph(make_zoo_model(model)),
        topology(make_topology("p100-4x4:1").with_memory_margin(MemoryMargin::parse(margin))),
        evaluator(graph, costs, options) {
    baseline.name = "data-parallel";
    baseline.scored = Scored<Strategy>{baseline_strategy(baseline.name, graph, costs), {}};
  }
  [[nodiscard]] bool fits() { return evaluator.evaluate(baseline.scored->plan).feasible(); }
  std::vector<std::string> hints(const Algorithm* algorithm, std::int32_t microbatches = 1) {
    return hints_to_fit(evaluator, baseline, {kTightGpt, microbatches}, algorithm);
  }
  OperatorGraph graph;
  Topology topology;
  CostModel costs{topology};
  Evaluator evaluator;
  Baseline baseline;
};

std::string margin_leaving(double gigabytes) {
  return fmt::format("{} MB", 16'000 - std::llround(1000 * gigabytes));
}

// What helps does: each hint is run and fits, and what is not hinted at would not have.
TEST(Hints, NameOnlyWhatHelps) {
  for (const double gigabytes : {0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.9}) {
    SCOPED_TRACE(gigabytes);
    Tight tight(margin_leaving(gigabytes));
    if (tight.fits()) continue;
    const std::vector<std::string> hints = tight.hints(&algorithm_named("mcmc"));
    ASSERT_FALSE(hints.empty());
    EXPECT_EQ(hints.back(), kAuto);
    bool recompute = false;
    for (std::size_t i = 0; i + 1 < hints.size(); ++i) {
      const std::string options = hints[i].substr(0, hints[i].find(':'));
      EXPECT_THAT(hints[i], testing::EndsWith(": data-parallel fits"));
      recompute = recompute || options == "--recompute full";
      std::vector<std::string> args{"simulate",      "--model",         kTightGpt,
                                    "--topology",    "p100-4x4:1",      "--baseline",
                                    "data-parallel", "--memory-margin", margin_leaving(gigabytes)};
      std::istringstream words(options);
      for (std::string word; words >> word;) args.push_back(word);
      EXPECT_EQ(pipesim_run(args).status, 0) << hints[i];
    }
    PlanOptions again;
    again.recompute = parse_recompute("full");
    EXPECT_EQ(recompute, Tight(margin_leaving(gigabytes), kTightGpt, again).fits());
  }
}

TEST(Hints, NameNothingThatIsUsedAlready) {
  PlanOptions options;
  options.recompute = parse_recompute("full");
  Tight tight(margin_leaving(0.05), kTightGpt, options);
  for (const std::string& hint : tight.hints(&default_algorithm()))
    EXPECT_THAT(hint, Not(AllOf(HasSubstr("recompute"))));
  EXPECT_THAT(tight.hints(&default_algorithm()), Not(testing::Contains(HasSubstr("auto"))));
}

// Nothing that leaves weights where they are helps.
TEST(Hints, OnlyPipelinesHelpWhereWeightsDoNotFit) {
  Tight tight(margin_leaving(0.01));
  EXPECT_THAT(tight.hints(&algorithm_named("mcmc")), ElementsAre(kAuto));
  EXPECT_THAT(tight.hints(nullptr), ElementsAre(std::string("search ") + kAuto));
  EXPECT_THAT(tight.hints(&default_algorithm()), ElementsAre());
}

TEST(Hints, StandUnderWhatDoesNotFit) {
  const std::vector<std::string> where{"--model",    kTightGpt,         "--topology",
                                       "p100-4x4:1", "--memory-margin", margin_leaving(0.011)};
  const auto run = [&](std::vector<std::string> args) {
    args.insert(args.end(), where.begin(), where.end());
    return pipesim_run(args);
  };
  const Outcome search = run({"search", "--algorithm", "mcmc", "--proposals", "5"});
  EXPECT_EQ(search.status, 1);
  EXPECT_THAT(search.err, HasSubstr("; the nearest baseline is "));
  EXPECT_THAT(search.err, testing::EndsWith(std::string(")\n  try ") + kAuto + "\n"));
  const Outcome simulate = run({"simulate", "--baseline", "data-parallel"});
  EXPECT_EQ(simulate.status, 1);
  EXPECT_THAT(simulate.err, testing::StartsWith("pipesim: the plan does not fit: gpu0 needs "));
  EXPECT_THAT(simulate.err,
              testing::EndsWith(std::string("(and 3 more devices)\n  try search ") + kAuto + "\n"));
  const Outcome compare = run({"compare"});
  EXPECT_EQ(compare.status, 0);
  EXPECT_THAT(compare.out, HasSubstr(" is the nearest\n  try search " + std::string(kAuto) + "\n\n"));
  EXPECT_THAT(compare.out, HasSubstr("  no baseline fits; "));
}

TEST(Hints, RoomAboveTheLowerBound) {
  EXPECT_EQ(room_above(1000, 1000), "so no plan is faster");
  EXPECT_EQ(room_above(100'000, 103'200), "so at most 3.2 % faster is possible");
  EXPECT_EQ(room_above(1000, 1107), "so at most 1.11 times as fast is possible");
  EXPECT_EQ(room_above(0, 40), "so at most 40 times as fast is possible");
  EXPECT_EQ(far_above(1000, 2999, &algorithm_named("mcmc")), "");
  EXPECT_EQ(
      far_above(1000, 40'400, &algorithm_named("mcmc")),
      "40 times above the lower bound: a much faster plan may exist; try --algorithm auto, a longer search "
      "(--seconds), or a larger --batch");
  EXPECT_EQ(
      far_above(1000, 3200, &default_algorithm()),
      "3.2 times above the lower bound: a much faster plan may exist; try a longer search (--seconds), other "
      "--microbatches or a larger --batch");
  EXPECT_EQ(far_above(1000, 3200, nullptr),
            "3.2 times above the lower bound: a much faster plan may exist; try search, also with "
            "--algorithm auto, "
            "or a larger --batch");
}

// LeNet's few samples are far from what the devices could do.
TEST(Hints, StandBesideWhatIsFarAboveTheLowerBound) {
  const std::vector<std::string> where{"--model", "lenet:batch=64", "--topology", "levels:4@10MB/s"};
  const auto run = [&](std::vector<std::string> args) {
    args.insert(args.end(), where.begin(), where.end());
    return pipesim_run(args).out;
  };
  const auto fast =
      Json::parse(run({"search", "--algorithm", "data-parallel", "--proposals", "1", "--json"}));
  const double times = fast["iteration_time_s"].get<double>() / fast["lower_bound_s"].get<double>();
  ASSERT_GT(times, 3);
  const std::string beside =
      significant(times, 2) + " times above the lower bound: a much faster plan may exist; try ";
  EXPECT_THAT(run({"search", "--algorithm", "data-parallel", "--proposals", "1"}),
              HasSubstr("\n  " + beside));
}

TEST(Headline, ComparesWithTheFastestBaseline) {
  const auto best = [](const std::string& model, const std::string& topology, const std::string& algorithm) {
    const std::string out = pipesim_run({"search", "--model", model, "--topology", topology, "--algorithm",
                                         algorithm, "--proposals", "20"})
                                .out;
    const std::size_t at = out.find("best plan: ");
    return out.substr(at, out.find('\n', at) - at);
  };
  // Here one device is faster than four.
  const std::string slow = "levels:4@10MB/s";
  EXPECT_EQ(best("lenet:batch=64", slow, "single-device"), "best plan: single-device, the fastest baseline");
  EXPECT_THAT(
      best("lenet:batch=64", slow, "data-parallel"),
      testing::MatchesRegex("best plan: data-parallel, [0-9.]+ times as long as single-device, the fastest "
                            "baseline"));
  EXPECT_THAT(best("lenet:batch=64", "p100-4x4:1", "expert"),
              testing::MatchesRegex(
                  "best plan: expert, [0-9.]+ times as long as data-parallel, the fastest baseline"));
}

TEST(IdleDevices, AreToldInEveryReport) {
  const std::string model = "gpt:batch=3,layers=1,hidden=64,heads=4,sequence=32,vocab=64";
  const std::string idle = "3 of 4 devices used: batch 3 can't be split in 4";
  const auto run = [&](std::vector<std::string> args, const std::string& topology = "p100-4x4:1") {
    args.insert(args.end(), {"--model", model, "--topology", topology});
    const Outcome result = pipesim_run(args);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  };
  EXPECT_THAT(run({"simulate", "--baseline", "data-parallel"}),
              HasSubstr("\n  idle devices   " + idle + "\n"));
  EXPECT_EQ(Json::parse(run({"simulate", "--baseline", "data-parallel", "--json"}))["idle_devices"], idle);
  EXPECT_THAT(run({"search", "--algorithm", "data-parallel", "--proposals", "1"}),
              AllOf(HasSubstr("\n  idle devices   " + idle + "\n"), HasSubstr(idle + "\n  model-parallel")));
  EXPECT_THAT(run({"compare"}), HasSubstr(idle + "\n  model-parallel"));
  EXPECT_THAT(run({"execute", "--baseline", "data-parallel", "--backend", "emulated", "--steps", "1",
                   "--warmup", "0"}),
              HasSubstr("\n\n  " + idle + "\n\n"));
  EXPECT_THAT(run({"search", "--algorithm", "gpipe", "--stages", "1"}),
              HasSubstr("\n  idle devices   " + idle + "\n"));
}

// The options are those of search: other optimizers need other memory, and another type halves what is
// synchronised.
TEST(SimulateBaseline, TakesOptimizerAndGradients) {
  const auto simulated = [](std::vector<std::string> more) {
    std::vector<std::string> args{"simulate",   "--model",    "vgg16:batch=64", "--topology",
                                  "p100-4x4:1", "--baseline", "data-parallel",  "--json"};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome result = pipesim_run(args);
    EXPECT_EQ(result.status, 0) << result.err;
    return Json::parse(result.out);
  };
  const auto peak = [](const Json& json) { return json["peak_memory_bytes"]["gpu0"].get<std::int64_t>(); };
  const Json sgd = simulated({"--optimizer", "sgd"}), momentum = simulated({}),
             adam = simulated({"--optimizer", "adam"});
  const std::int64_t weights = 4 * make_zoo_model("vgg16:batch=64").parameter_count();
  EXPECT_EQ(peak(momentum) - peak(sgd), weights);
  EXPECT_EQ(peak(adam) - peak(sgd), 2 * weights);
  EXPECT_LT(simulated({"--gradient-type", "float16"})["communication_s"]["gpu0"],
            momentum["communication_s"]["gpu0"]);
  EXPECT_GT(simulated({"--gradient-piece", "1 MB"})["num_tasks"], momentum["num_tasks"]);
  const TemporaryFolder folder;
  EXPECT_EQ(pipesim_run({"simulate", "--plan", data_parallel_lenet(folder), "--optimizer", "adam"}).err,
            "pipesim: simulate: --plan and --optimizer exclude each other: the plan tells them\n");
}

}  // namespace
}  // namespace pipesim
