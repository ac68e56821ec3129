#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "search/baselines/baselines.h"
#include "search/joint/joint_json.h"
#include "sim/base/errors.h"
#include "tests/search/joint/joint_case.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

TEST_F(Joint, PlansCostWhatTheirStrategiesDo) {
  for (const std::int32_t stages : {1, 2, 4}) {
    const JointPlan plan = pipelined(stages, 8);
    PlanOptions options = evaluator.options(plan);
    EXPECT_EQ(options.pipeline.has_value(), stages > 1);
    Evaluator alone(*evaluator.graph(8), costs, options);
    EXPECT_EQ(evaluator.evaluate(plan), alone.evaluate(evaluator.strategy(plan)));
  }
  JointPlan none = pipelined(2, 4);
  none.microbatches = 3;
  EXPECT_EQ(evaluator.evaluate(none), std::nullopt);
}

// A strategy that somebody else made comes back as it was.
TEST_F(Joint, PlansKeepStrategies) {
  for (const std::string_view name : baseline_names()) {
    const Strategy strategy = baseline_strategy(name, *evaluator.graph(4), costs);
    const JointPlan plan = joint_plan(*evaluator.graph(4), topology, 4, strategy, std::nullopt);
    EXPECT_EQ(evaluator.strategy(plan), strategy) << name;
  }
  const PipelinedStrategy made = gpipe_strategy(*evaluator.graph(4), costs, {2, 1, "gpipe"});
  const JointPlan plan = joint_plan(*evaluator.graph(4), topology, 4, made.strategy, made.pipeline);
  EXPECT_EQ(evaluator.strategy(plan), made.strategy);
  EXPECT_TRUE(plan.own.empty());
}

// Split operators keep their splits where a stage with as many devices takes them.
TEST_F(Joint, BoundariesMoveWithSplits) {
  JointPlan plan = pipelined(2, 8);
  const Strategy plain = evaluator.strategy(plan);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    ParallelConfig alone = plain[i];
    alone.degrees.assign(alone.degrees.size(), 1);
    alone.replicas = static_cast<std::int32_t>(alone.devices.size());
    plan.own[static_cast<std::int32_t>(i)] = alone;
  }
  int moved = 0;
  for_each_seed(10, [&](Rng& rng) {
    const auto next = moves.propose(plan, JointMoveKind::Boundary, rng);
    if (!next) return;
    ++moved;
    ASSERT_EQ(next->own.size(), plan.own.size());
    for (const auto& [op, config] : next->own) {
      EXPECT_EQ(config.devices, next->mesh_of(op).devices);
      EXPECT_EQ(config.degrees, plan.own.at(op).degrees);
    }
    EXPECT_TRUE(evaluator.evaluate(*next) || next->pipeline == plan.pipeline);
  });
  EXPECT_GT(moved, 0);
}

// Some layers of a stage run again, others do not; the plan costs what its options say.
TEST_F(Joint, SomeLayersRunAgain) {
  const JointPlan plan = pipelined(1, 8);
  const OperatorGraph& graph = *evaluator.graph(8);
  int some = 0;
  for_each_seed(60, [&](Rng& rng) {
    const auto next = moves.propose(plan, JointMoveKind::Recompute, rng);
    if (!next || next->recompute.kind != Recompute::Kind::Listed) return;
    const auto cost = evaluator.evaluate(*next);
    if (!cost) return;
    ++some;
    const std::set<std::int32_t> segments(next->recompute.segment_of.begin(),
                                          next->recompute.segment_of.end());
    EXPECT_TRUE(segments.contains(kNoSegment));
    EXPECT_GT(segments.size(), 1);
    EXPECT_EQ(*cost, Evaluator(graph, costs, evaluator.options(*next)).evaluate(evaluator.strategy(*next)));
    const nlohmann::json json = json_of(*next);
    EXPECT_EQ(parse_joint_plan(JsonDocument::parse(json.dump(), "plan"), graphs, topology), *next);
  });
  EXPECT_GT(some, sanitized ? 0 : 5);
}

