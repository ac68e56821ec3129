#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/operator_graph.h"
#include "sim/base/json_reader.h"
#include "taskgraph/plan/pipeline.h"
#include "taskgraph/plan/recompute.h"

namespace pipesim {

/// The stages of a plan file with their schedule and replicas, see to_json() in plan_json.h; nothing where it
/// has none. InputError where an operator is unknown, in no stage or in two.
std::optional<Pipeline> read_pipeline(const JsonValue& plan, const OperatorGraph& graph);
/// What a plan file runs again: a name; or a list of segments, each a list of operators and ranges, or one of
/// them.
Recompute read_recompute(const JsonValue& plan, const OperatorGraph& graph);

/// The members "stages" and "recompute" of a plan file, a line for each part, with the comma before them.
std::string stages_text(const OperatorGraph& graph, const Pipeline& pipeline);
std::string segments_text(const OperatorGraph& graph, const std::vector<std::int32_t>& segment_of);

}  // namespace pipesim
