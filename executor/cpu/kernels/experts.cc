#include "executor/operators/experts.h"

#include <algorithm>
#include <numeric>

#include "executor/cpu/kernels/activation.h"
#include "executor/cpu/kernels/gemm.h"
#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/kernels/operands.h"

namespace pipesim::cpu {
namespace {

/// Routes by p: [groups, tokens, top_k], best first.
void find_routes(const RoutingSizes& s, const float* p, TokenRoute* routes) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(s.experts));
  for (std::int64_t g = 0; g < s.groups; ++g) {
    std::vector<std::int32_t> used(static_cast<std::size_t>(s.experts), 0);
    for (std::int64_t n = 0; n < s.tokens; ++n) {
      const float* row = p + (g * s.tokens + n) * s.experts;
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(
          order.begin(), order.begin() + s.top_k, order.end(),
          [row](std::int32_t a, std::int32_t b) { return chosen_before(row[a], a, row[b], b); });
      for (std::int64_t i = 0; i < s.top_k; ++i, ++routes) {
        const std::int32_t expert = order[static_cast<std::size_t>(i)];
        std::int32_t& next = used[static_cast<std::size_t>(expert)];
        *routes = {expert, next < s.capacity ? next++ : -1};
      }
    }
  }
}

/// Calls visit(token row in [groups, tokens], slot row in z[groups, experts, capacity], expert) for the
/// routes to the experts that the shard has.
template <class Visit>
void for_each_route(const RoutingSizes& s, const TokenRoute* routes, SumOrder order, Visit visit) {
  for_each_term(s.routes(), order, [&](std::int64_t i) {
    const std::int64_t row = i / s.top_k, slot = s.slot_row(row / s.tokens, routes[i]);
    if (slot >= 0) visit(row, slot, routes[i].expert);
  });
}

/// values: x[g, n, h], p[g, n, experts], z, see RoutingSizes, and the slots' weights if they are wanted.
/// Slots that no token takes are 0.
class MoeDispatch : public Kernel {
 public:
  /// Routes of all tokens of the shard's groups.
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    const Box x = pipesim::box_of(op.uses[0], op, ranges);
    return sizeof(TokenRoute) * static_cast<std::size_t>(volume(x, 0, 2) * integer_of(op, "top_k"));
  }

  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece &x = call.values[0], &z = call.values[2];
    TokenRoute* routes = reinterpret_cast<TokenRoute*>(call.saved.data());
    find_routes({call.op, call.ranges, 2}, call.values[1].floats, routes);
    const std::int64_t width = x.box[2].length();
    std::fill_n(z.floats, z.elements(), 0.0F);
    const Piece* weights = weights_of(call.op, call.values);
    if (weights != nullptr) std::fill_n(weights->floats, weights->elements(), 0.0F);
    const std::int64_t experts = call.values[1].box[2].length();
    visit_routes(call, [&](std::int64_t row, std::int64_t slot, std::int64_t expert) {
      std::copy_n(x.floats + row * width, width, z.floats + slot * width);
      if (weights != nullptr) weights->floats[slot] = call.values[1].floats[row * experts + expert];
    });
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece &dx = call.gradients[0], &dz = call.gradients[2];
    if (dx.present()) {
      const std::int64_t width = dx.box[2].length();
      std::fill_n(dx.floats, dx.elements(), 0.0F);
      visit_routes(call, [&](std::int64_t row, std::int64_t slot, std::int64_t /*expert*/) {
        for (std::int64_t j = 0; j < width; ++j) dx.floats[row * width + j] += dz.floats[slot * width + j];
      });
    }
    const Piece *dw = weights_of(call.op, call.gradients), &dp = call.gradients[1];
    if (dw == nullptr || !dp.present()) return;
    const std::int64_t experts = dp.box[2].length();
    std::fill_n(dp.floats, dp.elements(), 0.0F);
    visit_routes(call, [&](std::int64_t row, std::int64_t slot, std::int64_t expert) {
      dp.floats[row * experts + expert] = dw->floats[slot];
    });
  }

 private:
  /// Returns the piece of the slots' weights, nullptr where the operator has none.
  static const Piece* weights_of(const Operator& op, std::span<const Piece> pieces) {
    return op.uses.size() > 3 ? &pieces[3] : nullptr;
  }

  template <class Visit>
  static void visit_routes(const ShardCall& call, Visit visit) {
    for_each_route({call.op, call.ranges, 2}, reinterpret_cast<const TokenRoute*>(call.saved.data()),
                   call.step.sums, visit);
  }
};

