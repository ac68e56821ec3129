#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/onnx/reader/model_writer.h"
#include "models/onnx/reader/shape_inference.h"

namespace pipesim {

enum class OnnxForm : std::uint8_t {
  None,      ///< left out
  Constant,  ///< its values are known
  Data,      ///< comes in, or is made of integers and constants: it has no gradient
  Weight,    ///< an initializer
  Tensor     ///< of the model that is being written
};

/// What a name in an ONNX file stands for.
struct OnnxValue {
  OnnxForm form = OnnxForm::None;
  OnnxShape shape;
  int type = onnx::TensorProto::UNDEFINED;
  std::string name;         ///< in the file; that of the initializer where it was transposed
  TensorId tensor;          ///< of a Tensor
  bool transposed = false;  ///< a Weight of two dims: the initializer has them the other way round
  bool loss = false;        ///< a Tensor: a loss, or a sum of losses
  std::shared_ptr<const OnnxConstant> constant;
};

/// How many nodes, or results of the graph, read each name.
using OnnxUses = std::unordered_map<std::string, int>;

/// A node and what it reads, for the functions that write it as operators (rules.h).
class OnnxNode {
 public:
  OnnxNode(ModelWriter& writer, const OnnxUses& uses, const onnx::NodeProto& node, std::int64_t opset,
           std::vector<OnnxValue> inputs);

  [[nodiscard]] const onnx::NodeProto& proto() const { return node_; }
  [[nodiscard]] const std::string& op() const { return node_.op_type(); }
  [[nodiscard]] std::int64_t opset() const { return opset_; }
  [[nodiscard]] ModelWriter& writer() const { return writer_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  [[nodiscard]] std::size_t count() const { return inputs_.size(); }
  /// Whether somebody reads the result.
  [[nodiscard]] bool wanted(int result) const;
  [[nodiscard]] bool has(std::size_t i) const {
    return i < inputs_.size() && inputs_[i].form != OnnxForm::None;
  }
  /// Returns the input, or one of form None where the node does not have it.
  [[nodiscard]] const OnnxValue& in(std::size_t i) const;
  [[nodiscard]] bool is_weight(std::size_t i) const { return in(i).form == OnnxForm::Weight; }
  [[nodiscard]] std::size_t rank(std::size_t i = 0) const { return in(i).shape.size(); }

  [[nodiscard]] std::int64_t integer(const std::string& name, std::int64_t fallback) const;
  [[nodiscard]] double real(const std::string& name, double fallback) const;
  [[nodiscard]] std::vector<std::int64_t> integers(const std::string& name) const;  ///< [] without
  [[nodiscard]] std::string text(const std::string& name, const std::string& fallback) const;
  [[nodiscard]] bool given(const std::string& name) const;

  /// The only element of a constant.
  [[nodiscard]] std::optional<double> number(std::size_t i) const;
  /// The same, also of a weight that is read as a setting.
  [[nodiscard]] std::optional<double> setting(std::size_t i) const;
  /// All elements of a constant of integers.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> values(std::size_t i) const;
  /// Reads a list from an input or, in older files, from an attribute; nothing where neither has it.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> list(std::size_t i, const std::string& name) const;
  /// A dim from 0 to below the rank; nothing for others.
  static std::optional<std::int64_t> axis(std::int64_t given, std::size_t rank);

  // Each function below adds operators, and returns what they result in. `part` comes behind the name.

  /// The value as a tensor that operators read: a parameter for a weight, an input of the model for data.
  OnnxValue tensor(const OnnxValue& value);
  OnnxValue tensor(std::size_t i) { return tensor(in(i)); }
  /// An input of the model, of integers where `type` is Int64.
  OnnxValue data(const std::string& name, const OnnxShape& shape, DataType type);
  /// What is added to scores: 0 where `seen` is true (or false, with `inverted`), else −∞.
  OnnxValue mask(const OnnxValue& seen, bool inverted);

  OnnxValue write(const std::string& kind, const std::vector<OnnxValue>& inputs,
                  const Attributes& attributes = {}, const std::string& part = {},
                  const std::vector<std::string>& weights = {});
  std::vector<OnnxValue> write_all(const std::string& kind, const std::vector<OnnxValue>& inputs,
                                   const Attributes& attributes, const std::string& part = {});
  /// Writes an operator on one tensor whose result has its shape. It computes along the last dim if
  /// `last_dim`, else on each element alone. A transpose or reshape before it moves behind it, where the
  /// order does not matter.
  OnnxValue each(const std::string& kind, const OnnxValue& x, const Attributes& attributes = {},
                 const std::string& part = {}, bool last_dim = false,
                 const std::vector<std::string>& weights = {});
  /// A linear over the last dim; rows that were transposed or flattened before come back to what they were.
  OnnxValue linear(const OnnxValue& x, std::int64_t out, const Attributes& attributes,
                   const std::vector<std::string>& weights);
  /// A product over the last two dims; flattened leading dims come back to what they were.
  OnnxValue matmul(const OnnxValue& p, const OnnxValue& q, bool transpose_q = false,
                   const std::string& part = {});
  OnnxValue affine(const OnnxValue& x, double factor, double offset = 0, const std::string& part = {});
  OnnxValue reshaped(const OnnxValue& x, const OnnxShape& shape, const std::string& part = {});
  OnnxValue transposed(const OnnxValue& x, const std::vector<std::int64_t>& order,
                       const std::string& part = {});
  OnnxValue expanded(const OnnxValue& x, const OnnxShape& shape, const std::string& part = {});
  OnnxValue cut(const OnnxValue& x, std::int64_t axis, std::int64_t start, std::int64_t length,
                std::int64_t step, const std::string& part = {});
  std::vector<OnnxValue> divided(const OnnxValue& x, std::int64_t axis,
                                 const std::vector<std::int64_t>& sizes, const std::string& part = {});
  OnnxValue reduced(const OnnxValue& x, const std::vector<std::int64_t>& axes, const std::string& mode,
                    bool keep, const std::string& part = {});
  /// Writes an operator of two tensors, either of which may be stretched.
  OnnxValue binary(const std::string& kind, const OnnxValue& x, const OnnxValue& y,
                   const std::string& part = {});
  /// An einsum of one or two tensors, whose dims of length 1 may be stretched.
  OnnxValue contracted(std::vector<std::string> terms, std::vector<OnnxValue> values, const std::string& out,
                       const std::string& part = {});

  /// Names the operator after the module whose weight it has, if it has one.
  void name_by_weight(std::size_t i);
  [[nodiscard]] bool shared(const OnnxValue& weight) const;

  void give(OnnxValue result) { results_.push_back(std::move(result)); }
  [[nodiscard]] std::vector<OnnxValue>& results() { return results_; }

 private:
  [[nodiscard]] OnnxValue made(TensorId tensor) const;
  /// The operator of this kind that made a tensor, or nullptr.
  [[nodiscard]] const ModelWriter::Written* maker(const OnnxValue& x, std::string_view kind) const;
  struct Turned;
  [[nodiscard]] std::optional<Turned> turned(const OnnxValue& x) const;
  [[nodiscard]] std::optional<OnnxValue> flattened(const OnnxValue& x) const;
  OnnxValue merged_last(const OnnxValue& x, std::size_t dims);
  std::string part_name(const std::string& part) const;

  ModelWriter& writer_;
  const OnnxUses& uses_;
  const onnx::NodeProto& node_;
  std::int64_t opset_;
  std::vector<OnnxValue> inputs_, results_;
  std::string name_;
};

}  // namespace pipesim
