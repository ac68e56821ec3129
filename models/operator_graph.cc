#include "models/operator_graph.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <string_view>
#include <unordered_set>

#include "models/box.h"
#include "models/operator_draft.h"
#include "sim/base/errors.h"

namespace pipesim {

std::int64_t Tensor::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape) n *= extent;
  return n;
}

WeightStorage parse_weight_storage(const std::string& word) {
  if (word == "own") return WeightStorage::Own;
  if (word == "8bit") return WeightStorage::EightBits;
  if (word == "4bit") return WeightStorage::FourBits;
  throw InternalError("\"" + word + "\" is no storage of weights");
}

double Tensor::stored_bits() const {
  constexpr double kBlock = 64, kScales = 256;  // weights of a scale, scales of a scale of scales
  switch (storage) {
    case WeightStorage::Own:
      break;
    case WeightStorage::EightBits:
      return 8;
    case WeightStorage::FourBits:
      return 4 + 8 / kBlock + 32 / (kBlock * kScales);
  }
  return 8 * static_cast<double>(bytes_per_element(type));
}

Bytes Tensor::stored(std::int64_t elements) const {
  if (storage == WeightStorage::Own) return Bytes(elements * bytes_per_element(type));
  return Bytes(static_cast<std::int64_t>(std::ceil(static_cast<double>(elements) * stored_bits() / 8)));
}

Bytes Tensor::bytes() const { return stored(elements()); }

namespace {

bool carries_gradient(const TensorUse& use) { return use.role == Role::Input || use.role == Role::Weight; }

void check_use(const Operator& op, const TensorUse& use, const Tensor& tensor) {
  bool fits = use.dims.size() == tensor.shape.size() && use.dims.size() <= Box::max_dims;
  for (std::size_t i = 0; fits && i < use.dims.size(); ++i) {
    fits = use.dims[i].extent == tensor.shape[i];
    for (const FactorIndex f : use.dims[i].factors) {
      fits = fits && f >= 0 && static_cast<std::size_t>(f) < op.factors.size();
    }
  }
  if (!fits) {
    throw InternalError(
        fmt::format("operator \"{}\" does not fit the shape of tensor \"{}\"", op.name, tensor.name));
  }
}

void check_names(std::span<const Tensor> tensors, std::span<const Operator> operators) {
  std::unordered_set<std::string_view> names;
  for (const Tensor& t : tensors) {
    if (!names.insert(t.name).second) throw InputError(fmt::format("two tensors are named \"{}\"", t.name));
  }
  names.clear();
  for (const Operator& op : operators) {
    if (!names.insert(op.name).second)
      throw InputError(fmt::format("two operators are named \"{}\"", op.name));
  }
}

/// Every tensor that an operator reads was made by an earlier one, and is of the shape that the operator
/// expects.
void check_operators(std::span<const Tensor> tensors, std::span<const Operator> operators) {
  for (std::size_t i = 0; i < operators.size(); ++i) {
    for (const TensorUse& use : operators[i].uses) {
      if (!use.tensor.valid() || use.tensor.index() >= tensors.size()) {
        throw InternalError(
            fmt::format("operator \"{}\" uses a tensor that does not exist", operators[i].name));
      }
      const Tensor& tensor = tensors[use.tensor.index()];
      check_use(operators[i], use, tensor);
      const OperatorId producer = tensor.producer;
      const bool in_order = use.role == Role::Output ? producer == OperatorId(i)
                                                     : !producer.valid() || producer < OperatorId(i);
      if (!in_order) {
        throw InternalError(
            fmt::format("operator \"{}\" uses tensor \"{}\" out of order", operators[i].name, tensor.name));
      }
    }
  }
}

/// FNV-1a (Fowler, Noll, Vo), 64 bits: the same on every machine.
class Fingerprint {
 public:
  void add(std::int64_t value) {
    for (int shift = 0; shift < 64; shift += 8) add_byte(static_cast<std::uint64_t>(value) >> shift & 0xff);
  }
  void add(double value) { add(std::bit_cast<std::int64_t>(value)); }
  void add(const std::string& text) {
    add(static_cast<std::int64_t>(text.size()));
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
  }
  void add(const std::vector<std::int64_t>& list) {
    add(static_cast<std::int64_t>(list.size()));
    for (const std::int64_t value : list) add(value);
  }
  void add(const AttributeValue& value) {
    add(static_cast<std::int64_t>(value.index()));
    std::visit([this](const auto& v) { add(v); }, value);
  }
  [[nodiscard]] std::string str() const { return fmt::format("{:016x}", hash_); }

