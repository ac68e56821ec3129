#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/operator.h"

namespace pipesim {

enum class TensorKind : std::uint8_t { Data, Weight, Activation, State };

/// How a frozen weight lies in memory. Before each product a kernel brings it into its type.
enum class WeightStorage : std::uint8_t {
  Own,        ///< in its type
  EightBits,  ///< 8 bits; scales of whole rows, too few to count (Dettmers et al., arXiv:2208.07339)
  FourBits    ///< NF4: blocks of 64 have a scale in 8 bits, 256 of those one in 32, 4.127 bits in all
              ///< (Dettmers et al., arXiv:2305.14314, section 3)
};
/// "own", "8bit" or "4bit". InternalError for other words.
WeightStorage parse_weight_storage(const std::string& word);

struct Tensor {
  std::string name;  ///< unique in the graph
  TensorKind kind = TensorKind::Activation;
  std::vector<std::int64_t> shape;  ///< empty: a scalar
  DataType type = DataType::Float32;
  OperatorId producer;  ///< invalid for data and weights
  bool frozen = false;  ///< a weight that is not trained: no gradient, no optimizer state
  WeightStorage storage = WeightStorage::Own;  ///< of a frozen weight
  bool operator==(const Tensor&) const = default;
  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] double stored_bits() const;                 ///< of an element
  [[nodiscard]] Bytes stored(std::int64_t elements) const;  ///< what so many of its elements take
  [[nodiscard]] Bytes bytes() const;
};

/// A use of a tensor: operators()[op].uses[use].
struct UseRef {
  OperatorId op;
  std::int32_t use = 0;
  bool operator==(const UseRef&) const = default;
};

/// The model: operators in a topological order (every input's producer comes before it), and their tensors.
/// Immutable; build one with GraphBuilder, the zoo, or a model file.
class OperatorGraph {
 public:
  /// Checks names, order, shapes against uses; InternalError or InputError (see GraphBuilder) on faults.
  OperatorGraph(std::string name, std::int64_t batch, std::vector<Tensor> tensors,
                std::vector<Operator> operators);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::int64_t batch() const { return batch_; }  ///< samples per microbatch
  [[nodiscard]] std::span<const Tensor> tensors() const { return tensors_; }
  [[nodiscard]] std::span<const Operator> operators() const { return operators_; }
  [[nodiscard]] const Tensor& tensor(TensorId id) const { return tensors_[id.index()]; }
  [[nodiscard]] const Operator& op(OperatorId id) const { return operators_[id.index()]; }
  [[nodiscard]] std::span<const UseRef> consumers(
      TensorId id) const;  ///< uses that are not outputs, in order
  /// Whether the gradient of the tensor must be computed: it is a weight that is trained, or depends on one.
  [[nodiscard]] bool wants_gradient(TensorId id) const { return wants_gradient_[id.index()]; }
  /// Whether a gradient reaches the tensor: a loss of the graph depends on it, or any output where there is
  /// no loss.
  [[nodiscard]] bool gets_gradient(TensorId id) const { return gets_gradient_[id.index()]; }

  [[nodiscard]] std::int64_t parameter_count() const;         ///< elements of all weights, shared ones once
  [[nodiscard]] std::int64_t frozen_parameter_count() const;  ///< of those that are not trained
  /// The type that the model's builder was given, as far as it shows: weights have it, and results of
  /// operators that compute something, but for losses; float32 where nothing shows it.
  [[nodiscard]] DataType type_of_results() const;
  [[nodiscard]] Flops forward_flops() const;      ///< of one iteration, unsplit
  [[nodiscard]] std::string fingerprint() const;  ///< 16 hex digits over all that changes a plan's meaning

  bool operator==(const OperatorGraph& o) const {
    return name_ == o.name_ && batch_ == o.batch_ && tensors_ == o.tensors_ && operators_ == o.operators_;
  }

 private:
  void index_consumers();
  void find_gradients();

  std::string name_;
  std::int64_t batch_;
  std::vector<Tensor> tensors_;
  std::vector<Operator> operators_;
  std::vector<std::int32_t> consumer_begin_;
  std::vector<UseRef> consumers_;
  std::vector<bool> wants_gradient_, gets_gradient_;
};

}  // namespace pipesim
