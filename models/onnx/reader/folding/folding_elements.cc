#include <algorithm>
#include <cmath>

#include "models/onnx/reader/folding/attributes.h"
#include "models/onnx/reader/folding/folding_rules.h"

namespace pipesim {
namespace {

using onnx::NodeProto;
using onnx::TensorProto;
using Integers = std::vector<std::int64_t>;

// Functions of elements.

template <class Integer, class Real>
Folded elementwise(const FoldInputs& in, int result_type, Integer&& integer, Real&& real) {
  const auto shape = stretched(in[0]->shape, in[1]->shape);
  const auto x = shape ? stretched_to(*in[0], *shape) : std::nullopt;
  const auto y = shape ? stretched_to(*in[1], *shape) : std::nullopt;
  if (!x || !y) return std::nullopt;
  const bool floats = x->floating() || y->floating();
  OnnxConstant result{*shape, result_type, Integers()};
  if (!is_floating_type(result_type)) {
    constexpr double most = 9e18;
    const auto whole = [](double value) {
      return std::abs(value) < most ? static_cast<std::int64_t>(value) : std::int64_t{0};
    };
    Integers values(x->size());
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = floats ? whole(real(x->real(i), y->real(i))) : integer(x->integer(i), y->integer(i));
    result.values = std::move(values);
  } else {
    std::vector<double> values(x->size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = real(x->real(i), y->real(i));
    result.values = std::move(values);
  }
  return result;
}

// Sums and products of integers wrap around, as they do at run time.
std::int64_t wrapped(std::uint64_t value) { return static_cast<std::int64_t>(value); }
std::uint64_t bits(std::int64_t value) { return static_cast<std::uint64_t>(value); }

Folded fold_binary(const NodeProto& node, std::int64_t opset, const FoldInputs& in) {
  using I = std::int64_t;
  const std::string& op = node.op_type();
  if (opset < 7 && in[0]->shape != in[1]->shape && in[1]->size() != 1) return std::nullopt;
  const int type = in[0]->type;
  constexpr int flag = TensorProto::BOOL;
  if (op == "Add")
    return elementwise(
        in, type, [](I a, I b) { return wrapped(bits(a) + bits(b)); },
        [](double a, double b) { return a + b; });
  if (op == "Sub")
    return elementwise(
        in, type, [](I a, I b) { return wrapped(bits(a) - bits(b)); },
        [](double a, double b) { return a - b; });
  if (op == "Mul")
    return elementwise(
        in, type, [](I a, I b) { return wrapped(bits(a) * bits(b)); },
        [](double a, double b) { return a * b; });
  if (op == "Div") {
    const auto divided = [](I a, I b) { return b == 0 ? 0 : b == -1 ? wrapped(-bits(a)) : a / b; };
    return elementwise(in, type, divided, [](double a, double b) { return a / b; });
  }
  if (op == "Mod") {
    const bool truncated = integer_attribute(node, "fmod", 0) != 0;
    const auto rest = [truncated](I a, I b) {
      if (b == 0 || b == -1) return I{0};
      const I value = a % b;
      return !truncated && value != 0 && (value < 0) != (b < 0) ? value + b : value;
    };
    return elementwise(in, type, rest, [](double a, double b) { return std::fmod(a, b); });
  }
  if (op == "Pow") {
    const auto power = [](I a, I b) {
      const double value = std::pow(static_cast<double>(a), static_cast<double>(b));
      return std::abs(value) < 9e18 ? static_cast<I>(value) : I{0};
    };
    return elementwise(in, type, power, [](double a, double b) { return std::pow(a, b); });
  }
  if (op == "Min")
    return elementwise(
        in, type, [](I a, I b) { return std::min(a, b); }, [](double a, double b) { return std::min(a, b); });
  if (op == "Max")
    return elementwise(
        in, type, [](I a, I b) { return std::max(a, b); }, [](double a, double b) { return std::max(a, b); });
  const auto compared = [&](auto compare) { return elementwise(in, flag, compare, compare); };
  if (op == "Equal") return compared([](auto a, auto b) { return a == b; });
  if (op == "Less") return compared([](auto a, auto b) { return a < b; });
  if (op == "LessOrEqual") return compared([](auto a, auto b) { return a <= b; });
  if (op == "Greater") return compared([](auto a, auto b) { return a > b; });
  if (op == "GreaterOrEqual") return compared([](auto a, auto b) { return a >= b; });
  if (op == "And") return compared([](auto a, auto b) { return a != 0 && b != 0; });
  if (op == "Or") return compared([](auto a, auto b) { return a != 0 || b != 0; });
  if (op == "Xor") return compared([](auto a, auto b) { return (a != 0) != (b != 0); });
  return std::nullopt;
}

Folded fold_extreme(const NodeProto& node, std::int64_t opset, const FoldInputs& in) {
  OnnxConstant result = *in[0];
  for (std::size_t i = 1; i < in.size(); ++i) {
    const auto next = fold_binary(node, std::max<std::int64_t>(opset, 8), {&result, in[i]});
    if (!next) return std::nullopt;
    result = *next;
  }
  return result;
}

using ElementFunction = double (*)(double);
const std::unordered_map<std::string, ElementFunction> kFunctions{
    {"Neg", [](double x) { return -x; }},
    {"Abs", [](double x) { return std::abs(x); }},
    {"Sqrt", [](double x) { return std::sqrt(x); }},
    {"Exp", [](double x) { return std::exp(x); }},
    {"Log", [](double x) { return std::log(x); }},
    {"Sin", [](double x) { return std::sin(x); }},
    {"Cos", [](double x) { return std::cos(x); }},
    {"Floor", [](double x) { return std::floor(x); }},
    {"Ceil", [](double x) { return std::ceil(x); }},
    {"Round", [](double x) { return std::nearbyint(x); }},
    {"Reciprocal", [](double x) { return 1 / x; }},
    {"Erf", [](double x) { return std::erf(x); }},
    {"Tanh", [](double x) { return std::tanh(x); }},
    {"Sign", [](double x) { return static_cast<double>((x > 0) - (x < 0)); }},
    {"Not", [](double x) { return x == 0 ? 1.0 : 0.0; }}};

Folded fold_function(const NodeProto& node, std::int64_t /*opset*/, const FoldInputs& in) {
  const ElementFunction function = kFunctions.at(node.op_type());
  OnnxConstant result = *in[0];
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (result.floating()) {
      std::get<1>(result.values)[i] = function(std::get<1>(result.values)[i]);
    } else {
      std::get<0>(result.values)[i] = static_cast<std::int64_t>(function(in[0]->real(i)));
    }
  }
  return result;
}

}  // namespace

FoldRules element_folds() {
  FoldRules table{{"Min", {fold_extreme, 1}}, {"Max", {fold_extreme, 1}}};
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Mod", "Pow", "Equal", "Less", "LessOrEqual", "Greater",
                         "GreaterOrEqual", "And", "Or", "Xor"})
    table[op] = {fold_binary, 2};
  for (const auto& [op, function] : kFunctions) table[op] = {fold_function, 1};
  return table;
}

