#include "executor/operators/experts.h"

#include <algorithm>

#include "executor/gpu/bodies/experts.h"
#include "executor/gpu/steps/activation.h"
#include "executor/gpu/steps/kernel_call.h"
#include "executor/gpu/steps/products.h"

namespace pipesim::gpu {
namespace {

template <class Number>
Number* scratch_of(Stream& stream, std::int64_t count) {
  return reinterpret_cast<Number*>(stream.scratch(sizeof(Number) * static_cast<std::size_t>(count)));
}

/// Routes by p, [groups, tokens, top_k], best first. Returns 1 + the token's row for every slot row, 0 where
/// no token is, if that is wanted.
std::int64_t* find_routes(Stream& stream, const RoutingSizes& s, const Floats& p, TokenRoute* routes,
                          bool tokens_wanted) {
  std::int64_t* tokens = nullptr;
  if (tokens_wanted) {
    tokens = scratch_of<std::int64_t>(stream, s.slots());
    stream.zero(tokens, sizeof(std::int64_t) * static_cast<std::size_t>(s.slots()));
  }
  const RouteChunks split{s.tokens * s.top_k, s.experts};
  const std::int64_t counters = s.groups * split.chunks() * s.experts;
  auto* counts = scratch_of<std::int64_t>(stream, counters);
  run(stream, s.rows() * s.experts, ChooseExperts{p, routes, s.experts, s.top_k});
  run(stream, counters, CountRoutes{routes, counts, split});
  run(stream, counters, FillSlots{routes, counts, tokens, split, s});
  return tokens;
}

/// values: x[g, n, h], p, z, see RoutingSizes, and the slots' weights if they are wanted. Slots that no token
/// takes are 0.
class MoeDispatch : public Kernel {
 public:
  /// Routes of all tokens of the shard's groups.
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return sizeof(TokenRoute) * static_cast<std::size_t>(RoutingSizes(op, ranges, 2).routes());
  }

  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const RoutingSizes s(call.op, call.ranges, 2);
    const std::int64_t* tokens = find_routes(call.stream, s, call.values[1].floats(), routes(call), true);
    run(call.stream, s.slots() * s.width,
        SlotsFromTokens{tokens, call.values[0].floats(), {}, call.values[2].floats(), s});
    if (has_weights(call))
      run(call.stream, s.slots(),
          WeightsFromTokens{tokens, call.values[1].floats(), call.values[kWeights].floats(), s});
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const RoutingSizes s(call.op, call.ranges, 2);
    if (call.gradients[0].present())
      run(call.stream, s.rows() * s.width,
          TokensFromSlots{routes(call), call.gradients[2].floats(), {}, call.gradients[0].floats(), s});
    const Piece& dp = call.gradients[1];
    if (!has_weights(call) || !dp.present()) return;
    call.stream.zero(dp.memory, static_cast<std::size_t>(dp.elements() * bytes_per_element(dp.type)));
    run(call.stream, s.routes(),
        WeightGradientsToTokens{routes(call), call.gradients[kWeights].floats(), dp.floats(), s});
  }

 private:
  static constexpr std::size_t kWeights = 3;
  static bool has_weights(const ShardCall& call) { return call.op.uses.size() > kWeights; }
  static TokenRoute* routes(const ShardCall& call) {
    return reinterpret_cast<TokenRoute*>(call.saved.data());
  }
};

/// values: z, p, y[g, n, h] = Σ over the token's experts of p·z, or of z where the operator is unweighted,
/// see RoutingSizes. It keeps its routes then, else z and p, which tell them.
class MoeCombine : public Kernel {
 public:
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    if (weighs(op)) return 0;
    return sizeof(TokenRoute) * static_cast<std::size_t>(RoutingSizes(op, ranges, 0).routes());
  }

  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const RoutingSizes s(call.op, call.ranges, 0);
    const Floats p = call.values[1].floats();
    const bool weighted = weighs(call.op);
    auto* routes = weighted ? scratch_of<TokenRoute>(call.stream, s.routes()) : kept_routes(call);
    find_routes(call.stream, s, p, routes, false);
    run(call.stream, s.rows() * s.width,
        TokensFromSlots{routes, call.values[0].floats(), weighted ? p : Floats{}, call.values[2].floats(),
                        s});
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece &dz = call.gradients[0], &dp = call.gradients[1];
    if (!dz.present() && !dp.present()) return;
    const RoutingSizes s(call.op, call.ranges, 0);
    const Floats dy = call.gradients[2].floats();
    if (!weighs(call.op)) {
      call.stream.zero(dz.memory, static_cast<std::size_t>(dz.elements() * bytes_per_element(dz.type)));
      return run(call.stream, s.routes() * s.width, CopyTokensToSlots{kept_routes(call), dy, dz.floats(), s});
    }
    const Floats p = call.values[1].floats();
    auto* routes = scratch_of<TokenRoute>(call.stream, s.routes());
    const std::int64_t* tokens = find_routes(call.stream, s, p, routes, dz.present());
    if (dz.present()) run(call.stream, s.slots() * s.width, SlotsFromTokens{tokens, dy, p, dz.floats(), s});
    if (!dp.present()) return;
    call.stream.zero(dp.memory, static_cast<std::size_t>(dp.elements() * bytes_per_element(dp.type)));
    run(call.stream, s.routes(), ProbabilityGradients{routes, call.values[0].floats(), dy, dp.floats(), s});
  }

 private:
  static bool weighs(const Operator& op) { return !op.attributes.contains("unweighted"); }
  static TokenRoute* kept_routes(const ShardCall& call) {
    return reinterpret_cast<TokenRoute*>(call.saved.data());
  }
};

