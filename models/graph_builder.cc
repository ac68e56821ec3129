#include "models/graph_builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/box.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

/// Far above any real model, and far enough below 2⁶³ that sums of bytes cannot overflow.
constexpr double most_elements = 1125899906842624;  // 2⁵⁰

double count_elements(const std::vector<std::int64_t>& shape) {
  double n = 1;
  for (const std::int64_t extent : shape) n *= static_cast<double>(extent);
  return n;
}

/// The factor that a dimension follows most coarsely, or −1.
FactorIndex leading_factor(const IndexExpr& expr) { return expr.factors.empty() ? -1 : expr.factors.front(); }

/// A factor counts samples if it runs over the sample dimension of an input, wherever that dimension stands;
/// a factor that its kind calls Sample but that reaches none (positions, say) is an ordinary Attribute.
void mark_sample_factors(Operator& op, const std::vector<TensorId>& inputs,
                         const std::vector<std::int32_t>& dims, FactorIndex new_samples) {
  if (inputs.empty()) return;
  std::vector<bool> reached(op.factors.size(), false);
  if (new_samples >= 0) reached[static_cast<std::size_t>(new_samples)] = true;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::int32_t dim = dims[inputs[i].index()];
    const FactorIndex f = dim < 0 ? -1 : leading_factor(op.uses[i].dims[static_cast<std::size_t>(dim)]);
    if (f >= 0) reached[static_cast<std::size_t>(f)] = true;
  }
  for (std::size_t f = 0; f < op.factors.size(); ++f) {
    Factor& factor = op.factors[f];
    if (reached[f]) {
      factor.kind = FactorKind::Sample;
      factor.uneven = false;
    } else if (factor.kind == FactorKind::Sample) {
      factor.kind = FactorKind::Attribute;
      factor.uneven = true;
    }
  }
}

std::int32_t sample_dim(const Operator& op, const TensorUse& use) {
  for (std::size_t i = 0; i < use.dims.size(); ++i) {
    const FactorIndex f = leading_factor(use.dims[i]);
    if (f >= 0 && op.factors[static_cast<std::size_t>(f)].kind == FactorKind::Sample) {
      return static_cast<std::int32_t>(i);
    }
  }
  return -1;
}

void check_name_count(const OperatorDraft& draft, Role role, const std::vector<std::string>& names) {
  const auto& made = draft.made();
  const auto most = static_cast<std::size_t>(std::count_if(
      made.begin(), made.end(), [&](const auto& tensor) { return draft.op.uses[tensor.use].role == role; }));
  if (names.size() <= most) return;
  draft.fail(fmt::format("{} names of {}s, allowed: at most {}", names.size(),
                         role == Role::Weight ? "weight" : "output", most));
}

/// What only the gradients of weights would need is not kept.
void forget_weight_gradients(Operator& op) {
  for (TensorUse& use : op.uses) {
    if (!use.saved_for_weights) continue;
    use.saved = use.saved_for_weights = false;
    use.saved_as.reset();
  }
  op.flops_backward_weight.clear();
  // A loss in chunks makes both gradients in one pass; that of the weight is as much work as the logits.
  if (op.kind != "linear_cross_entropy") return;
  const ProductTerm& logits = op.remade_products.front();
  op.flops_backward_input.push_back({-logits.coefficient, logits.factors});
}

/// The i-th given name, or the default where none is given.
std::string name_or(const std::vector<std::string>& given, std::size_t i, const std::string& fallback) {
  return i < given.size() && !given[i].empty() ? given[i] : fallback;
}

}  // namespace

GraphBuilder::GraphBuilder(std::string name, std::int64_t batch, DataType type)
    : name_(std::move(name)), batch_(batch), type_(type) {
  if (batch < 1) throw InputError(fmt::format("model \"{}\": batch is {}, allowed: 1 or more", name_, batch));
  if (!is_floating(type)) {
    throw InputError(
        fmt::format("model \"{}\": type is {}, allowed: a floating-point type", name_, name_of(type)));
  }
}

TensorId GraphBuilder::data(const std::string& name, std::vector<std::int64_t> shape) {
  return data(name, std::move(shape), type_);
}

