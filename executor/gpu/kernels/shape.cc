#include "executor/operators/shape.h"

#include "executor/gpu/bodies/shape.h"
#include "executor/gpu/steps/copies.h"
#include "executor/gpu/steps/kernel_call.h"

namespace pipesim::gpu {
namespace {

/// visit.operator()<Floats or Integers>(), as the piece's elements are.
template <class Visit>
void with_tensor_type(const Piece& piece, Visit visit) {
  if (piece.type == DataType::Int64) {
    visit.template operator()<Integers>();
  } else {
    visit.template operator()<Floats>();
  }
}

template <class Tensor>
Tensor elements_of(const Piece& piece);
template <>
Floats elements_of<Floats>(const Piece& piece) {
  return piece.floats();
}
template <>
Integers elements_of<Integers>(const Piece& piece) {
  return {piece.integers()};
}

/// One tensor beside its parts along the operator's axis. A shard may have nothing of some parts.
struct Parts {
  std::size_t tensor = 0, first = 0, end = 0;  ///< uses: the tensor, and [first, end)

  void join(const ShardCall& call, std::span<const Piece> pieces) const { move(call, pieces, true); }
  void cut(const ShardCall& call, std::span<const Piece> pieces) const { move(call, pieces, false); }

 private:
  void move(const ShardCall& call, std::span<const Piece> pieces, bool joined) const {
    with_tensor_type(pieces[tensor], [&]<class Tensor>() { move_as<Tensor>(call, pieces, joined); });
  }

  template <class Tensor>
  void move_as(const ShardCall& call, std::span<const Piece> pieces, bool joined) const {
    RowParts<Tensor> body;
    std::int64_t outer = 0;
    const auto finish = [&] {
      body.covered = body.count == 0 ? 0 : body.ends[static_cast<std::size_t>(body.count - 1)];
      run(call.stream, outer * body.covered, body);
      body.count = 0;
    };
    body.tensor = elements_of<Tensor>(pieces[tensor]);
    body.join = joined;
    for (std::size_t use = first; use < end; ++use) {
      const AxisPart part = axis_part(call.op, call.ranges, tensor, use);
      if (part.length == 0) continue;
      if (body.count == RowParts<Tensor>::most) finish();
      if (body.count == 0) body.first = part.first * part.inner;
      outer = part.outer;
      body.row = part.whole * part.inner;
      const auto at = static_cast<std::size_t>(body.count++);
      body.parts[at] = elements_of<Tensor>(pieces[use]);
      body.ends[at] = (part.first + part.length) * part.inner - body.first;
    }
    finish();
  }
};

/// values: parts, the whole.
class Concat : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    parts(call).join(call, call.values);
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    parts(call).cut(call, call.gradients);
  }

 private:
  static Parts parts(const ShardCall& call) { return {call.op.uses.size() - 1, 0, call.op.uses.size() - 1}; }
};

/// values: the whole, parts; those that nobody used have no gradient.
class Split : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    Parts{0, 1, call.op.uses.size()}.cut(call, call.values);
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    if (!call.gradients[0].present()) return;
    Parts{0, 1, call.op.uses.size()}.join(call, call.gradients);
  }
};

/// The same elements in the same order: reshape and flatten. values: x, y.
class Copy : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    copy_elements(call.stream, call.values[0], call.values[1]);
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    if (call.gradients[0].present()) copy_elements(call.stream, call.gradients[1], call.gradients[0]);
  }
};

/// to[i0, i1, …] = from at Σ i·stride, over `to`'s shape.
template <class Tensor>
void permute(Stream& stream, const Tensor& from, const Tensor& to, const Box& shape, const Strides& strides) {
  Strided s;
  for (std::size_t i = 0; i < shape.dims(); ++i) s.add(shape[i].length(), strides[i]);
  const std::int64_t elements = shape.elements();
  if (elements == 0) return;
  if (s.last_step() <= 1) return run(stream, elements, GatherStrided<Tensor>{from, to, s});

  TransposeTiles<Tensor> body{.from = from, .to = to};
  const auto dims = static_cast<std::size_t>(s.dims);
  body.columns = s.lengths[dims - 1], body.from_column = s.steps[dims - 1];
  body.rows = 1, body.to_row = 1;
  std::int64_t step = elements, tiles_of_outer = 1;
  for (std::size_t i = 0; i + 1 < dims; ++i) {
    step /= s.lengths[i];
    if (s.steps[i] == 1) {
      body.rows = s.lengths[i], body.to_row = step;
    } else {
      body.outer_from.add(s.lengths[i], s.steps[i]);
      body.outer_to.add(s.lengths[i], step);
      tiles_of_outer *= s.lengths[i];
    }
  }
  run(stream, tiles_of_outer * body.row_tiles() * body.column_tiles(), body);
}

/// values: x, y; dim i of y is dim order[i] of x.
class Transpose : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    permute(call, call.values[0], call.values[1], 1, strides_of_transposed(call.op, call.ranges));
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    if (!call.gradients[0].present()) return;
    permute(call, call.gradients[1], call.gradients[0], 0, strides_of_original(call.op, call.ranges));
  }

 private:
  static void permute(const ShardCall& call, const Piece& from, const Piece& to, std::size_t shape,
                      const Strides& strides) {
    const Box box = box_of(call.op.uses[shape], call.op, call.ranges);
    with_tensor_type(to, [&]<class Tensor>() {
      gpu::permute(call.stream, elements_of<Tensor>(from), elements_of<Tensor>(to), box, strides);
    });
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

}  // namespace pipesim::gpu
