#include <algorithm>

#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"
#include "executor/operators/shape.h"

namespace pipesim::cpu {
namespace {

/// Calls move(from's elements, to's elements) for float or integer tensors.
template <class Move>
void with_elements(const Piece& from, const Piece& to, Move move) {
  if (to.integers != nullptr) {
    move(static_cast<const std::int64_t*>(from.integers), to.integers);
  } else {
    move(static_cast<const float*>(from.floats), to.floats);
  }
}

template <class Element>
void gather(const AxisPart& p, const Element* tensor, Element* part) {
  for (std::int64_t o = 0; o < p.outer; ++o) {
    std::copy_n(tensor + (o * p.whole + p.first) * p.inner, p.length * p.inner,
                part + o * p.length * p.inner);
  }
}
template <class Element>
void scatter(const AxisPart& p, const Element* part, Element* tensor) {
  for (std::int64_t o = 0; o < p.outer; ++o) {
    std::copy_n(part + o * p.length * p.inner, p.length * p.inner,
                tensor + (o * p.whole + p.first) * p.inner);
  }
}

void gather_part(const ShardCall& call, std::span<const Piece> pieces, std::size_t tensor, std::size_t part) {
  if (!pieces[part].present()) return;
  with_elements(pieces[tensor], pieces[part], [&](const auto* from, auto* to) {
    gather(axis_part(call.op, call.ranges, tensor, part), from, to);
  });
}

void scatter_part(const ShardCall& call, std::span<const Piece> pieces, std::size_t part,
                  std::size_t tensor) {
  if (!pieces[part].present()) return;
  with_elements(pieces[part], pieces[tensor], [&](const auto* from, auto* to) {
    scatter(axis_part(call.op, call.ranges, tensor, part), from, to);
  });
}

/// values: parts, the whole. A shard may have nothing of some parts.
class Concat : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const std::size_t whole = call.values.size() - 1;
    for (std::size_t i = 0; i < whole; ++i) scatter_part(call, call.values, i, whole);
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const std::size_t whole = call.gradients.size() - 1;
    for (std::size_t i = 0; i < whole; ++i) gather_part(call, call.gradients, whole, i);
  }
};

/// values: the whole, parts.
class Split : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    for (std::size_t i = 1; i < call.values.size(); ++i) gather_part(call, call.values, 0, i);
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece& dx = call.gradients[0];
    std::fill_n(dx.floats, dx.elements(), 0.0F);  // parts that nobody used have no gradient
    for (std::size_t i = 1; i < call.gradients.size(); ++i) scatter_part(call, call.gradients, i, 0);
  }
};

/// The same elements in the same order: reshape and flatten. values: x, y.
class Copy : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    copy(call.values[0], call.values[1]);
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    copy(call.gradients[1], call.gradients[0]);
  }

 private:
  static void copy(const Piece& from, const Piece& to) {
    with_elements(from, to, [&](const auto* x, auto* y) { std::copy_n(x, to.elements(), y); });
  }
};

/// to[i0, i1, …] = from at Σ i·stride, over `to`'s shape.
template <class Element>
void permute(const Element* from, Element* to, const Box& shape, const Strides& strides) {
  const std::size_t last = shape.dims() - 1;
  const std::int64_t columns = shape[last].length(), rows = shape.elements() / columns;
  for (std::int64_t row = 0; row < rows; ++row, to += columns) {
    std::int64_t rest = row, at = 0;
    for (std::size_t i = last; i-- > 0;) {
      at += rest % shape[i].length() * strides[i];
      rest /= shape[i].length();
    }
    for (std::int64_t j = 0; j < columns; ++j) to[j] = from[at + j * strides[last]];
  }
}

/// values: x, y; dim i of y is dim order[i] of x.
class Transpose : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Strides strides = strides_of_transposed(call.op, call.ranges);
    with_elements(call.values[0], call.values[1],
                  [&](const auto* from, auto* to) { permute(from, to, box_of(call, 1), strides); });
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    permute<float>(call.gradients[1].floats, call.gradients[0].floats, box_of(call, 0),
                   strides_of_original(call.op, call.ranges));
  }
};

}  // namespace

std::vector<KernelEntry> shape_kernels() {
  static const Concat concat;
  static const Split split;
  static const Copy copy;
  static const Transpose transpose;
  return {{"concat", &concat},
          {"split", &split},
          {"reshape", &copy},
          {"flatten", &copy},
          {"transpose", &transpose}};
}

}  // namespace pipesim::cpu
