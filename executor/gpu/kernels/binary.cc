#include "executor/gpu/bodies/binary.h"
#include "executor/gpu/steps/chunks.h"

#include "executor/gpu/steps/column_sums.h"
#include "executor/gpu/steps/copies.h"
#include "executor/gpu/steps/kernel_call.h"
#include "executor/operators/broadcast.h"

namespace pipesim::gpu {
namespace {

/// Where the operand's elements for those of x lie.
Strided places_in_operand(const Broadcast& b) {
  Strided places;
  for (std::size_t i = 0; i < b.full.dims(); ++i) places.add(b.full[i].length(), b.strides[i]);
  return places;
}

/// The operand's gradient: d, or d · x, summed over what the operand lacks.
void sum_into_operand(const ShardCall& call, const Broadcast& b, const Floats& x, const Floats& gradient) {
  StretchedTerm term{call.gradients[2].floats(), x, {}, {}};
  std::int64_t step = b.full.elements();
  if (step == 0) {
    call.stream.zero(gradient.memory,
                     static_cast<std::size_t>(b.elements * bytes_per_element(call.gradients[1].type)));
    return;
  }
  for (std::size_t i = 0; i < b.full.dims(); ++i) {
    const std::int64_t length = b.full[i].length();
    step /= length;
    (b.strides[i] == 0 ? term.stretched : term.kept).add(length, step);
  }
  const std::int64_t rows = term.stretched.elements();
  if (term.stretched.last_step() != 1) return add_up_columns(call.stream, term, rows, b.elements, gradient);
  const RowChunks split = chunks_for_teams(rows, b.elements);
  const std::int64_t sums = split.chunks * b.elements;
  auto* partial =
      reinterpret_cast<double*>(call.stream.scratch(sizeof(double) * static_cast<std::size_t>(sums)));
  run(call.stream, sums, TeamChunkSums<StretchedTerm>{term, split, partial});
  run(call.stream, b.elements, SumsOfChunks{partial, split, gradient});
}

/// values: x, y, result.
class Add : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Broadcast b(call.op, call.ranges);
    run_in_groups(call.stream, b.full.elements(),
                  CombineStretched{call.values[0].floats(), call.values[1].floats(), call.values[2].floats(),
                                   places_in_operand(b), false});
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Broadcast b(call.op, call.ranges);
    const Piece &d = call.gradients[2], &dx = call.gradients[0], &dy = call.gradients[1];
    if (dx.present()) copy_elements(call.stream, d, dx);
    if (dy.present() && b.plain) {
      copy_elements(call.stream, d, dy);
    } else if (dy.present()) {
      sum_into_operand(call, b, {}, dy.floats());
    }
  }
};

class Mul : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    multiply(call, call.values[0], call.values[1], call.values[2], places_in_operand({call.op, call.ranges}));
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Broadcast b(call.op, call.ranges);
    const Piece &d = call.gradients[2], &dx = call.gradients[0], &dy = call.gradients[1];
    const Strided places = places_in_operand(b);
    if (dx.present()) multiply(call, d, call.values[1], dx, places);
    if (dy.present() && b.plain) {
      multiply(call, d, call.values[0], dy, places);
    } else if (dy.present()) {
      sum_into_operand(call, b, call.values[0].floats(), dy.floats());
    }
  }

 private:
  static void multiply(const ShardCall& call, const Piece& x, const Piece& y, const Piece& result,
                       const Strided& places) {
    run_in_groups(call.stream, result.elements(),
                  CombineStretched{x.floats(), y.floats(), result.floats(), places, true});
  }
};

/// values: x, y, a weight for each row if there is one, result.
class Swiglu : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece& result = call.values[uses_before_result(call)];
    run_in_groups(call.stream, result.elements(),
                  SwigluForward{call.values[0].floats(), call.values[1].floats(), result.floats(),
                                row_weights(call), gate_activation(call.op)});
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Floats x = call.values[0].floats(), y = call.values[1].floats();
    const Piece& d = call.gradients[uses_before_result(call)];
    const RowWeights weights = row_weights(call);
    run_in_groups(call.stream, d.elements(),
                  SwigluGradients{d.floats(), x, y, call.gradients[0].floats(), call.gradients[1].floats(),
                                  weights, gate_activation(call.op)});
    if (uses_before_result(call) < 3 || !call.gradients[2].present()) return;
    const Piece& dw = call.gradients[2];
    run(call.stream, dw.elements(),
        SwigluWeightGradients{d.floats(), x, y, dw.floats(), weights.columns, gate_activation(call.op)});
  }

 private:
  static std::size_t uses_before_result(const ShardCall& call) { return call.op.uses.size() - 1; }
  static RowWeights row_weights(const ShardCall& call) {
    const Box box = box_of(call.op.uses[0], call.op, call.ranges);
    const std::int64_t columns = box[box.dims() - 1].length();
    return {uses_before_result(call) > 2 ? call.values[2].floats() : Floats{}, columns};
  }
};

}  // namespace

std::vector<KernelEntry> binary_kernels() {
  static const Add add;
  static const Mul mul;
  static const Swiglu swiglu;
  return {{"add", &add}, {"mul", &mul}, {"swiglu", &swiglu}};
}

}  // namespace pipesim::gpu
