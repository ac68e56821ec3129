#include "search/mcmc/search_state_json.h"

#include <gmock/gmock.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "search/mcmc/mcmc.h"
#include "tests/refusal.h"
#include "tests/search/search_case.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

struct Checkpointed : SearchCase {
  PlanOptions options;
  std::vector<Baseline> baselines;
  std::vector<SearchStart> starts;
  ConfigSpace space;

  Checkpointed()
      : SearchCase("rnnlm:batch=32,steps=3,layers=1,hidden=64,vocab=200", "levels:2@10GB/s,2@1GB/s"),
        baselines(scored()),
        starts(starts_of(baselines)),
        space(candidates, {starts.front().strategy, starts.back().strategy}) {}

  [[nodiscard]] std::vector<Baseline> scored() const {
    Evaluator evaluator(graph, costs, {});
    return score_baselines(evaluator);
  }
  static std::vector<SearchStart> starts_of(const std::vector<Baseline>& baselines) {
    return {{baselines[0].name, baselines[0].scored->plan}, {baselines[1].name, baselines[1].scored->plan}};
  }
  [[nodiscard]] SearchSubject subject() const { return {graph, topology, options, baselines}; }

  [[nodiscard]] McmcOptions options_for(std::int64_t proposals, int threads) const {
    McmcOptions o;
    o.budget.proposals = proposals;
    o.seed = 5;
    o.threads = threads;
    o.chains = 4;
    return o;
  }
  [[nodiscard]] SearchOutcome run(const McmcOptions& o, const ProgressCallback& progress = {}) const {
    return pipesim::mcmc(graph, costs, options, candidates, starts, o, progress);
  }
  /// The checkpoint of a search that is stopped after so many reports of proposals.
  [[nodiscard]] std::string stopped_after(int reports, std::int64_t proposals) const {
    return stopped_after(reports, options_for(proposals, 1));
  }
  [[nodiscard]] std::string stopped_after(int reports, McmcOptions o) const {
    std::string text;
    o.keep = [&](const SearchState& state, bool last) {
      if (last) text = json_of(state, subject()).dump();
    };
    static_cast<void>(run(o, [&](const SearchProgress& p) { return p.proposals == 0 || --reports > 0; }));
    return text;
  }
};

void expect_same_but_for_time(const SearchOutcome& a, const SearchOutcome& b) {
  EXPECT_EQ(a.best->plan, b.best->plan);
  EXPECT_EQ(a.best->evaluation, b.best->evaluation);
  EXPECT_EQ(a.proposals, b.proposals);
  EXPECT_EQ(a.accepted, b.accepted);
  ASSERT_EQ(a.history.size(), b.history.size());
  for (std::size_t i = 0; i < a.history.size(); ++i) {
    EXPECT_EQ(a.history[i].best, b.history[i].best);
    EXPECT_EQ(a.history[i].proposals, b.history[i].proposals);
    EXPECT_EQ(a.history[i].chain, b.history[i].chain);
  }
}

TEST(SearchState, GoesOnToTheSameResultFromWhereverItWasStopped) {
  const Checkpointed c;
  const std::int64_t proposals = sanitized ? 600 : 3'000;
  const SearchOutcome whole = c.run(c.options_for(proposals, 1));
  ASSERT_EQ(whole.proposals, proposals);
  for (const int reports : {1, 7, 19, 26, 40, 77}) {
    McmcOptions o = c.options_for(proposals, 1 + reports % 3);
    o.seed = 99;  // the checkpoint's counts
    o.resume = parse_search_state(c.stopped_after(reports, proposals), "checkpoint", c.subject(), c.space);
    expect_same_but_for_time(whole, c.run(o));
  }
}

