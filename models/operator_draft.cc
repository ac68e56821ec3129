#include "models/operator_draft.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/errors.h"

namespace pipesim {

OperatorDraft::OperatorDraft(const OperatorKind& kind, std::string name, const Attributes& attributes,
                             std::vector<const Tensor*> inputs, DataType type, std::int64_t batch)
    : inputs_(std::move(inputs)), type_(type), batch_(batch) {
  op.name = std::move(name);
  op.kind = kind.name;
  if (inputs_.size() < kind.least_inputs || inputs_.size() > kind.most_inputs) {
    fail(fmt::format("has {} inputs, allowed: {}", inputs_.size(), kind.inputs));
  }
  try {
    op.attributes = complete_attributes(kind, attributes);
  } catch (const InputError& error) {
    fail(error.what());
  }
}

std::int64_t OperatorDraft::integer(const std::string& attribute) const {
  return std::get<std::int64_t>(op.attributes.at(attribute));
}

double OperatorDraft::real(const std::string& attribute) const {
  return std::get<double>(op.attributes.at(attribute));
}

const std::string& OperatorDraft::word(const std::string& attribute) const {
  return std::get<std::string>(op.attributes.at(attribute));
}

const std::vector<std::int64_t>& OperatorDraft::list(const std::string& attribute) const {
  return std::get<std::vector<std::int64_t>>(op.attributes.at(attribute));
}

std::size_t OperatorDraft::axis_attribute() const {
  const std::int64_t axis = integer("axis"), dims = static_cast<std::int64_t>(rank(0));
  if (axis >= dims) {
    fail(fmt::format("attribute \"axis\" is {} and input 0 has shape {}, allowed: 0 to {}", axis,
                     to_text(shape(0)), dims - 1));
  }
  return static_cast<std::size_t>(axis);
}

void OperatorDraft::require_rank(std::size_t input, std::size_t least, std::size_t most,
                                 std::string_view allowed) const {
  if (rank(input) >= least && rank(input) <= most) return;
  fail(fmt::format("input {} has shape {}, allowed: {}", input, to_text(shape(input)), allowed));
}

void OperatorDraft::require_integers(std::size_t input) const {
  const DataType found = inputs_[input]->type;
  if (is_floating(found)) {
    fail(fmt::format("input {} has type {}, allowed: an integer type", input, name_of(found)));
  }
}

void OperatorDraft::fail(const std::string& message) const {
  throw InputError(fmt::format("operator \"{}\" ({}): {}", op.name, op.kind, message));
}

FactorIndex OperatorDraft::factor(std::string name, FactorKind kind, std::int64_t size, bool uneven) {
  op.factors.push_back({std::move(name), kind, size, 1, INT64_MAX, uneven});
  return static_cast<FactorIndex>(op.factors.size() - 1);
}

FactorIndex OperatorDraft::unsplit_factor(std::string name, FactorKind kind, std::int64_t size) {
  const FactorIndex f = factor(std::move(name), kind, size);
  at(f).max_degree = 1;
  return f;
}

IndexExpr OperatorDraft::axis(FactorIndex f) const {
  return IndexExpr::axis(f, op.factors[static_cast<std::size_t>(f)].size);
}

std::vector<IndexExpr> OperatorDraft::axes(const std::vector<FactorIndex>& factors) const {
  std::vector<IndexExpr> dims;
  for (const FactorIndex f : factors) dims.push_back(axis(f));
  return dims;
}

TensorUse& OperatorDraft::add_use(Role role, std::vector<IndexExpr> dims) {
  TensorUse use;
  use.role = role;
  use.dims = std::move(dims);
  op.uses.push_back(std::move(use));
  return op.uses.back();
}

TensorUse& OperatorDraft::add_checked(Role role, std::size_t input, std::vector<IndexExpr> dims) {
  const std::vector<std::int64_t> wanted = extents(dims);
  if (wanted != shape(input)) {
    fail(fmt::format("input {} has shape {}, allowed: {}", input, to_text(shape(input)), to_text(wanted)));
  }
  return add_use(role, std::move(dims));
}

TensorUse& OperatorDraft::input(std::size_t input, std::vector<IndexExpr> dims) {
  const DataType found = inputs_[input]->type;
  if (!is_floating(found)) {
    fail(fmt::format("input {} has type {}, allowed: a floating-point type", input, name_of(found)));
  }
  return add_checked(Role::Input, input, std::move(dims));
}

TensorUse& OperatorDraft::moved_input(std::size_t input, std::vector<IndexExpr> dims) {
  return add_checked(Role::Input, input, std::move(dims));
}

TensorUse& OperatorDraft::index(std::size_t input, std::vector<IndexExpr> dims) {
  return add_checked(Role::Index, input, std::move(dims));
}

TensorUse& OperatorDraft::weight(const std::string& name, std::vector<IndexExpr> dims) {
  made_.push_back({op.uses.size(), name, type_});
  return add_use(Role::Weight, std::move(dims));
}

void OperatorDraft::store_weight() {
  made_.back().storage = parse_weight_storage(word("stored"));
  // Models keep the fingerprints that they had before weights could be stored otherwise.
  if (made_.back().storage == WeightStorage::Own) op.attributes.erase("stored");
}

TensorUse& OperatorDraft::state(const std::string& name, std::vector<IndexExpr> dims) {
  made_.push_back({op.uses.size(), name, DataType::Float32});
  return add_use(Role::State, std::move(dims));
}

TensorUse& OperatorDraft::output(const std::string& name, std::vector<IndexExpr> dims) {
  return output(name, std::move(dims), type_);
}

TensorUse& OperatorDraft::output(const std::string& name, std::vector<IndexExpr> dims, DataType type) {
  if (dims.size() > 8) fail(fmt::format("the result has {} dimensions, allowed: at most 8", dims.size()));
  made_.push_back({op.uses.size(), name, type});
  return add_use(Role::Output, std::move(dims));
}

std::vector<std::int64_t> extents(std::span<const IndexExpr> dims) {
  std::vector<std::int64_t> shape;
  for (const IndexExpr& expr : dims) shape.push_back(expr.extent);
  return shape;
}

namespace {

struct PlainDimension {
  std::string name;
  FactorKind kind = FactorKind::Attribute;
  bool uneven = false;
};

PlainDimension plain_dimension(std::size_t rank, std::size_t i) {
  using enum FactorKind;
  static const std::vector<std::vector<PlainDimension>> named = {
      {{"b", Sample}},
      {{"b", Sample}, {"h", Parameter}},
      {{"b", Sample}, {"s", Attribute, true}, {"h", Parameter}},
      {{"n", Sample}, {"c", Parameter}, {"h", Attribute, true}, {"w", Attribute, true}},
      {{"b", Sample}, {"s", Attribute, true}, {"g"}, {"r"}, {"d"}}};
  if (rank <= named.size()) return named[rank - 1][i];
  if (i < 2) return named.back()[i];
  return {fmt::format("d{}", i)};
}

}  // namespace

std::vector<FactorIndex> plain_factors(OperatorDraft& draft, const std::vector<std::int64_t>& shape) {
  std::vector<FactorIndex> factors;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const PlainDimension dim = plain_dimension(shape.size(), i);
    factors.push_back(draft.factor(dim.name, dim.kind, shape[i], dim.uneven));
  }
  return factors;
}

std::string numbered(const std::string& letter, std::size_t i) {
  return i == 0 ? letter : fmt::format("{}{}", letter, i + 1);
}

bool chooses(DataType type) { return type == DataType::Int64 || type == DataType::Int32; }

bool is_floating(DataType type) {
  return type != DataType::Int64 && type != DataType::Int32 && type != DataType::UInt8;
}

}  // namespace pipesim