TEST_F(Joint, PlansComeBackFromTheirJson) {
  JointPlan plan = pipelined(2, 8);
  plan.recompute = parse_recompute("selective");
  plan.state_sharding = parse_state_sharding("zero3,shard=2");
  plan.gathered_inputs = GatheredInputs::Again;
  plan.sequence = {2, 4};
  const nlohmann::json json = json_of(plan);
  EXPECT_EQ(parse_joint_plan(JsonDocument::parse(json.dump(), "plan"), graphs, topology), plan);
}

// Experts that take tokens in groups have a factor more, so that their splits are those of that model.
TEST_F(Joint, SplitsOperatorsOfPlansWithGroupsOfTokens) {
  const auto experts_of = [](std::int32_t microbatches,
                             const SequenceDivision& sequence) -> std::optional<OperatorGraph> {
    return make_zoo_model(
        "mixtral-8x7b:layers=2,hidden=64,heads=4,kv_heads=2,ffn=64,experts=4,vocab=96,sequence=16,token_"
        "groups=" +
        std::to_string(std::max<std::int64_t>(1, sequence.token_groups)) +
        ",batch=" + std::to_string(64 / microbatches));
  };
  JointEvaluator of_experts(experts_of, costs, PlanOptions());
  const OperatorGraph &plain = *of_experts.graph(8), &grouped = *of_experts.graph(8, {1, 4});
  const CandidateSet splits(plain, topology), with_groups(grouped, topology);
  JointMoves proposed(splits, 64);
  PipelinedStrategy made = gpipe_strategy(grouped, costs, {2, 1, "1f1b"});
  JointPlan plan{{}, 8, std::move(made.pipeline), std::move(made.meshes), {}};
  plan.sequence = {1, 4};
  for_each_seed(20, [&](Rng& rng) {
    EXPECT_FALSE(proposed.propose(plan, JointMoveKind::Config, rng)) << "splits of another model";
  });
  proposed.add(4, with_groups);
  int legal = 0, divides_groups = 0;
  const DividedGraphs divided = [&](const SequenceDivision& sequence) {
    return of_experts.graph(8, sequence);
  };
  for_each_seed(400, [&](Rng& rng) {
    const auto next = proposed.propose(plan, JointMoveKind::Config, rng);
    if (!next) return;
    for (const auto& [op, config] : next->own) {
      const Operator& of = grouped.operators()[static_cast<std::size_t>(op)];
      ASSERT_EQ(config.degrees.size(), of.factors.size()) << of.name;
      const Operator& other = plain.operators()[static_cast<std::size_t>(op)];
      if (of.factors.size() > other.factors.size()) ++divides_groups;
    }
    const auto cost = of_experts.evaluate(*next);
    if (!cost) return;
    ++legal;
    EXPECT_EQ(*cost,
              Evaluator(grouped, costs, of_experts.options(*next)).evaluate(of_experts.strategy(*next)));
    const nlohmann::json json = json_of(*next);
    EXPECT_EQ(parse_joint_plan(JsonDocument::parse(json.dump(), "plan"), divided, topology), *next);
  });
  EXPECT_GT(legal, sanitized ? 10 : 50);
  EXPECT_GT(divides_groups, 0);
}

