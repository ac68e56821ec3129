#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "models/graph_builder.h"
#include "models/onnx/reader/folding/constant.h"

namespace pipesim {

/// The model that is being read: operators as they are found, with their shapes. What no result needs is left
/// out in the end.
class ModelWriter {
 public:
  struct Written {
    OperatorRequest request;
    std::vector<TensorId> outputs;
  };

  ModelWriter(std::string name, std::int64_t batch, DataType type);

  [[nodiscard]] std::int64_t batch() const { return batch_; }
  [[nodiscard]] const OnnxShape& shape(TensorId tensor) const { return draft_.shape(tensor); }
  [[nodiscard]] const std::string& tensor_name(TensorId tensor) const { return draft_.tensor_name(tensor); }
  /// The dim that counts samples, or −1.
  [[nodiscard]] std::int32_t sample_dim(TensorId tensor) const { return draft_.dim_of_samples(tensor); }

  /// `name`, with a number behind it where an operator or a tensor has it.
  std::string unique(const std::string& name);
  /// An input of the model; the same one where the name was asked for before with this type and shape.
  TensorId data(const std::string& name, const OnnxShape& shape, DataType type);
  TensorId data(const std::string& name, const OnnxShape& shape) { return data(name, shape, type_); }
  /// Marks an input as a causal mask (models/fusion.h) if `look()` says so; it looks at each input once.
  template <class Look>
  void mark_causal(TensorId data, const Look& look) {
    Input& input = inputs_.at(data);
    if (!input.looked_at) input.causal = look();
    input.looked_at = true;
  }

  /// InputError where the kind does not take these inputs and attributes.
  const std::vector<TensorId>& add(OperatorRequest request);
  /// What made the tensor; none of data.
  [[nodiscard]] const Written* maker(TensorId tensor) const;
  [[nodiscard]] const std::vector<Written>& operators() const { return operators_; }

  /// The graph of what `results` need, with labels of repeats, joined as models/fusion.h says.
  [[nodiscard]] OperatorGraph build(const std::vector<TensorId>& results) const;
  /// The operators of that graph before they are joined, in order.
  [[nodiscard]] std::vector<std::size_t> needed(const std::vector<TensorId>& results) const;

 private:
  struct Input {
    std::string name;
    OnnxShape shape;
    DataType type;
    bool causal = false, looked_at = false;
  };

  std::string name_;
  std::int64_t batch_;
  DataType type_;
  GraphBuilder draft_;
  std::vector<Written> operators_;
  std::unordered_map<TensorId, std::size_t> makers_;
  std::unordered_map<TensorId, Input> inputs_;
  std::unordered_map<std::string, std::vector<TensorId>> inputs_by_name_;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, int> numbers_;
};

}  // namespace pipesim
