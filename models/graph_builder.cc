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
                         const std::vector<std::int32_t>& dims) {
  if (inputs.empty()) return;
  std::vector<bool> reached(op.factors.size(), false);
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

/// The i-th given name, or the default where none is given.
std::string name_or(const std::vector<std::string>& given, std::size_t i, std::string fallback) {
  return i < given.size() && !given[i].empty() ? given[i] : std::move(fallback);
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
  check_name(name);
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

TensorId GraphBuilder::weight(const OperatorDraft& draft, const std::string& name, const Tensor& wanted) {
  const auto found = tensor_by_name_.find(name);
  if (found == tensor_by_name_.end()) return add_tensor(wanted, -1);
  const Tensor& shared = tensors_[found->second.index()];
  if (shared.kind != TensorKind::Weight)
    draft.fail(fmt::format("weight \"{}\": a tensor of that name is not a weight", name));
  if (shared.shape != wanted.shape) {
    draft.fail(fmt::format("shared weight \"{}\" has shape {}, allowed: {}", name, to_text(shared.shape),
                           to_text(wanted.shape)));
  }
  return found->second;
}

std::vector<TensorId> GraphBuilder::add_operator(const OperatorRequest& request) {
  const OperatorKind& kind = [&]() -> const OperatorKind& {
    try {
      return operator_kind(request.kind);
    } catch (const InputError& error) {
      throw InputError(fmt::format("operator \"{}\": {}", request.name, error.what()));
    }
  }();
  std::vector<const Tensor*> inputs;
  for (const TensorId id : request.inputs) inputs.push_back(&tensors_.at(id.index()));
  OperatorDraft draft(kind, request.name, request.attributes, std::move(inputs), type_, batch_);
  if (request.name.empty()) draft.fail("has no name");
  if (operator_names_.count(request.name) > 0) draft.fail("an operator of that name exists already");
  kind.build(draft);
  Operator& op = draft.op;
  op.repeat = request.repeat;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) op.uses[i].tensor = request.inputs[i];
  mark_sample_factors(op, request.inputs, sample_dims_);

  const OperatorId id(operators_.size());
  const auto is_output = [&](const auto& made) { return op.uses[made.use].role == Role::Output; };
  const auto outputs_made = std::count_if(draft.made().begin(), draft.made().end(), is_output);
  std::size_t weights = 0;
  std::vector<TensorId> outputs;
  if (request.outputs.size() > static_cast<std::size_t>(outputs_made)) {
    draft.fail(fmt::format("{} output names, allowed: at most {}", request.outputs.size(), outputs_made));
  }
  for (const OperatorDraft::Made& made : draft.made()) {
    TensorUse& use = op.uses[made.use];
    const std::string own = made.name.empty() ? op.name : op.name + "." + made.name;
    Tensor tensor{own, TensorKind::State, extents(use.dims), made.type, {}};
    if (use.role == Role::Weight) {
      tensor.kind = TensorKind::Weight;
      tensor.name = name_or(request.weights, weights++, own);
      use.tensor = weight(draft, tensor.name, tensor);
      continue;
    }
    if (use.role == Role::Output) {
      tensor.kind = TensorKind::Activation;
      tensor.name = name_or(request.outputs, outputs.size(), own);
      tensor.producer = id;
    }
    check_name(tensor.name);
    use.tensor = add_tensor(std::move(tensor), sample_dim(op, use));
    if (use.role == Role::Output) outputs.push_back(use.tensor);
  }
  if (request.weights.size() > weights) {
    draft.fail(fmt::format("{} weight names, allowed: at most {}", request.weights.size(), weights));
  }
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
  return add_operator({kind, full_name + name, inputs, attributes, weights, {}, repeat});
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

void GraphBuilder::begin_repeat(const std::string& prefix, std::int64_t index) {
  name_prefixes_.push_back(fmt::format("{}{}.", prefix, index));
  repeat_prefixes_.push_back(prefix + "#.");
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
