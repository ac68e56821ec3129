#pragma once

#include <string>
#include <string_view>

#include "models/operator_graph.h"

namespace pipesim {

// A model file, version 1:
//
//   {
//     "pipesim_model": 1,
//     "name": "two-layers", "batch": 64, "dtype": "float32",
//     "inputs": [{"name": "x", "shape": [64, 784]}, {"name": "labels", "shape": [64], "dtype": "int64"}],
//     "operators": [
//       {"name": "fc1", "kind": "linear", "inputs": ["x"], "out": 512, "activation": "relu"},
//       {"name": "fc2", "kind": "linear", "inputs": ["fc1"], "out": 10},
//       {"name": "loss", "kind": "cross_entropy", "inputs": ["fc2", "labels"]}
//     ]
//   }
//
// Operators may stand in any order. An operator's only output has its name, several are "name.output", unless
// "outputs" names them. "weights" names weights, and equal names share one; "repeat" is Operator::repeat. An
// input may say "before": the operator it precedes in the numbering of tensors, "" for none; this changes
// nothing else.

/// InputError `FILE: /json/pointer: …` when the text is not a model.
OperatorGraph parse_model(std::string_view text, const std::string& source);
OperatorGraph load_model(const std::string& path);

/// Text that parse_model reads back to an equal graph.
std::string to_json(const OperatorGraph& graph);

}  // namespace pipesim