/// Pairs of a group and an expert, [g, e], as batches along the longer of both.
struct PairBatches {
  explicit PairBatches(const ExpertLinearSizes& s)
      : by_group(s.g <= s.e), count(std::min(s.g, s.e)), length(std::max(s.g, s.e)), experts(s.e) {}
  bool by_group;
  std::int64_t count, length, experts;

  /// The matrices of batch i, of matrices[g, e, rows, columns].
  [[nodiscard]] MatrixProduct::Matrix pairs(const Floats& all, std::int64_t i, std::int64_t rows,
                                            std::int64_t columns) const {
    const std::int64_t size = rows * columns;
    return {all.from((by_group ? i * experts : i) * size), false, columns, (by_group ? 1 : experts) * size};
  }
  /// The weights of an expert, of weights[e, rows, columns].
  [[nodiscard]] MatrixProduct::Matrix weights(const Floats& all, std::int64_t i, std::int64_t rows,
                                              std::int64_t columns) const {
    const std::int64_t size = rows * columns;
    return {all.from(by_group ? 0 : i * size), false, columns, by_group ? size : 0};
  }
};

/// values: z, w, b if any, y, see ExpertLinearSizes.
class ExpertLinear : public Kernel {
 public:
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return fused_saved_bytes(op, box_of(op.uses.back(), op, ranges).elements());
  }

  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const ExpertLinearSizes s = sizes(call);
    const PairBatches batches(s);
    for (std::int64_t i = 0; i < batches.count; ++i) {
      multiply(call.stream, {.rows = s.c,
                             .columns = s.f,
                             .inner = s.h,
                             .batch = batches.length,
                             .a = batches.pairs(call.values[0].floats(), i, s.c, s.h),
                             .b = batches.weights(call.values[1].floats(), i, s.h, s.f),
                             .d = batches.pairs(call.values.back().floats(), i, s.c, s.f)});
    }
    if (has_expert_biases(call.op) && call.values[kBias].present()) {
      const Piece& y = call.values.back();
      run(call.stream, y.elements(), AddExpertBiases{y.floats(), call.values[kBias].floats(), s});
    }
    apply_fused(call);
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece& dz = call.gradients[0];
    if (!dz.present()) return;
    const ExpertLinearSizes s = sizes(call);
    const PairBatches batches(s);
    const Floats dy = gradient_before_fused(call);
    for (std::int64_t i = 0; i < batches.count; ++i) {
      MatrixProduct::Matrix w = batches.weights(call.values[1].floats(), i, s.h, s.f);
      w.transposed = true;
      multiply(call.stream, {.rows = s.c,
                             .columns = s.h,
                             .inner = s.f,
                             .batch = batches.length,
                             .a = batches.pairs(dy, i, s.c, s.f),
                             .b = w,
                             .d = batches.pairs(dz.floats(), i, s.c, s.h)});
    }
  }

  void backward_weight(const ShardCall& call) const override {
    const Piece& dw = call.gradients[1];
    const bool biased = has_expert_biases(call.op) && call.gradients[kBias].present();
    if (!dw.present() && !biased) return;
    const ExpertLinearSizes s = sizes(call);
    const Floats dy = gradient_before_fused(call);
    if (biased) {
      const Piece& wanted = call.gradients[kBias];
      run(call.stream, wanted.elements(), GradientsOfExpertBiases{dy, wanted.floats(), s});
    }
    if (!dw.present()) return;
    // The sum over groups is rounded once.
    const bool narrow = dw.floats().stored != Stored::Float32 && s.g > 1;
    const Floats sum =
        narrow ? Floats{scratch_of<float>(call.stream, dw.elements()), Stored::Float32} : dw.floats();
    const std::int64_t rows = s.e * s.c;
    for (std::int64_t g = 0; g < s.g; ++g) {
      multiply(call.stream, {.rows = s.h,
                             .columns = s.f,
                             .inner = s.c,
                             .batch = s.e,
                             .a = {call.values[0].floats().from(g * rows * s.h), true, s.h, s.c * s.h},
                             .b = {dy.from(g * rows * s.f), false, s.f, s.c * s.f},
                             .d = {sum, false, s.f, s.h * s.f},
                             .accumulate = g > 0});
    }
    if (narrow) run_in_groups(call.stream, dw.elements(), Activate{sum, dw.floats(), {}, Activation::None});
  }

 private:
  static constexpr std::size_t kBias = 2;
  /// Rows of all groups lie one behind the other where there is one expert.
  static ExpertLinearSizes sizes(const ShardCall& call) {
    ExpertLinearSizes s(call.op, call.ranges);
    if (s.e == 1) s.c *= s.g, s.g = 1;
    return s;
  }
};

}  // namespace

std::vector<KernelEntry> expert_kernels() {
  static const MoeDispatch moe_dispatch;
  static const MoeCombine moe_combine;
  static const ExpertLinear expert_linear;
  return {{"moe_dispatch", &moe_dispatch}, {"moe_combine", &moe_combine}, {"expert_linear", &expert_linear}};
}

}  // namespace pipesim::gpu
