#pragma once

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "models/named_sizes.h"
#include "models/operator_graph.h"

namespace pipesim {

/// A model that was read from an ONNX file.
struct OnnxModel {
  OperatorGraph graph;
  std::map<std::string, std::string> results;  ///< of the file, with the tensors of the graph that they are
  std::vector<std::string> notes;              ///< a line each: what is opaque, what is left out
};

/// Dims of a file's inputs that have a name, or no length: "batch", or "x.2" for dim 2 of input x.
struct OnnxSizes {
  std::vector<std::string> names;
  std::string batch;         ///< the one that counts samples, dim 0 of the first input; "": it has a length
  std::int64_t samples = 1;  ///< that length
};

/// Reads an ONNX file (onnx.proto of ONNX 1.12, any operator set) as a model: operators, shapes, and names of
/// weights, whose values are not read. `bound` has a length for each of its OnnxSizes.
///
/// - Floating-point initializers are weights, one each; those with a single value, integers and booleans are
///   constants, and what is made of constants alone is computed. What is made of integers that come in is an
///   input of the model.
/// - Attention, norms and activations that are written out are joined (models/fusion.h).
/// - Operators of domains that pipesim does not know, and those that no kind stands for, become "opaque";
///   functions of the file, and branches whose condition is a constant, are written in place of their call.
///
/// InputError `FILE: …`, with the node and its operator, where the file is no ONNX model, where a shape is
/// not known, and for control flow that depends on values.
OnnxModel load_onnx(const std::string& path, const std::vector<NamedSize>& bound = {});
/// The same from a stream of `size` bytes; `source` stands in messages.
OnnxModel read_onnx_model(std::istream& in, std::int64_t size, const std::string& source,
                          const std::vector<NamedSize>& bound = {});

OnnxSizes load_onnx_sizes(const std::string& path);
OnnxSizes read_onnx_sizes(std::istream& in, std::int64_t size, const std::string& source);

}  // namespace pipesim
