#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "models/zoo/zoo.h"
#include "search/joint/joint_json.h"
#include "search/joint/joint_search.h"
#include "search/planners/gpipe.h"
#include "topologies/presets/presets.h"

namespace pipesim {

inline constexpr const char* kSmallGpt =
    "gpt:layers=3,hidden=64,heads=4,vocab=96,sequence=16,positions=16,batch=";

class Joint : public testing::Test {
 protected:
  static std::optional<OperatorGraph> model_of(std::int32_t microbatches,
                                               const SequenceDivision& /*sequence*/) {
    constexpr std::int32_t kBatch = 64;
    if (kBatch % microbatches != 0) return std::nullopt;
    return make_zoo_model(kSmallGpt + std::to_string(kBatch / microbatches));
  }
  JointPlan pipelined(std::int32_t stages, std::int32_t microbatches) {
    PipelinedStrategy made = gpipe_strategy(*evaluator.graph(microbatches), costs, {stages, 1, "1f1b"});
    return {{}, microbatches, std::move(made.pipeline), std::move(made.meshes), {}};
  }

  static JointOptions proposals(std::int64_t count, int threads = 1) {
    JointOptions options;
    options.budget.proposals = count;
    options.threads = threads;
    return options;
  }

  Topology topology = make_topology("levels:4@1GB/s,2@0.3GB/s");
  CostModel costs{topology};
  JointEvaluator evaluator{model_of, costs, PlanOptions()};
  CandidateSet candidates{*evaluator.graph(4), topology};
  JointMoves moves{candidates, 64};
  DividedGraphs graphs = [this](const SequenceDivision& /*sequence*/) { return evaluator.graph(8); };
};

}  // namespace pipesim
