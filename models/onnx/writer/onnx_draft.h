#pragma once

#include <onnx/onnx_pb.h>

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "models/operator_graph.h"

namespace pipesim {

/// The ONNX graph that is being written. Values are known by their names.
class OnnxDraft {
 public:
  /// The model's inputs, weights and states, without any node.
  explicit OnnxDraft(const OperatorGraph& model);
  OnnxDraft(const OnnxDraft&) = delete;
  OnnxDraft& operator=(const OnnxDraft&) = delete;

  /// Adds a node. Its name and those of its results begin with `prefix`.
  std::vector<std::string> add(const std::string& prefix, const std::string& type,
                               const std::vector<std::string>& inputs, const Attributes& attributes = {},
                               std::size_t results = 1);
  /// Adds a node of the domain "pipesim" with the names given.
  void add_own(const std::string& name, const std::string& kind, const std::vector<std::string>& inputs,
               const std::vector<std::string>& results, const Attributes& attributes);
  [[nodiscard]] int nodes() const { return graph_.node_size(); }
  /// Renames `value`, made by a node from `first` on, to `tensor`, and that node to `name` unless that is "".
  void rename(int first, const std::string& value, const std::string& tensor, const std::string& name);

  /// Constants that stand in the file, one for each content.
  std::string integers(const std::vector<std::int64_t>& values);
  std::string integer(std::int64_t value);  ///< a scalar
  std::string number(double value, DataType type);
  /// A tensor whose elements are all the same, made by a node.
  std::string filled(const std::vector<std::int64_t>& shape, double value, DataType type);
  /// Returns what `make` added under the prefix "shared/KEY" at the first call with this key.
  std::string shared(const std::string& key,
                     const std::function<std::string(const std::string& prefix)>& make);

  /// Returns the file with all results of `model`, serialised.
  [[nodiscard]] std::string finish(const OperatorGraph& model);

 private:
  std::string unique(const std::string& name);
  std::string constant(const std::string& key, onnx::TensorProto tensor);

  onnx::ModelProto file_;
  onnx::GraphProto& graph_;
  bool own_domain_ = false;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, int> numbers_;
  std::unordered_map<std::string, std::string> by_key_;  ///< constants and what is shared
};

int onnx_type(DataType type);

}  // namespace pipesim