// Then there is no state that an uninterrupted search has been in.
TEST(SearchState, IsNotKeptOfASearchThatIsStoppedBeforeItsFirstProposal) {
  const Checkpointed c;
  McmcOptions o = c.options_for(3'000, 1);
  int kept = 0;
  o.keep = [&](const SearchState&, bool) { ++kept; };
  const SearchOutcome outcome = c.run(o, [](const SearchProgress&) { return false; });
  EXPECT_EQ(outcome.proposals, 0);
  EXPECT_TRUE(outcome.best);
  EXPECT_EQ(kept, 0);
}

TEST(SearchState, GoesOnWithFlexFlowsMoves) {
  const Checkpointed c;
  McmcOptions o = c.options_for(sanitized ? 300 : 1'000, 1);
  o.flexflow_moves = true;
  const SearchOutcome whole = c.run(o);
  const std::string text = c.stopped_after(9, o);
  o.resume = parse_search_state(text, "checkpoint", c.subject(), c.space);
  expect_same_but_for_time(whole, c.run(o));
}

TEST(SearchState, RoundTrips) {
  const Checkpointed c;
  const std::string text = c.stopped_after(60, 3'000);
  const SearchState state = parse_search_state(text, "checkpoint", c.subject(), c.space);
  EXPECT_THAT(state.chains, testing::SizeIs(4));
  EXPECT_THAT(state.rounds, testing::Gt(0));
  EXPECT_EQ(json_of(state, c.subject()).dump(), text);
}

TEST(SearchState, RefusesWhatIsNoCheckpointOfThisSearch) {
  const Checkpointed c;
  const Json good = Json::parse(c.stopped_after(30, 1'000));
  const auto refusal_of = [&](const std::function<void(Json&)>& damage) {
    Json json = good;
    damage(json);
    return refusal([&] { parse_search_state(json.dump(), "ck", c.subject(), c.space); });
  };
  EXPECT_EQ(refusal([&] { parse_search_state("{}", "ck", c.subject(), c.space); }),
            "ck: /: this is no checkpoint of a search");
  EXPECT_THAT(refusal([&] { parse_search_state(good.dump().substr(0, 700), "ck", c.subject(), c.space); }),
              testing::StartsWith("ck:1:701: not valid JSON"));
  EXPECT_EQ(refusal_of([](Json& j) { j["subject"]["model"] = "0123"; }),
            "ck: /subject/model: the checkpoint is of another search: found \"0123\", this one has \"" +
                c.graph.fingerprint() + "\"");
  EXPECT_THAT(
      refusal_of([](Json& j) { j["subject"]["baselines_ns"]["data-parallel"] = 7; }),
      testing::StartsWith("ck: /subject/baselines_ns/data-parallel: the checkpoint is of another search"));
  EXPECT_THAT(refusal_of([](Json& j) { j["subject"]["moves"] = "flexflow"; }),
              testing::StartsWith("ck: /subject/moves: the checkpoint is of another search"));
  EXPECT_EQ(refusal_of([](Json& j) {
              j["subject"]["recompute"] = {0, -1};
            }),
            "ck: /subject/recompute: the checkpoint is of another search: found [0,-1], this one has none");
  EXPECT_EQ(refusal_of([](Json& j) { j["pipesim_search"] = 1; }),
            "ck: /pipesim_search: found 1, an integer from 3 to 3 is needed");
  EXPECT_EQ(refusal_of([](Json& j) { j["chains"] = Json::array(); }),
            "ck: /chains: found no chain, at least one is needed");
  EXPECT_EQ(refusal_of([](Json& j) {
              j["rung"] = {0, 1, 2, 2};
            }),
            "ck: /rung: each of 0 to 3 must stand here once");
  EXPECT_EQ(refusal_of([](Json& j) { j["random"][2] = "0x1"; }),
            "ck: /random/2: found \"0x1\", 16 hexadecimal digits are needed");
  EXPECT_EQ(refusal_of([](Json& j) { j["grains"][1]["rates"].erase(0); }),
            "ck: /grains/1/rates: found 11 numbers, 12 are needed");
  EXPECT_EQ(refusal_of([](Json& j) { j["grains"].erase(0); }), "ck: /grains: found 1 grains, 2 are needed");
  EXPECT_EQ(refusal_of([](Json& j) { j["cycle"]["chains"] = 5; }),
            "ck: /cycle/chains: found 5, an integer from 0 to 4 is needed");
  EXPECT_EQ(refusal_of([](Json& j) { j["cycle"]["begun"] = {1}; }),
            "ck: /cycle/begun: found 1 costs of 4 chains");
  EXPECT_THAT(refusal_of([](Json& j) { j["chains"][1]["current"]["configs"][0] = 1'000'000; }),
              testing::StartsWith("ck: /chains/1/current/configs/0: found 1000000"));
  EXPECT_THAT(refusal_of([](Json& j) { j["chains"][1]["current"]["configs"].erase(0); }),
              testing::HasSubstr("configs, the model has"));
  EXPECT_THAT(refusal_of([](Json& j) { j.erase("best"); }), testing::StartsWith("ck: /"));
}

}  // namespace
}  // namespace pipesim