TensorId GraphBuilder::data(const std::string& name, std::vector<std::int64_t> shape, DataType type) {
  if (shape.size() > Box::max_dims || std::any_of(shape.begin(), shape.end(), [](auto n) { return n < 1; })) {
    throw InputError(fmt::format("input \"{}\" has shape {}, allowed: at most 8 dimensions of 1 or more",
                                 name, to_text(shape)));
  }
  const bool has_samples = !shape.empty() && shape.front() == batch_;
  return add_tensor({name, TensorKind::Data, std::move(shape), type, {}}, has_samples ? 0 : -1);
}

void GraphBuilder::check_name(const std::string& name) const {
  if (name.empty()) throw InputError(fmt::format("model \"{}\": a tensor without a name", name_));
  const auto found = tensor_by_name_.find(name);
  if (found == tensor_by_name_.end()) return;
  const OperatorId producer = tensors_[found->second.index()].producer;
  throw InputError(fmt::format(
      "tensor \"{}\" exists already{}", name,
      producer.valid() ? fmt::format(", made by operator \"{}\"", operators_[producer.index()].name) : ""));
}

TensorId GraphBuilder::add_tensor(Tensor tensor, std::int32_t sample_dim) {
  check_name(tensor.name);
  elements_ += count_elements(tensor.shape);
  if (elements_ > most_elements) {
    throw InputError(
        fmt::format("tensor \"{}\" has shape {}, allowed: {:.0f} elements in all tensors together",
                    tensor.name, to_text(tensor.shape), most_elements));
  }
  const TensorId id(tensors_.size());
  tensor_by_name_.emplace(tensor.name, id);
  sample_dims_.push_back(sample_dim);
  tensors_.push_back(std::move(tensor));
  return id;
}

TensorId GraphBuilder::weight(const OperatorDraft& draft, const Tensor& wanted) {
  const std::string& name = wanted.name;
  const auto found = tensor_by_name_.find(name);
  if (!wanted.frozen && wanted.storage != WeightStorage::Own)
    draft.fail("attribute \"stored\" is not own, allowed where the operator is frozen");
  if (found == tensor_by_name_.end()) return add_tensor(wanted, -1);
  const Tensor& shared = tensors_[found->second.index()];
  if (shared.kind != TensorKind::Weight)
    draft.fail(fmt::format("weight \"{}\": a tensor of that name is not a weight", name));
  if (shared.shape != wanted.shape) {
    draft.fail(fmt::format("shared weight \"{}\" has shape {}, allowed: {}", name, to_text(shared.shape),
                           to_text(wanted.shape)));
  }
  if (shared.storage != wanted.storage)
    draft.fail(fmt::format(
        "shared weight \"{}\": attribute \"stored\" must be the same for all that share it", name));
  if (shared.frozen != wanted.frozen) {
    draft.fail(fmt::format("shared weight \"{}\" is {}, allowed: frozen for all that share it or for none",
                           name, shared.frozen ? "frozen" : "trained"));
  }
  return found->second;
}

OperatorDraft GraphBuilder::draft(const OperatorRequest& request) const {
  const OperatorKind* kind = nullptr;
  try {
    kind = &operator_kind(request.kind);
  } catch (const InputError& error) {
    throw InputError(fmt::format("operator \"{}\": {}", request.name, error.what()));
  }
  std::vector<const Tensor*> inputs;
  for (const TensorId id : request.inputs) inputs.push_back(&tensors_.at(id.index()));
  OperatorDraft draft(*kind, request.name, request.attributes, inputs, type_, batch_);
  if (request.name.empty()) draft.fail("has no name");
  if (operator_names_.count(request.name) > 0) draft.fail("an operator of that name exists already");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]->kind == TensorKind::Data || inputs[i]->kind == TensorKind::Activation) continue;
    draft.fail(
        fmt::format("input {} is the weight \"{}\", allowed: inputs of the model and results of operators", i,
                    inputs[i]->name));
  }
  kind->build(draft);
  draft.op.repeat = request.repeat;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) draft.op.uses[i].tensor = request.inputs[i];
  mark_sample_factors(draft.op, request.inputs, sample_dims_, draft.new_samples);
  return draft;
}

