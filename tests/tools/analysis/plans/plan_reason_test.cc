#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>

#include "search/baselines/baselines.h"
#include "tests/search/search_case.h"
#include "tests/slow_test.h"
#include "tests/tools/command_line.h"
#include "tools/analysis/plans/operator_words.h"
#include "tools/analysis/plans/plan_reason.h"
#include "tools/base/figures.h"
#include "tools/render/plans/plan_reason_text.h"

namespace pipesim {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

constexpr Nanoseconds kMilli = 1'000'000;
constexpr std::size_t kSync = 3;  // gradient synchronisation among kCommunicationKinds
constexpr const char* kOneLayer = "gpt:batch=4,layers=1,hidden=64,heads=4,sequence=16,vocab=100";

// Two plans of a small GPT on two devices whose costs are written by hand.
struct HandMade {
  SearchCase c{kOneLayer, make_topology("pcie-v100-4")};
  Evaluator evaluator{c.graph, c.costs, {}};
  Strategy from = baseline_strategy("data-parallel", c.graph, c.costs), to = from;
  PlanCosts before, after;
  PlanOptions options;

  HandMade() {
    for (PlanCosts* costs : {&before, &after}) {
      costs->operators.resize(from.size());
      costs->report.memory.resize(2);
    }
  }
  [[nodiscard]] std::size_t index(const std::string& name) const {
    for (std::size_t i = 0; i < c.graph.operators().size(); ++i) {
      if (c.graph.operators()[i].name == name) return i;
    }
    throw std::out_of_range(name);
  }
  void split(const std::string& name, const std::string& factor) {
    const std::size_t i = index(name);
    const Operator& op = c.graph.operators()[i];
    std::ranges::fill(to[i].degrees, 1);
    to[i].degrees[static_cast<std::size_t>(op.factor(factor))] =
        static_cast<std::int32_t>(to[i].devices.size());
  }
  static void report(PlanCosts& costs, Nanoseconds time, std::vector<Nanoseconds> compute,
                     Nanoseconds communication, Nanoseconds waiting) {
    costs.report.iteration_time = time;
    costs.report.compute = std::move(compute);
    costs.report.critical.communication = communication;
    costs.report.critical.waiting = waiting;
  }
  // `critical`: what of it is the critical path's.
  static void move(PlanCosts& costs, std::size_t op, std::size_t kind, Bytes bytes, Nanoseconds critical) {
    OperatorCosts& o = costs.operators[op];
    o.moved_by[kind] += bytes;
    o.moved += bytes;
    o.critical_by[kind] += critical;
    o.critical += critical;
    costs.moved[kind] += bytes;
  }
  PlanReason reason(const std::string& infeasible = "") {
    const BoundStrategy a = evaluator.contents().bind(from), b = evaluator.contents().bind(to);
    return plan_reason(c.graph, {"data-parallel", a, before, options}, {"plan", b, after, options},
                       infeasible);
  }
};

TEST(TimePartsTest, AreWhatADeviceSees) {
  PlanReport report;
  report.iteration_time = 50;
  report.compute = {10, 20};
  report.critical.communication = 12;
  report.critical.waiting = 3;
  // Mean 15; the busiest is 5 over it; of its 30 idle 15 are communication, the rest waits for results.
  EXPECT_EQ(time_parts(report), (TimeParts{15, 5, 15, 15}));
  report.critical.communication = 100;
  EXPECT_EQ(time_parts(report), (TimeParts{15, 5, 30, 0}));
  // Estimated rates may be less than what a device computes.
  report.iteration_time = 18;
  EXPECT_EQ(time_parts(report), (TimeParts{15, 3, 0, 0}));
}

TEST(PlanReasonText, NamesTheOperatorsThatGainMost) {
  HandMade h;
  h.split("word_embedding", "h");
  const std::size_t embedding = h.index("word_embedding");
  HandMade::report(h.before, 100 * kMilli, {60 * kMilli, 60 * kMilli}, 10 * kMilli, 30 * kMilli);
  HandMade::report(h.after, 70 * kMilli, {50 * kMilli, 50 * kMilli}, 20 * kMilli, 0);
  h.before.operators[embedding].compute = 40 * kMilli;
  h.after.operators[embedding].compute = 20 * kMilli;
  h.before.operators[embedding].update = 30 * kMilli;
  h.after.operators[embedding].update = 15 * kMilli;
  HandMade::move(h.before, embedding, kSync, Bytes(12'200'000'000), 100 * kMilli);
  HandMade::move(h.after, embedding, 0, Bytes(4'000'000'000), 20 * kMilli);
  const PlanReason reason = h.reason();
  EXPECT_EQ(reason.changes.front().gain, 30 * kMilli);  // 20 ms / 2 devices of compute, and 40 - 20 ms
  EXPECT_EQ(
      to_text(reason),
      "1 of 2 embeddings (word_embedding) split by width instead of samples: 12.2 GB less gradient to "
      "synchronise, 10 ms less to compute on each device (mean), 7.5 ms of it to update weights. An "
      "iteration takes 30 ms less than with data-parallel: 20 ms less waiting for transfers, 10 ms less to "
      "compute on each device (mean). In return 4 GB more activations to move.");
  const Json json = json_of(reason);
  EXPECT_EQ(json["text"], to_text(reason));
  EXPECT_EQ(json["changes"][0]["operators"], "1 of 2 embeddings (word_embedding)");
  EXPECT_EQ(json["changes"][0]["from"], "split by samples");
  EXPECT_EQ(json["changes"][0]["to"], "split by width");
  EXPECT_DOUBLE_EQ(json["changes"][0]["gain_s"], 0.03);
  EXPECT_EQ(json["moved"]["gradient_sync_bytes"], Json::parse(R"({"baseline": 12200000000, "plan": 0})"));
  EXPECT_DOUBLE_EQ(json["time_parts"]["transfers_s"]["plan"], 0.02);
}

// The other way round the same operators are why it is slower.
TEST(PlanReasonText, SaysWhyAPlanIsSlower) {
  HandMade h;
  h.split("word_embedding", "h");
  std::swap(h.from, h.to);
  const std::size_t embedding = h.index("word_embedding");
  HandMade::report(h.before, 70 * kMilli, {50 * kMilli, 50 * kMilli}, 20 * kMilli, 0);
  HandMade::report(h.after, 90 * kMilli, {50 * kMilli, 50 * kMilli}, 40 * kMilli, 0);
  HandMade::move(h.after, embedding, kSync, Bytes(8'000'000'000), 100 * kMilli);
  HandMade::move(h.before, embedding, 0, Bytes(4'000'000'000), 10 * kMilli);
  EXPECT_EQ(to_text(h.reason()),
            "1 of 2 embeddings (word_embedding) split by samples instead of width: 8 GB more gradient to "
            "synchronise. An iteration takes 20 ms more than with data-parallel: 20 ms more waiting for "
            "transfers. In return 4 GB less activations to move.");
}

// Nothing that changed explains less waiting: no operators are named.
TEST(PlanReasonText, SaysWhatIsKnownWithoutAClearReason) {
  HandMade h;
  h.split("word_embedding", "h");
  HandMade::report(h.before, 100 * kMilli, {40 * kMilli, 60 * kMilli}, 10 * kMilli, 0);
  HandMade::report(h.after, 80 * kMilli, {52 * kMilli, 52 * kMilli}, 20 * kMilli, 0);
  EXPECT_EQ(to_text(h.reason()),
            "An iteration takes 20 ms less than with data-parallel: 22 ms less waiting for results of other "
            "devices, 10 ms less waiting for the busiest device, but 2 ms more to compute on each device "
            "(mean), 10 ms more waiting for transfers.");
}

// Time that one kind of operators no longer waits counts as far as no other waits for it instead.
TEST(PlanReasonText, NamesNoWaitingThatOthersTakeOver) {
  HandMade h;
  h.split("word_embedding", "h");
  const std::size_t embedding = h.index("word_embedding"), other = h.index("layer1.ffn1");
  HandMade::report(h.before, 100 * kMilli, {60 * kMilli, 60 * kMilli}, 40 * kMilli, 0);
  HandMade::report(h.after, 98 * kMilli, {60 * kMilli, 60 * kMilli}, 38 * kMilli, 0);
  HandMade::move(h.before, embedding, kSync, Bytes(1'000'000'000), 40 * kMilli);
  HandMade::move(h.after, embedding, kSync, Bytes(1'000'000'000), 0);
  HandMade::move(h.before, other, kSync, Bytes(1'000'000'000), 0);
  HandMade::move(h.after, other, kSync, Bytes(1'000'000'000), 38 * kMilli);
  EXPECT_EQ(to_text(h.reason()),
            "An iteration takes 2 ms less than with data-parallel: 2 ms less waiting for transfers.");
}

TEST(PlanReasonText, SaysWhatTheMemoryIsThatABaselineLacks) {
  HandMade h;
  h.split("word_embedding", "h");
  HandMade::report(h.before, 100 * kMilli, {100 * kMilli, 100 * kMilli}, 0, 0);
  HandMade::report(h.after, 100 * kMilli, {100 * kMilli, 100 * kMilli}, 0, 0);
  h.before.report.memory[1].peak = Bytes(50'000'000'000);
  h.before.report.memory[1].at_peak[0] = Bytes(40'000'000'000);
  h.before.report.memory[1].at_peak[3] = Bytes(10'000'000'000);
  h.after.report.memory[0].peak = Bytes(13'000'000'000);
  h.after.report.memory[0].at_peak[0] = Bytes(4'000'000'000);
  h.after.report.memory[0].at_peak[3] = Bytes(9'000'000'000);
  EXPECT_EQ(to_text(h.reason("gpu1 needs 50 GB, has 16 GB")),
            "data-parallel does not fit (gpu1 needs 50 GB, has 16 GB); this plan takes 37 GB less on its "
            "fullest device: 36 GB less weights. An iteration takes as long as with data-parallel.");
}

TEST(PlanReasonText, OfPlansThatAreNotLookedInto) {
  EXPECT_EQ(to_text(times_alone("data-parallel", {100 * kMilli, Bytes(0)}, 80 * kMilli)),
            "An iteration takes 20 ms less than with data-parallel (80 ms instead of 100 ms).");
  EXPECT_EQ(to_text(times_alone("data-parallel", {100 * kMilli, Bytes(2'000'000'000)}, 120 * kMilli)),
            "data-parallel does not fit (2 GB are missing). An iteration takes 20 ms more than with "
            "data-parallel (120 ms instead of 100 ms).");
  EXPECT_EQ(to_text(same_plan({"expert", std::nullopt, ""})), "the plan is expert, the fastest baseline");
  EXPECT_EQ(json_of(same_plan({"expert", std::nullopt, ""})).dump(),
            R"({"baseline":"expert","same_plan":true,"text":"the plan is expert, the fastest baseline"})");
}

// What a changed reader needs counts for the reader, not for who made it.
TEST(PlanReasonFigures, TransfersCountForTheReaderThatChanged) {
  HandMade h;
  h.split("layer1.ffn2", "i");
  const std::size_t maker = h.index("layer1.ffn1"), reader = h.index("layer1.ffn2");
  HandMade::report(h.before, 100 * kMilli, {90 * kMilli, 90 * kMilli}, 10 * kMilli, 0);
  HandMade::report(h.after, 130 * kMilli, {90 * kMilli, 90 * kMilli}, 40 * kMilli, 0);
  HandMade::move(h.after, maker, 0, Bytes(4'000'000'000), 40 * kMilli);
  TensorId made;
  for (const TensorUse& use : h.c.graph.operators()[maker].uses) {
    if (use.role == Role::Output) made = use.tensor;
  }
  for (PlanCosts* costs : {&h.before, &h.after}) costs->tensors.resize(h.c.graph.tensors().size());
  h.after.tensors[made.index()] = {OperatorId(maker), h.after.operators[maker]};
  const auto& readers = h.c.graph.consumers(made);
  ASSERT_TRUE(std::ranges::any_of(readers, [&](const auto& r) { return r.op.index() == reader; }));
  const PlanReason reason = h.reason();
  EXPECT_EQ(reason.changes.front().members, std::vector<OperatorId>{OperatorId(reader)});
  EXPECT_EQ(reason.changes.front().after.moved, Bytes(4'000'000'000));
  EXPECT_THAT(to_text(reason),
              HasSubstr("split by inputs instead of samples: 4 GB more activations to move"));
}

TEST(PlanReasonText, IsWrappedBesideItsTitle) {
  const PlanReason reason = same_plan({"expert", std::nullopt, ""});
  EXPECT_EQ(why_lines(reason), "  why            the plan is expert, the fastest baseline\n");
}

TEST(OperatorWords, NameKindsAndSplits) {
  const SearchCase c("nmt:steps=2", "p100-4x4");
  const auto of_kind = [&](const std::string& kind, std::size_t most) {
    std::vector<OperatorId> found;
    for (std::size_t i = 0; i < c.graph.operators().size() && found.size() < most; ++i) {
      if (c.graph.operators()[i].kind == kind) found.emplace_back(i);
    }
    return found;
  };
  EXPECT_EQ(operators_in_words(c.graph, of_kind("embedding", 100)), "embeddings");
  EXPECT_EQ(operators_in_words(c.graph, of_kind("embedding", 1)), "1 of 4 embeddings");
  EXPECT_EQ(operators_in_words(c.graph, of_kind("lstm_cell", 100)), "LSTM cells");

  const auto words = [&](const std::string& kind, std::vector<std::pair<std::string, int>> degrees,
                         std::int32_t replicas = 1) {
    const Operator& op = c.graph.op(of_kind(kind, 1).front());
    ParallelConfig config = single_device(op, DeviceId(0));
    for (const auto& [factor, degree] : degrees)
      config.degrees[static_cast<std::size_t>(op.factor(factor))] = degree;
    config.replicas = replicas;
    return split_in_words(op, config);
  };
  EXPECT_EQ(words("embedding", {{"h", 4}}), "split by width");
  EXPECT_EQ(words("embedding", {{"v", 4}}, 2), "split by vocabulary");
  EXPECT_EQ(words("linear", {{"b", 2}, {"o", 2}}), "split by samples and outputs");
  EXPECT_EQ(words("lstm_cell", {{"h", 2}}), "split by hidden units");
  EXPECT_EQ(words("linear", {}), "on one device");
  EXPECT_EQ(words("linear", {}, 4), "copied on 4 devices");
}

std::string one_line(const std::string& text) { return std::regex_replace(text, std::regex("\\s+"), " "); }

// Every command prints the reason that its JSON has.
SLOW_TEST(PlanReasonCommands, PrintTheTextOfTheirJson) {
  const std::vector<std::vector<std::string>> commands{
      {"search", "--model", "lenet", "--topology", "p100-4x4:1", "--algorithm", "expert", "--proposals",
       "10"},
      {"search", "--algorithm", "mcmc", "--model", "nmt:steps=2,batch=64", "--topology", "p100-4x4",
       "--proposals", "20"},
      {"search", "--model", kOneLayer, "--topology", "p100-4x4:1", "--algorithm", "gpipe", "--microbatches",
       "4"},
      {"search", "--model", kOneLayer, "--topology", "p100-4x4:1", "--algorithm", "auto", "--proposals",
       "20"},
      {"compare", "--model", "alexnet:batch=32", "--topology", "p100-4x4:1"}};
  for (std::vector<std::string> command : commands) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(command, " ")));
    const Outcome text = pipesim_run(command);
    command.emplace_back("--json");
    const Outcome json = pipesim_run(command);
    ASSERT_EQ(json.status, 0) << json.err;
    const Json reason = Json::parse(json.out)["reason"];
    ASSERT_TRUE(reason.is_object());
    if (reason["same_plan"].get<bool>()) continue;
    EXPECT_THAT(one_line(text.out), HasSubstr(reason["text"].get<std::string>()));
  }
}

// The same plan needs no reason.
SLOW_TEST(PlanReasonCommands, APlanThatIsTheBaselineSaysSo) {
  const std::vector<std::string> args{"search",     "--model",     "lenet",         "--topology",
                                      "p100-4x4:1", "--algorithm", "data-parallel", "--proposals",
                                      "10",         "--json"};
  EXPECT_EQ(Json::parse(pipesim_run(args).out)["reason"],
            Json::parse(R"({"baseline": "data-parallel", "same_plan": true,
                            "text": "the plan is data-parallel, the fastest baseline"})"));
}

// Figures of real plans against each other, whatever they are.
TEST(PlanReasonFigures, AreDifferencesOfTheTotals) {
  for (const char* model : {"lenet", "alexnet:batch=32", "vgg16:batch=16", "nmt:steps=2", kOneLayer}) {
    const SearchCase c(model, "p100-4x4:1");
    Evaluator evaluator(c.graph, c.costs, {});
    for (const std::string_view from : baseline_names()) {
      for (const std::string_view to : baseline_names()) {
        SCOPED_TRACE(fmt::format("{}: {} to {}", model, from, to));
        const BoundStrategy a = evaluator.contents().bind(baseline_strategy(from, c.graph, c.costs)),
                            b = evaluator.contents().bind(baseline_strategy(to, c.graph, c.costs));
        const PlanCosts before = plan_costs(evaluator, a), after = plan_costs(evaluator, b);
        const PlanReason r =
            plan_reason(c.graph, {std::string(from), a, before, {}}, {"plan", b, after, {}}, "");
        // Parts add up to the iteration, and none is less than nothing.
        for (std::size_t plan = 0; plan < 2; ++plan) {
          EXPECT_EQ(std::accumulate(r.parts[plan].begin(), r.parts[plan].end(), Nanoseconds{0}),
                    (plan == 0 ? before : after).report.iteration_time);
          for (const Nanoseconds part : r.parts[plan]) EXPECT_GE(part, 0);
        }
        // Operators add up to the plans.
        OperatorCosts sum_before, sum_after;
        std::size_t operators = 0;
        for (const SplitChange& change : r.changes) {
          sum_before += change.before;
          sum_after += change.after;
          operators += change.members.size();
        }
        EXPECT_EQ(operators, c.graph.operators().size());
        EXPECT_EQ(sum_before.moved_by, before.moved);
        EXPECT_EQ(sum_after.moved_by, after.moved);
        // And explain the time that they compute and wait for transfers, but for rounding.
        const auto part = [&](TimePart p) {
          return r.parts[0][static_cast<std::size_t>(p)] - r.parts[1][static_cast<std::size_t>(p)];
        };
        Nanoseconds gain = 0;
        for (const SplitChange& change : r.changes) gain += change.gain;
        EXPECT_NEAR(static_cast<double>(gain),
                    static_cast<double>(part(TimePart::Compute) + part(TimePart::Transfers)), 1000);
        // What the text says in bytes is a difference of some operators, or of all of them.
        std::vector<std::string> known;
        const auto know = [&](const MovedBytes& x, const MovedBytes& y) {
          for (std::size_t k = 0; k < x.size(); ++k)
            known.push_back(pretty(Bytes(std::abs(x[k].value - y[k].value))));
        };
        know(before.moved, after.moved);
        for (const SplitChange& change : r.changes) know(change.before.moved_by, change.after.moved_by);
        const std::string text = to_text(r);
        const std::regex bytes("[0-9.]+ [kMGT]?B ");
        for (std::sregex_iterator it(text.begin(), text.end(), bytes), end; it != end; ++it) {
          std::string named = it->str();
          named.pop_back();
          EXPECT_THAT(known, testing::Contains(named)) << text;
        }
        const Nanoseconds gained = before.report.iteration_time - after.report.iteration_time;
        if (gained == 0) {
          EXPECT_THAT(text, HasSubstr(fmt::format("takes as long as with {}", from)));
        } else {
          EXPECT_THAT(text, HasSubstr(fmt::format("An iteration takes {} {} than with {}",
                                                  pretty(to_seconds(std::abs(gained))),
                                                  gained > 0 ? "less" : "more", from)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace pipesim