std::optional<std::size_t> folded_size(const OnnxShape& shape) {
  const auto elements = onnx_elements(shape);
  if (!elements || *elements > kMostFolded) return std::nullopt;
  return static_cast<std::size_t>(*elements);
}

OnnxConstant empty_like(const OnnxConstant& x, OnnxShape shape, std::size_t size) {
  OnnxConstant result{std::move(shape), x.type, Integers()};
  if (x.floating()) {
    result.values = std::vector<double>(size);
  } else {
    result.values = Integers(size);
  }
  return result;
}

void copy_element(OnnxConstant& to, std::size_t at, const OnnxConstant& from, std::size_t source) {
  if (to.floating()) {
    std::get<1>(to.values)[at] = from.real(source);
  } else {
    std::get<0>(to.values)[at] = from.integer(source);
  }
}

std::vector<std::int64_t> strides_of(const OnnxShape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// A view of x: the element at an index is that at `start` plus the index's products with `strides`.
Folded strided(const OnnxConstant& x, const OnnxShape& shape, const std::vector<std::int64_t>& strides,
               std::int64_t start) {
  const auto size = folded_size(shape);
  if (!size) return std::nullopt;
  OnnxConstant result = empty_like(x, shape, *size);
  const auto copy = [&](auto& to, const auto& from) {
    std::vector<std::int64_t> index(shape.size());
    std::int64_t source = start;
    for (std::size_t i = 0; i < *size; ++i) {
      to[i] = from[static_cast<std::size_t>(source)];
      for (std::size_t d = shape.size(); d-- > 0;) {
        source += strides[d];
        if (++index[d] < shape[d]) break;
        source -= strides[d] * shape[d];
        index[d] = 0;
      }
    }
  };
  if (x.floating()) {
    copy(std::get<1>(result.values), std::get<1>(x.values));
  } else {
    copy(std::get<0>(result.values), std::get<0>(x.values));
  }
  return result;
}

std::optional<OnnxShape> stretched(const OnnxShape& a, const OnnxShape& b) {
  OnnxShape result(std::max(a.size(), b.size()), 1);
  for (const OnnxShape* shape : {&a, &b}) {
    const std::size_t first = result.size() - shape->size();
    for (std::size_t i = 0; i < shape->size(); ++i) {
      std::int64_t& extent = result[first + i];
      if ((*shape)[i] != 1 && extent != 1 && extent != (*shape)[i]) return std::nullopt;
      if (extent == 1) extent = (*shape)[i];
    }
  }
  return result;
}

Folded stretched_to(const OnnxConstant& x, const OnnxShape& shape) {
  if (shape.size() < x.shape.size()) return std::nullopt;
  std::vector<std::int64_t> own = strides_of(x.shape), strides(shape.size(), 0);
  const std::size_t first = shape.size() - x.shape.size();
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    if (x.shape[i] != 1 && x.shape[i] != shape[first + i]) return std::nullopt;
    strides[first + i] = x.shape[i] == 1 ? 0 : own[i];
  }
  return strided(x, shape, strides);
}

Integers integers_of(const OnnxConstant& x) {
  Integers list;
  for (std::size_t i = 0; i < x.size(); ++i) list.push_back(x.integer(i));
  return list;
}

}  // namespace pipesim
