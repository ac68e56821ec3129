#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "search/joint/joint_state.h"
#include "sim/base/json_reader.h"

namespace pipesim {

/// JSON objects for checkpoints, everything to the last bit. Readers throw InputError `FILE: /place: …` where
/// a plan is none of this many operators on these devices; whether it is legal only an evaluator says.
nlohmann::ordered_json json_of(const JointPlan& plan);

/// The model with any number of samples and its sequence divided like this; nullptr when that is impossible.
using DividedGraphs = std::function<const OperatorGraph*(const SequenceDivision& sequence)>;
JointPlan parse_joint_plan(const JsonValue& value, const DividedGraphs& graphs, const Topology& topology);

nlohmann::ordered_json json_of(const JointState& state);
/// Reads the state of a search with this number of starts.
JointState parse_joint_state(const JsonValue& value, const DividedGraphs& graphs, const Topology& topology,
                             std::size_t starts);

}  // namespace pipesim
