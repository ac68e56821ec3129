#include "executor/gpu/bodies/reduce.h"

#include "executor/gpu/steps/chunks.h"
#include "executor/gpu/steps/kernel_call.h"
#include "executor/operators/reduce.h"

namespace pipesim::gpu {
namespace {

/// Terms that lie side by side are read by teams; else neighbouring elements of the result by neighbouring
/// threads.
void reduce(const ShardCall& call, const ReduceShape& shape, const Floats& x, const ReducedTo& to) {
  if (shape.results == 0) return;
  constexpr std::int64_t enough_for_teams = 64;  // terms
  const bool teams = shape.reduced.last_step() == 1 && shape.terms >= enough_for_teams;
  const RowChunks split =
      teams ? chunks_for_teams(shape.terms, shape.results) : RowChunks::of(shape.terms, shape.results);
  ReducePart part{x, shape.kept, shape.reduced, split, shape.largest, to};
  const std::int64_t count = split.chunks * shape.results;
  if (split.chunks > 1) {
    auto* sums =
        reinterpret_cast<double*>(call.stream.scratch(sizeof(double) * static_cast<std::size_t>(count)));
    part.to = {sums, {}, 1};
  }
  const CombinedChunks all{part.to.exact, split, shape.largest, to};
  if (teams) {
    run(call.stream, count, ReduceByTeams{part});
    if (split.chunks > 1) run(call.stream, shape.results, CombineByTeams{all});
  } else {
    run(call.stream, count, ReduceByThreads{part});
    if (split.chunks > 1) run(call.stream, shape.results, CombineByThreads{all});
  }
}

/// Uses and statistics are those of cpu::Reduce.
class Reduce : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t segment) const override {
    const ReduceShape shape(call.op, call.ranges);
    const Floats x = call.values[0].floats(), y = call.values[1].floats();
    if (!shape.largest) return reduce(call, shape, x, {nullptr, y, shape.divisor});
    double* most = call.statistics[0].data();
    const bool whole = shape.terms == shape.whole_terms;
    if (segment == 0) {
      reduce(call, shape, x, {most, whole ? y : Floats{}, 1});
    } else if (!whole) {
      run(call.stream, shape.results, CombineByThreads{{most, {1, shape.results, 1}, true, {nullptr, y, 1}}});
    }
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    if (!call.gradients[0].present()) return;
    const ReduceShape shape(call.op, call.ranges);
    const Floats x = shape.largest ? call.values[0].floats() : Floats{};
    const Floats y = shape.largest ? call.values[1].floats() : Floats{};
    run(call.stream, shape.results * shape.terms,
        ReduceGradient{x, y, call.gradients[1].floats(), call.gradients[0].floats(), shape.result_of,
                       static_cast<float>(1 / shape.divisor)});
  }
};

/// Uses are those of cpu::Broadcast.
class Broadcast : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const ReduceShape shape = ReduceShape::of_broadcast(call.op, call.ranges);
    run(call.stream, shape.results * shape.terms,
        ReduceGradient{{}, {}, call.values[0].floats(), call.values[1].floats(), shape.result_of, 1});
  }
  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    if (!call.gradients[0].present()) return;
    reduce(call, ReduceShape::of_broadcast(call.op, call.ranges), call.gradients[1].floats(),
           {nullptr, call.gradients[0].floats(), 1});
  }
};

}  // namespace

std::vector<KernelEntry> reduce_kernels() {
  static const Reduce reduce;
  static const Broadcast broadcast;
  return {{"reduce", &reduce}, {"broadcast", &broadcast}};
}

}  // namespace pipesim::gpu
