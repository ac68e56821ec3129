#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/named_sizes.h"
#include "models/operator_graph.h"

namespace pipesim {

// A model file, version 1 (docs/files.md tells more):
//
//   {
//     "pipesim_model": 1,
//     "name": "two-layers", "sizes": {"b": 64, "h": 512}, "batch": "b", "dtype": "float32",
//     "inputs": [{"name": "x", "shape": ["b", 784]}, {"name": "labels", "shape": ["b"], "dtype": "int64"}],
//     "operators": [
//       {"name": "fc1", "kind": "linear", "inputs": ["x"], "out": "h", "activation": "relu"},
//       {"name": "fc2", "kind": "linear", "inputs": ["fc1"], "out": 10},
//       {"name": "loss", "kind": "cross_entropy", "inputs": ["fc2", "labels"]}
//     ]
//   }
//
// Operators may stand in any order. An operator's only output has its name, several are "name.output", unless
// "outputs" names them. "weights" names weights, and equal names share one; "repeat" is Operator::repeat;
// with "frozen": true the operator's weights are not trained. An input may have "before", the operator that
// it precedes in the numbering of tensors, "" for none, which changes nothing else; and "content":
// "causal_mask": it is 0 where a key does not come after its query, −∞ elsewhere. "fuse": true joins
// operators that are written one by one, see models/fusion.h. "sizes" names sizes, with the values that they
// have unless others are bound; wherever an integer stands (in "batch" a name only), a name or a product such
// as "4*h" may stand, see NamedSizes.

/// InputError `FILE: /json/pointer: …` when the text is not a model, or when it has no size that `bound`
/// names. Sizes bound to other values than the file's are part of the graph's name: "two-layers:b=32".
OperatorGraph parse_model(std::string_view text, const std::string& source,
                          const std::vector<NamedSize>& bound = {});
OperatorGraph load_model(const std::string& path, const std::vector<NamedSize>& bound = {});

/// The sizes that a model file names.
struct ModelFileSizes {
  std::vector<NamedSize> sizes;  ///< in the file's order, with its values
  std::string batch;             ///< the one that counts samples; "": none, the batch is a number
  std::int64_t samples = 1;      ///< the batch
};
/// Reads this part of the file only. InputError as parse_model.
ModelFileSizes load_model_sizes(const std::string& path);

/// Text that parse_model reads back to an equal graph. All sizes are numbers.
std::string to_json(const OperatorGraph& graph);

/// The same with the batch as a named size "b". `doubled` is the model with twice the samples; every number
/// that is twice as large there is written with "b". All sizes are numbers if some size grows in another way.
std::string to_json_with_batch(const OperatorGraph& graph, const OperatorGraph& doubled);

}  // namespace pipesim