/// values: z, see RoutingSizes, p[g, n, experts], y[g, n, h] = Σ over the token's experts of p·z, or of z
/// where the operator is unweighted. It keeps its routes then, else z and p, which tell them.
class MoeCombine : public Kernel {
 public:
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    if (weighs(op)) return 0;
    return sizeof(TokenRoute) * static_cast<std::size_t>(RoutingSizes(op, ranges, 0).routes());
  }

  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece &z = call.values[0], &p = call.values[1], &y = call.values[2];
    const std::int64_t width = z.box[z.box.dims() - 1].length(), experts = p.box[2].length();
    const bool weighted = weighs(call.op);
    std::fill_n(y.floats, y.elements(), 0.0F);
    if (!weighted) find_routes({call.op, call.ranges, 0}, p.floats, kept_routes(call));
    visit_routes(call, [&](std::int64_t row, std::int64_t slot, std::int64_t expert) {
      const float share = weighted ? p.floats[row * experts + expert] : 1;
      for (std::int64_t j = 0; j < width; ++j)
        y.floats[row * width + j] += share * z.floats[slot * width + j];
    });
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const Piece &z = call.values[0], &p = call.values[1];
    const Piece &dz = call.gradients[0], &dp = call.gradients[1], &dy = call.gradients[2];
    const std::int64_t width = dy.box[2].length();
    if (!weighs(call.op)) {
      std::fill_n(dz.floats, dz.elements(), 0.0F);
      return visit_routes(call, [&](std::int64_t row, std::int64_t slot, std::int64_t /*expert*/) {
        std::copy_n(dy.floats + row * width, width, dz.floats + slot * width);
      });
    }
    const std::int64_t experts = p.box[2].length();
    for (const Piece* gradient : {&dz, &dp}) {
      if (gradient->present()) std::fill_n(gradient->floats, gradient->elements(), 0.0F);
    }
    visit_routes(call, [&](std::int64_t row, std::int64_t slot, std::int64_t expert) {
      const std::int64_t chosen = row * experts + expert;
      const float *d = dy.floats + row * width, *value = z.floats + slot * width;
      double sum = 0;
      for_each_term(width, call.step.sums, [&](std::int64_t j) {
        sum += static_cast<double>(d[j]) * static_cast<double>(value[j]);
        if (dz.present()) dz.floats[slot * width + j] = p.floats[chosen] * d[j];
      });
      if (dp.present()) dp.floats[chosen] = static_cast<float>(sum);
    });
  }

 private:
  static bool weighs(const Operator& op) { return !op.attributes.contains("unweighted"); }
  static TokenRoute* kept_routes(const ShardCall& call) {
    return reinterpret_cast<TokenRoute*>(call.saved.data());
  }

  template <class Visit>
  static void visit_routes(const ShardCall& call, Visit visit) {
    const RoutingSizes s(call.op, call.ranges, 0);
    if (!weighs(call.op)) return for_each_route(s, kept_routes(call), call.step.sums, visit);
    std::vector<TokenRoute> routes(static_cast<std::size_t>(s.routes()));
    find_routes(s, call.values[1].floats, routes.data());
    for_each_route(s, routes.data(), call.step.sums, visit);
  }
};

/// values: z, w, b if any, y, see ExpertLinearSizes.
class ExpertLinear : public Kernel {
 public:
  std::size_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override {
    return fused_saved_bytes(op, pipesim::box_of(op.uses.back(), op, ranges).elements());
  }

  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    const ExpertLinearSizes s(call.op, call.ranges);
    for (std::int64_t i = 0; i < s.g * s.e; ++i) {
      multiply({s.c, s.f, s.h, false, false, false, call.step.sums}, call.values[0].floats + i * s.c * s.h,
               call.values[1].floats + i % s.e * s.h * s.f, call.values.back().floats + i * s.c * s.f,
               call.op.name);
    }
    if (has_expert_biases(call.op) && call.values[bias_use].present()) add_biases(call, s);
    apply_fused(call, saved_floats(call));
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    const ExpertLinearSizes s(call.op, call.ranges);
    std::vector<float> scratch;
    const float* dy = gradient_before_fused(call, saved_floats(call), scratch);
    if (!call.gradients[0].present()) return;
    for (std::int64_t i = 0; i < s.g * s.e; ++i) {
      multiply({s.c, s.h, s.f, false, true, false, call.step.sums}, dy + i * s.c * s.f,
               call.values[1].floats + i % s.e * s.h * s.f, call.gradients[0].floats + i * s.c * s.h,
               call.op.name);
    }
  }

  void backward_weight(const ShardCall& call) const override {
    const ExpertLinearSizes s(call.op, call.ranges);
    const SumOrder order = call.step.sums;
    std::vector<float> scratch;
    const float* dy = gradient_before_fused(call, saved_floats(call), scratch);
    if (has_expert_biases(call.op) && call.gradients[bias_use].present()) bias_gradients(call, s, dy);
    if (!call.gradients[1].present()) return;
    for (std::int64_t e = 0; e < s.e; ++e) {
      for_each_term(s.g, order, [&](std::int64_t g) {
        const std::int64_t i = g * s.e + e;
        const bool first = g == term_at(order, 0, s.g);
        multiply({s.h, s.f, s.c, true, false, !first, order}, call.values[0].floats + i * s.c * s.h,
                 dy + i * s.c * s.f, call.gradients[1].floats + e * s.h * s.f, call.op.name);
      });
    }
  }

 private:
  static constexpr std::size_t bias_use = 2;

  static void add_biases(const ShardCall& call, const ExpertLinearSizes& s) {
    float* y = call.values.back().floats;
    for (std::int64_t row = 0; row < s.g * s.e * s.c; ++row) {
      const float* bias = call.values[bias_use].floats + row / s.c % s.e * s.f;
      for (std::int64_t j = 0; j < s.f; ++j) *y++ += bias[j];
    }
  }

  static void bias_gradients(const ShardCall& call, const ExpertLinearSizes& s, const float* dy) {
    for (std::int64_t i = 0; i < s.e * s.f; ++i) {
      const std::int64_t e = i / s.f, f = i % s.f;
      double sum = 0;
      for_each_term(s.g * s.c, call.step.sums, [&](std::int64_t row) {
        const std::int64_t g = row / s.c, c = row % s.c;
        sum += static_cast<double>(dy[((g * s.e + e) * s.c + c) * s.f + f]);
      });
      call.gradients[bias_use].floats[i] = static_cast<float>(sum);
    }
  }
};

}  // namespace

std::vector<KernelEntry> expert_kernels() {
  static const MoeDispatch moe_dispatch;
  static const MoeCombine moe_combine;
  static const ExpertLinear expert_linear;
  return {{"moe_dispatch", &moe_dispatch}, {"moe_combine", &moe_combine}, {"expert_linear", &expert_linear}};
}

}  // namespace pipesim::cpu