// Whatever is drawn: every stage has operators and devices of its own, and what may be evaluated is legal.
TEST_F(Joint, MovesKeepPlansWhole) {
  std::array<int, kJointMoveKinds> legal{};
  for_each_seed(12, [&](Rng& rng) {
    JointPlan plan = pipelined(static_cast<std::int32_t>(1 << rng.below(3)), 8);
    for (int step = 0; step < 60; ++step) {
      const auto kind = static_cast<JointMoveKind>(rng.below(kJointMoveKinds));
      const auto next = moves.propose(plan, kind, rng);
      if (!next) continue;
      EXPECT_NE(*next, plan) << name_of(kind);
      const auto stages = static_cast<std::size_t>(next->pipeline.num_stages());
      ASSERT_EQ(next->meshes.size(), stages);
      std::set<DeviceId> devices;
      for (const StageMesh& mesh : next->meshes) {
        ASSERT_FALSE(mesh.devices.empty()) << name_of(kind);
        EXPECT_EQ(mesh.devices.size() % static_cast<std::size_t>(mesh.tensor), 0) << name_of(kind);
        for (const DeviceId d : mesh.devices) EXPECT_TRUE(devices.insert(d).second) << name_of(kind);
      }
      EXPECT_EQ(devices.size(), 8) << name_of(kind);
      for (std::size_t s = 0; s < stages; ++s)
        EXPECT_THAT(next->pipeline.stage_of, testing::Contains(static_cast<std::int32_t>(s)))
            << name_of(kind);
      if (!evaluator.evaluate(*next)) continue;
      ++legal[static_cast<std::size_t>(kind)];
      plan = *next;
    }
  });
  if (std::getenv("PIPESIM_TEST_SEED") != nullptr) return;
  EXPECT_THAT(legal, testing::Each(testing::Gt(0)));
}

TEST_F(Joint, SearchIsNoWorseThanItsStartsAndRepeatsItself) {
  const std::vector<JointPlan> starts{pipelined(1, 8), pipelined(2, 8), pipelined(4, 8)};
  Nanoseconds best = INT64_MAX;
  for (const JointPlan& start : starts) best = std::min(best, evaluator.evaluate(start)->time);
  const JointOutcome none = search_jointly(evaluator, moves, starts, proposals(1), {});
  EXPECT_LE(none.best.evaluation.time, best);
  const JointOutcome found = search_jointly(evaluator, moves, starts, proposals(400), {});
  EXPECT_LT(found.best.evaluation.time, best);
  EXPECT_EQ(found.proposals, 400);
  EXPECT_EQ(evaluator.evaluate(found.best.plan), found.best.evaluation);
  ASSERT_FALSE(found.history.empty());
  EXPECT_EQ(found.history.back().best, found.best.evaluation.time);
  const JointOutcome again = search_jointly(evaluator, moves, starts, proposals(400), {});
  EXPECT_EQ(again.best.plan, found.best.plan);
  EXPECT_EQ(again.accepted, found.accepted);
  EXPECT_THROW(search_jointly(evaluator, moves, {}, proposals(1), {}), InternalError);
}

// Whatever the threads, and whether it ran at once or in pieces that came to no even end.
TEST_F(Joint, ThreadsAndPiecesDecideNothing) {
  const std::vector<JointPlan> starts{pipelined(1, 8), pipelined(2, 8), pipelined(4, 8)};
  const auto state_after = [&](JointOptions options) {
    JointState state;
    options.keep = [&](const JointState& now, bool) { state = now; };
    const JointOutcome outcome = search_jointly(evaluator, moves, starts, options, {});
    EXPECT_EQ(outcome.proposals, options.budget.proposals);
    state.seconds = 0;
    for (SearchImprovement& i : state.history) i.seconds = 0;
    return std::pair(state, outcome.best);
  };
  const std::int64_t all = sanitized ? 450 : 1150;
  const auto [whole, best] = state_after(proposals(all));
  for (const int threads : {2, 5}) {
    const auto [state, found] = state_after(proposals(all, threads));
    EXPECT_EQ(state, whole) << threads;
    EXPECT_EQ(found, best) << threads;
  }
  JointOptions piece = proposals(60);
  for (const std::int64_t until : {60, 151, 300, 310, 430}) {
    piece.budget.proposals = until;
    piece.resume = state_after(piece).first;
    EXPECT_LE(piece.resume->proposals, until);
  }
  piece.budget.proposals = all;
  piece.threads = 2;
  const auto [resumed, found] = state_after(piece);
  EXPECT_EQ(resumed, whole);
  EXPECT_EQ(found, best);
}

