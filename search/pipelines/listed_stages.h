#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/cost_model.h"
#include "search/pipelines/pipelined_strategy.h"

namespace pipesim {

/// A stage as a person writes it down.
struct ListedStage {
  std::int64_t devices = 1;   ///< of all replicas
  std::string last;           ///< its last operator in the model's order; "": wherever suits
  std::int64_t replicas = 1;  ///< that take microbatches in turn; divides the devices
  bool operator==(const ListedStage&) const = default;
};

/// Stages as "8@layer12.ffn_add,8": 8 devices each, the first up to that operator; "4x2" are 4 replicas of 2
/// devices each that take microbatches in turn. Commas in brackets or in quotes belong to an operator's name:
/// "8@node7 LSTM(2048, 1024),8". InputError with what was found and what is allowed.
std::vector<ListedStage> parse_stage_list(std::string_view text);

/// By stage, the number of its last operator. Ends that are not given are chosen so that the longest stage
/// takes as little time per device as possible; `seconds` is by operator. InputError for operators that the
/// model does not have or that come in another order, and for more stages than operators.
std::vector<std::int32_t> last_operators(const OperatorGraph& graph, const std::vector<double>& seconds,
                                         const std::vector<ListedStage>& stages);

/// Devices of each stage, in the topology's order. InputError when it has fewer.
std::vector<StageGroup> stage_devices(const Topology& topology, const std::vector<ListedStage>& stages);

/// Plans data parallelism inside each of the stages, or of their replicas.
PipelinedStrategy listed_stages(const OperatorGraph& graph, const CostModel& costs,
                                const std::vector<ListedStage>& stages, const std::string& schedule);

}  // namespace pipesim
