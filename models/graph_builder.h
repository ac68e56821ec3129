#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "models/operator_draft.h"
#include "models/operator_graph.h"

namespace pipesim {

/// An operator as a model file describes it: names are final and get no prefix.
struct OperatorRequest {
  std::string kind, name;
  std::vector<TensorId> inputs;
  Attributes attributes;
  std::vector<std::string> weights;  ///< see GraphBuilder::add_all
  std::vector<std::string> outputs;  ///< names of the outputs in order; "" or a shorter list: "<name>", or
                                     ///< "<name>.<output>" for kinds with several
  std::string repeat;
  bool frozen = false;  ///< its weights are not trained; weights that it shares must be frozen, too
};

/// Builds an OperatorGraph operator by operator. Each kind of operator infers its shapes, makes its weights
/// and factors; wrong shapes or attributes throw InputError with the operator's name and both shapes.
class GraphBuilder {
 public:
  GraphBuilder(std::string name, std::int64_t batch, DataType type = DataType::Float32);

  /// A data input of the model (no gradient).
  TensorId data(const std::string& name, std::vector<std::int64_t> shape);
  TensorId data(const std::string& name, std::vector<std::int64_t> shape, DataType type);

  /// Adds an operator of a registered kind (models/operator_kind.h) and returns its outputs.
  /// `weights`: names of the weights in the kind's order; "" or a shorter list: "<name>.<weight>". A name
  /// that exists already shares that weight; its shape must fit.
  std::vector<TensorId> add_all(const std::string& kind, const std::string& name,
                                const std::vector<TensorId>& inputs, const Attributes& attributes = {},
                                const std::vector<std::string>& weights = {});
  /// The same for kinds with one output.
  TensorId add(const std::string& kind, const std::string& name, const std::vector<TensorId>& inputs,
               const Attributes& attributes = {}, const std::vector<std::string>& weights = {});

  std::vector<TensorId> add_operator(const OperatorRequest& request);

  /// Operators added from here on belong to repeat `index` of the block `prefix`: names start with
  /// "<prefix><index>." and Operator::repeat is "<prefix>#.<name>". Scopes nest; end with end_repeat().
  /// Blocks of another `form` are no repeats of one another.
  void begin_repeat(const std::string& prefix, std::int64_t index, const std::string& form = "");
  void end_repeat();

  /// Products of operators that are added in a repeat from here on multiply in the type of a precision
  /// (models/precision.h; "own": the model's), except a router's. An input that several of them read is cast
  /// once. For backward they keep it in that type, or, where it is kept uncast, in its own.
  void multiply_in(const std::string& precision, bool keeps_uncast) {
    products_ = precision, keeps_uncast_ = keeps_uncast;
  }

  /// Weights of operators that are added from here on are frozen, or trained.
  void freeze(bool frozen) { frozen_ = frozen; }
  [[nodiscard]] bool in_repeat() const { return !name_prefixes_.empty(); }

  [[nodiscard]] const std::vector<std::int64_t>& shape(TensorId id) const;
  [[nodiscard]] const std::string& tensor_name(TensorId id) const { return tensors_[id.index()].name; }
  /// The dimension that counts samples, or −1.
  [[nodiscard]] std::int32_t dim_of_samples(TensorId id) const { return sample_dims_[id.index()]; }
  [[nodiscard]] TensorId find(
      const std::string& tensor) const;  ///< not valid() if there is none of this name
  [[nodiscard]] OperatorGraph build();

 private:
  TensorId add_tensor(Tensor tensor, std::int32_t sample_dim);
  void check_name(const std::string& name) const;
  [[nodiscard]] OperatorDraft draft(const OperatorRequest& request) const;
  void cast_operands(OperatorRequest& request);
  TensorId weight(const OperatorDraft& draft, const Tensor& wanted);

  std::string name_;
  std::int64_t batch_;
  DataType type_;
  std::vector<Tensor> tensors_;
  std::vector<Operator> operators_;
  std::vector<std::string> name_prefixes_, repeat_prefixes_;
  std::vector<std::int32_t> sample_dims_;  ///< per tensor: the dimension that counts samples, or −1
  double elements_ = 0;                    ///< of all tensors
  std::string products_ = "own";
  bool keeps_uncast_ = false, frozen_ = false;
  std::set<TensorId> cast_;  ///< inputs that are in the narrow type
  std::unordered_map<std::string, TensorId> tensor_by_name_;
  std::unordered_set<std::string> operator_names_;
};

}  // namespace pipesim
