#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/operator_graph.h"
#include "models/operator_kind.h"

namespace pipesim {

/// An operator while its kind writes it down: the kind reads shapes and attributes, declares factors, and
/// says how each input, weight and output follows them. Shapes of weights and outputs are the extents of
/// their dims. Methods throw InputError `operator "fc1" (linear): …` when the inputs do not fit.
class OperatorDraft {
 public:
  /// `inputs`: the tensors in order. `type`: of weights and results. `batch`: samples per iteration of the
  /// model.
  OperatorDraft(const OperatorKind& kind, std::string name, const Attributes& attributes,
                std::vector<const Tensor*> inputs, DataType type, std::int64_t batch);

  Operator op;                   ///< tensors of uses are filled in by GraphBuilder
  FactorIndex new_samples = -1;  ///< a factor that counts samples though no input has any

  [[nodiscard]] std::size_t inputs() const { return inputs_.size(); }
  [[nodiscard]] const std::vector<std::int64_t>& shape(std::size_t input) const {
    return inputs_[input]->shape;
  }
  [[nodiscard]] std::size_t rank(std::size_t input) const { return shape(input).size(); }
  [[nodiscard]] DataType type(std::size_t input) const { return inputs_[input]->type; }
  [[nodiscard]] std::int64_t batch() const { return batch_; }
  [[nodiscard]] DataType type() const { return type_; }
  [[nodiscard]] double element_bytes() const { return static_cast<double>(bytes_per_element(type_)); }

  [[nodiscard]] std::int64_t integer(const std::string& attribute) const;  ///< also of flags
  [[nodiscard]] bool flag(const std::string& attribute) const { return integer(attribute) != 0; }
  /// A flag that came later than the kind: where it is off it is left out of the attributes, so that models
  /// keep the fingerprints that they had before.
  bool added_flag(const std::string& attribute) {
    const bool on = flag(attribute);
    if (!on) op.attributes.erase(attribute);
    return on;
  }
  /// A number or a word that came later than the kind: where it is `usual` it is left out in the same way.
  std::int64_t added_integer(const std::string& attribute, std::int64_t usual) {
    const std::int64_t value = integer(attribute);
    if (value == usual) op.attributes.erase(attribute);
    return value;
  }
  double added_real(const std::string& attribute, double usual) {
    const double value = real(attribute);
    if (value == usual) op.attributes.erase(attribute);
    return value;
  }
  std::string added_word(const std::string& attribute, const std::string& usual) {
    const std::string value = word(attribute);
    if (value == usual) op.attributes.erase(attribute);
    return value;
  }
  [[nodiscard]] double real(const std::string& attribute) const;
  [[nodiscard]] const std::string& word(const std::string& attribute) const;
  [[nodiscard]] const std::vector<std::int64_t>& list(const std::string& attribute) const;
  /// The attribute "axis", which must be a dimension of input 0.
  [[nodiscard]] std::size_t axis_attribute() const;

  /// Refuses inputs of other ranks; `allowed` is the shape in letters: "[n, c, h, w]".
  void require_rank(std::size_t input, std::size_t least, std::size_t most, std::string_view allowed) const;
  void require_integers(std::size_t input) const;  ///< refuses floating-point inputs
  [[noreturn]] void fail(const std::string& message) const;

  FactorIndex factor(std::string name, FactorKind kind, std::int64_t size, bool uneven = false);
  FactorIndex unsplit_factor(std::string name, FactorKind kind, std::int64_t size);  ///< max_degree 1
  Factor& at(FactorIndex f) { return op.factors[static_cast<std::size_t>(f)]; }
  /// A dimension that runs over a factor from end to end.
  [[nodiscard]] IndexExpr axis(FactorIndex f) const;
  [[nodiscard]] std::vector<IndexExpr> axes(const std::vector<FactorIndex>& factors) const;

  /// The use's shape must be the input's shape; an input is floating point unless the kind only moves
  /// elements. References are valid until the next use is added.
  TensorUse& input(std::size_t input, std::vector<IndexExpr> dims);
  TensorUse& moved_input(std::size_t input, std::vector<IndexExpr> dims);  ///< any type
  TensorUse& index(std::size_t input, std::vector<IndexExpr> dims);
  TensorUse& weight(const std::string& name, std::vector<IndexExpr> dims);
  void store_weight();  ///< the weight added last, as the attribute "stored" says
  TensorUse& state(const std::string& name, std::vector<IndexExpr> dims);
  TensorUse& output(const std::string& name,
                    std::vector<IndexExpr> dims);  ///< "" for an operator's only output
  TensorUse& output(const std::string& name, std::vector<IndexExpr> dims, DataType type);

  /// A tensor that the operator makes: weights, states and outputs, in the order of their uses.
  struct Made {
    std::size_t use = 0;
    std::string name;  ///< within the operator; "" for its only output
    DataType type = DataType::Float32;
    WeightStorage storage = WeightStorage::Own;
    [[nodiscard]] std::string full_name(const std::string& owner) const {
      return name.empty() ? owner : owner + "." + name;
    }
  };
  [[nodiscard]] const std::vector<Made>& made() const { return made_; }

 private:
  TensorUse& add_use(Role role, std::vector<IndexExpr> dims);
  TensorUse& add_checked(Role role, std::size_t input, std::vector<IndexExpr> dims);

  std::vector<const Tensor*> inputs_;
  DataType type_;
  std::int64_t batch_;
  std::vector<Made> made_;
};

/// The lengths of a use's dimensions.
std::vector<std::int64_t> extents(std::span<const IndexExpr> dims);

/// One factor per dimension of a plain tensor, named by rank: [b], [b, h], [b, s, h], [n, c, h, w], [b, s, g,
/// r, d], beyond that [b, s, d2, d3, …].
std::vector<FactorIndex> plain_factors(OperatorDraft& draft, const std::vector<std::int64_t>& shape);

/// "i", "i2", "i3", …: names of several factors that share a letter.
std::string numbered(const std::string& letter, std::size_t i);

bool is_floating(DataType type);
/// Integers that choose elements, and have no gradient. UInt8 counts bytes, of which nothing else is known.
bool chooses(DataType type);

/// Adds the cost of an activation that is fused behind the operator. Makes the `partial` factors
/// unsplittable: split along them, the value before the activation would be a partial sum. Acts on the use
/// added last.
void fuse_activation(OperatorDraft& draft, const std::string& activation,
                     const std::vector<FactorIndex>& elements, const std::vector<FactorIndex>& partial);

/// Lets the operator's products multiply in the type of its attribute "products": `input`, `weight` and
/// `result` are the elements of its operands and of its result.
void cast_operands(OperatorDraft& draft, const std::vector<FactorIndex>& input,
                   const std::vector<FactorIndex>& weight, const std::vector<FactorIndex>& result);
/// Attributes of a kind with those that cast_operands() reads.
std::vector<AttributeSchema> with_casts(std::vector<AttributeSchema> attributes);

/// The attribute that OperatorDraft::store_weight() reads.
AttributeSchema stored_attribute();

/// "none" and the names of activations, for a kind's "activation" attribute.
AttributeSchema activation_attribute();

}  // namespace pipesim