std::vector<TensorId> GraphBuilder::add_operator(const OperatorRequest& request) {
  OperatorDraft made = draft(request);
  Operator& op = made.op;
  check_name_count(made, Role::Weight, request.weights);
  check_name_count(made, Role::Output, request.outputs);
  std::size_t weights = 0;
  std::vector<TensorId> outputs;
  for (const OperatorDraft::Made& tensor : made.made()) {
    TensorUse& use = op.uses[tensor.use];
    const std::string own = tensor.full_name(op.name);
    if (use.role == Role::Weight) {
      const std::string name = name_or(request.weights, weights++, own);
      use.tensor = weight(
          made,
          {name, TensorKind::Weight, extents(use.dims), tensor.type, {}, request.frozen, tensor.storage});
    } else if (use.role == Role::State) {
      use.tensor = add_tensor({own, TensorKind::State, extents(use.dims), tensor.type, {}}, -1);
    } else {
      const std::string name = name_or(request.outputs, outputs.size(), own);
      const OperatorId producer(operators_.size());
      outputs.push_back(add_tensor({name, TensorKind::Activation, extents(use.dims), tensor.type, producer},
                                   sample_dim(op, use)));
      use.tensor = outputs.back();
    }
  }
  if (request.frozen) forget_weight_gradients(op);
  operator_names_.insert(op.name);
  operators_.push_back(std::move(op));
  return outputs;
}

std::vector<TensorId> GraphBuilder::add_all(const std::string& kind, const std::string& name,
                                            const std::vector<TensorId>& inputs, const Attributes& attributes,
                                            const std::vector<std::string>& weights) {
  std::string full_name, repeat;
  for (std::size_t i = 0; i < name_prefixes_.size(); ++i) {
    full_name += name_prefixes_[i];
    repeat += repeat_prefixes_[i];
  }
  if (!repeat.empty()) repeat += name;
  OperatorRequest request{kind, full_name + name, inputs, attributes, weights, {}, repeat, frozen_};
  if (products_ != "own" && !repeat.empty()) cast_operands(request);
  return add_operator(request);
}

void GraphBuilder::cast_operands(OperatorRequest& request) {
  const bool can = operator_kind(request.kind).find_attribute("products") != nullptr;
  if (!can || request.attributes.contains("router")) return;
  request.attributes["products"] = products_;
  if (!cast_.insert(request.inputs.front()).second) request.attributes["cast_input"] = 0;
  if (keeps_uncast_) request.attributes["keep_uncast"] = 1;
}

TensorId GraphBuilder::add(const std::string& kind, const std::string& name,
                           const std::vector<TensorId>& inputs, const Attributes& attributes,
                           const std::vector<std::string>& weights) {
  const std::vector<TensorId> outputs = add_all(kind, name, inputs, attributes, weights);
  if (outputs.size() != 1) {
    throw InternalError(fmt::format("operator \"{}\" ({}) has {} outputs", name, kind, outputs.size()));
  }
  return outputs.front();
}

void GraphBuilder::begin_repeat(const std::string& prefix, std::int64_t index, const std::string& form) {
  name_prefixes_.push_back(fmt::format("{}{}.", prefix, index));
  repeat_prefixes_.push_back(prefix + "#." + form);
}

void GraphBuilder::end_repeat() {
  if (name_prefixes_.empty()) throw InternalError("end_repeat() without begin_repeat()");
  name_prefixes_.pop_back();
  repeat_prefixes_.pop_back();
}

const std::vector<std::int64_t>& GraphBuilder::shape(TensorId id) const {
  return tensors_.at(id.index()).shape;
}

TensorId GraphBuilder::find(const std::string& tensor) const {
  const auto found = tensor_by_name_.find(tensor);
  return found == tensor_by_name_.end() ? TensorId() : found->second;
}

OperatorGraph GraphBuilder::build() { return {name_, batch_, tensors_, operators_}; }

}  // namespace pipesim