 private:
  void add_byte(std::uint64_t byte) { hash_ = (hash_ ^ byte) * 0x100000001b3; }
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace

OperatorGraph::OperatorGraph(std::string name, std::int64_t batch, std::vector<Tensor> tensors,
                             std::vector<Operator> operators)
    : name_(std::move(name)), batch_(batch), tensors_(std::move(tensors)), operators_(std::move(operators)) {
  check_names(tensors_, operators_);
  check_operators(tensors_, operators_);
  index_consumers();
  find_gradients();
}

void OperatorGraph::index_consumers() {
  consumer_begin_.assign(tensors_.size() + 1, 0);
  for (const Operator& op : operators_) {
    for (const TensorUse& use : op.uses) {
      if (use.role != Role::Output) ++consumer_begin_[use.tensor.index() + 1];
    }
  }
  for (std::size_t t = 0; t < tensors_.size(); ++t) consumer_begin_[t + 1] += consumer_begin_[t];
  consumers_.resize(static_cast<std::size_t>(consumer_begin_.back()));
  std::vector<std::int32_t> next(consumer_begin_.begin(), consumer_begin_.end() - 1);
  for (std::size_t i = 0; i < operators_.size(); ++i) {
    for (std::size_t u = 0; u < operators_[i].uses.size(); ++u) {
      const TensorUse& use = operators_[i].uses[u];
      if (use.role == Role::Output) continue;
      consumers_[static_cast<std::size_t>(next[use.tensor.index()]++)] = {OperatorId(i),
                                                                          static_cast<std::int32_t>(u)};
    }
  }
}

void OperatorGraph::find_gradients() {
  wants_gradient_.assign(tensors_.size(), false);
  gets_gradient_.assign(tensors_.size(), false);
  for (std::size_t t = 0; t < tensors_.size(); ++t)
    wants_gradient_[t] = tensors_[t].kind == TensorKind::Weight && !tensors_[t].frozen;
  for (const Operator& op : operators_) {
    bool wanted = false;
    for (const TensorUse& use : op.uses) {
      wanted = wanted || (carries_gradient(use) && wants_gradient_[use.tensor.index()]);
      if (use.role == Role::Output)
        wants_gradient_[use.tensor.index()] = wanted && !chooses(tensors_[use.tensor.index()].type);
    }
  }

  const auto is_result = [this](std::size_t t) {
    return tensors_[t].producer.valid() && consumer_begin_[t] == consumer_begin_[t + 1];
  };
  bool has_loss = false;
  for (std::size_t t = 0; t < tensors_.size(); ++t)
    has_loss = has_loss || (is_result(t) && tensors_[t].shape.empty());
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    gets_gradient_[t] =
        is_result(t) && !chooses(tensors_[t].type) && (!has_loss || tensors_[t].shape.empty());
  }
  for (std::size_t i = operators_.size(); i-- > 0;) {
    bool given = false;
    for (const TensorUse& use : operators_[i].uses) {
      given = given || (use.role == Role::Output && gets_gradient_[use.tensor.index()]);
    }
    if (!given) continue;
    for (const TensorUse& use : operators_[i].uses) {
      if (carries_gradient(use)) gets_gradient_[use.tensor.index()] = true;
    }
  }
}

std::span<const UseRef> OperatorGraph::consumers(TensorId id) const {
  const auto begin = static_cast<std::size_t>(consumer_begin_[id.index()]);
  const auto end = static_cast<std::size_t>(consumer_begin_[id.index() + 1]);
  return std::span(consumers_).subspan(begin, end - begin);
}

std::int64_t OperatorGraph::parameter_count() const {
  std::int64_t n = 0;
  for (const Tensor& t : tensors_) {
    if (t.kind == TensorKind::Weight) n += t.elements();
  }
  return n;
}

std::int64_t OperatorGraph::frozen_parameter_count() const {
  std::int64_t n = 0;
  for (const Tensor& t : tensors_) {
    if (t.frozen) n += t.elements();
  }
  return n;
}

DataType OperatorGraph::type_of_results() const {
  for (const Tensor& t : tensors_) {
    if (t.kind == TensorKind::Weight) return t.type;
  }
  for (const Operator& op : operators_) {
    const Tensor& result = tensor(op.uses.back().tensor);
    const bool typed = !chooses(result.type) && !result.shape.empty();
    if (typed && (op.kind == "opaque" || !op.flops_forward.empty())) return result.type;
  }
  for (const Tensor& t : tensors_) {
    if (t.kind == TensorKind::Data && is_floating(t.type)) return t.type;
  }
  return DataType::Float32;
}

Flops OperatorGraph::forward_flops() const {
  Flops sum;
  for (const Operator& op : operators_) sum += Flops(evaluate(op.flops_forward, whole_ranges(op)));
  return sum;
}

std::string OperatorGraph::fingerprint() const {
  Fingerprint print;
  print.add(batch_);
  for (const Tensor& t : tensors_) {
    print.add(t.name);
    print.add(t.shape);
    print.add(static_cast<std::int64_t>(t.kind));
    print.add(static_cast<std::int64_t>(t.type));
    if (t.frozen) print.add(std::string("frozen"));  // models without have the fingerprints that they had
  }
  for (const Operator& op : operators_) {
    print.add(op.name);
    print.add(op.kind);
    for (const auto& [name, value] : op.attributes) {
      print.add(name);
      print.add(value);
    }
    for (const Factor& f : op.factors) print.add(f.name);
    for (const TensorUse& use : op.uses) print.add(static_cast<std::int64_t>(use.tensor.value));
  }
  return print.str();
}

}  // namespace pipesim