// Eight starts that are the same leave no room for a worse one, unless it is the best of another algorithm.
TEST_F(Joint, BeginsWithTheBestOfEachAlgorithm) {
  std::vector<JointPlan> starts{pipelined(1, 8), pipelined(2, 8), pipelined(4, 8)};
  std::ranges::sort(starts, {}, [&](const JointPlan& plan) { return evaluator.evaluate(plan)->time; });
  starts.resize(2);
  ASSERT_LT(evaluator.evaluate(starts[0])->time, evaluator.evaluate(starts[1])->time);
  starts.insert(starts.begin(), 7, starts[0]);
  const auto began_with = [&](std::vector<std::string> algorithms) {
    JointOptions options = proposals(8);
    options.algorithms = std::move(algorithms);
    std::vector<std::size_t> numbers;
    options.keep = [&](const JointState& state, bool) {
      numbers.clear();
      for (const JointChain& chain : state.chains) numbers.push_back(chain.start);
    };
    search_jointly(evaluator, moves, starts, options, {});
    return numbers;
  };
  EXPECT_THAT(began_with({}), testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  std::vector<std::string> algorithms(8, "gpipe");
  algorithms.emplace_back("dapple");
  EXPECT_THAT(began_with(algorithms), testing::UnorderedElementsAre(0, 8, 1, 2, 3, 4, 5, 6));
}

// What is found before it is stopped counts, and what it goes on from is a whole part.
TEST_F(Joint, StopsWhenItIsTold) {
  const std::vector<JointPlan> starts{pipelined(2, 8), pipelined(4, 8)};
  JointOptions options = proposals(5000, 2);
  std::int64_t kept = 0, last = 0;
  options.keep = [&](const JointState& state, bool is_last) {
    kept = state.proposals;
    last += is_last;
  };
  SearchProgress shown;
  const JointOutcome outcome = search_jointly(evaluator, moves, starts, options, [&](const auto& progress) {
    shown = progress;
    return progress.proposals < 137;
  });
  EXPECT_GE(outcome.proposals, 137);
  EXPECT_LT(outcome.proposals, 140);
  EXPECT_EQ(shown.proposals, outcome.proposals);
  EXPECT_EQ(shown.best, outcome.best.evaluation.time);
  EXPECT_EQ(kept, 100);
  EXPECT_EQ(last, 1);
}

TEST_F(Joint, StatesComeBackFromTheirFiles) {
  JointState state;
  JointOptions options = proposals(500);
  options.keep = [&](const JointState& now, bool) { state = now; };
  search_jointly(evaluator, moves, {pipelined(1, 8), pipelined(4, 8)}, options, {});
  ASSERT_GT(state.proposals, 300);
  const auto parsed = [&](const nlohmann::json& json) {
    return parse_joint_state(JsonDocument::parse(json.dump(), "ck"), graphs, topology, 2);
  };
  const nlohmann::json whole = json_of(state);
  EXPECT_EQ(parsed(whole), state);
  const auto refusal = [&](const auto& change) {
    nlohmann::json json = whole;
    change(json);
    try {
      parsed(json);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal([](auto& j) { j["chains"] = nlohmann::json::array(); }),
            "ck: /chains: found no chain, at least one is needed");
  EXPECT_EQ(refusal([](auto& j) { j["start"] = 2; }),
            "ck: /start: found 2, an integer from 0 to 1 is needed");
  EXPECT_THAT(refusal([](auto& j) { j["best"]["plan"]["stage_of"].erase(0); }),
              testing::StartsWith("ck: /best/plan/stage_of: found "));
  EXPECT_EQ(refusal([](auto& j) { j["best"]["plan"]["meshes"] = nlohmann::json::array(); }).substr(0, 36),
            "ck: /best/plan/meshes: found 0 meshe");
  EXPECT_THAT(refusal([](auto& j) {
                auto& devices = j["chains"][0]["now"]["plan"]["meshes"][0]["devices"];
                devices.push_back(devices[0]);
              }),
              testing::EndsWith("stands here twice"));
  EXPECT_THAT(refusal([](auto& j) { j["chains"][0]["random"][1] = "x"; }),
              testing::HasSubstr("16 hexadecimal digits"));
  EXPECT_THAT(refusal([](auto& j) { j["improved_by_kind"].push_back(1); }),
              testing::HasSubstr("found 12 numbers, 11 are needed"));
}

}  // namespace
}  // namespace pipesim
