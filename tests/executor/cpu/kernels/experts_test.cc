#include "tests/executor/cpu/defined_activation.h"
#include "tests/executor/cpu/kernel_checks.h"

namespace pipesim::cpu {
namespace {

struct DefinedRoute {
  std::int64_t group, token, expert, slot;
};

/// Every token's best experts, the lower of equals first; slots in token order until the capacity is used up.
std::vector<DefinedRoute> defined_routes(WholeTensor p, std::int64_t top_k, std::int64_t capacity) {
  std::vector<DefinedRoute> routes;
  for (std::int64_t g = 0; g < p.shape[0]; ++g) {
    std::vector<std::int64_t> used(static_cast<std::size_t>(p.shape[2]), 0);
    for (std::int64_t n = 0; n < p.shape[1]; ++n) {
      for (std::int64_t e = 0; e < p.shape[2]; ++e) {
        std::int64_t better = 0;
        for (std::int64_t other = 0; other < p.shape[2]; ++other)
          better +=
              p.at(g, n, other) > p.at(g, n, e) || (other < e && p.at(g, n, other) == p.at(g, n, e)) ? 1 : 0;
        std::int64_t& next = used[static_cast<std::size_t>(e)];
        if (better < top_k && next < capacity) routes.push_back({g, n, e, next++});
      }
    }
  }
  return routes;
}

std::int64_t top_k_of(const Operator& op) { return std::get<std::int64_t>(op.attributes.at("top_k")); }

void define_dispatch(const Operator& op, WholeTensors& t) {
  std::fill(t[2].elements.begin(), t[2].elements.end(), 0.0);
  for (const DefinedRoute& r : defined_routes(t[1], top_k_of(op), t[2].shape[2])) {
    for (std::int64_t h = 0; h < t[0].shape[2]; ++h)
      t[2].at(r.group, r.expert, r.slot, h) = t[0].at(r.group, r.token, h);
  }
}

void define_combine(const Operator& op, WholeTensors& t) {
  std::fill(t[2].elements.begin(), t[2].elements.end(), 0.0);
  for (const DefinedRoute& r : defined_routes(t[1], top_k_of(op), t[0].shape[2])) {
    for (std::int64_t h = 0; h < t[0].shape[3]; ++h) {
      t[2].at(r.group, r.token, h) +=
          t[1].at(r.group, r.token, r.expert) * t[0].at(r.group, r.expert, r.slot, h);
    }
  }
}

TEST(ExpertKernels, DispatchTokensInOrderUntilExpertsAreFull) {
  EXPECT_FALSE(tested_kernels("moe_dispatch").empty());
  for (const int top_k : {1, 2, 4}) {
    Bench bench;
    check_kernel({bench.op("moe_dispatch", {bench.x({4, 6, 4}), bench.x({4, 6, 4})},
                           {{"top_k", top_k}, {"capacity", 3}}),
                  define_dispatch});
  }
}

TEST(ExpertKernels, FillSlotsInOrderOfManyTokens) {
  Bench bench(2);
  check_kernel(
      {bench.op("moe_dispatch", {bench.x({2, 75, 1}), bench.x({2, 75, 3})}, {{"top_k", 2}, {"capacity", 45}}),
       define_dispatch});
}

TEST(ExpertKernels, TiesGoToTheLowerExpert) {
  Bench bench;
  const auto equal = [](WholeTensors& t) { std::fill(t[1].elements.begin(), t[1].elements.end(), 0.25); };
  check_kernel(
      {bench.op("moe_dispatch", {bench.x({2, 5, 4}), bench.x({2, 5, 4})}, {{"top_k", 2}, {"capacity", 5}}),
       define_dispatch, 0, equal});
}

TEST(ExpertKernels, CombineTheChosenExpertsByTheirProbability) {
  for (const int top_k : {1, 2}) {
    Bench bench;
    check_kernel({bench.op("moe_combine", {bench.x({4, 4, 3, 4}), bench.x({4, 6, 4})}, {{"top_k", top_k}}),
                  define_combine});
  }
}

void define_expert_linear(const Operator& op, WholeTensors& t) {
  const auto& y = t[2].shape;
  for (std::int64_t i = 0; i < y[0] * y[1] * y[2] * y[3]; ++i) {
    const std::int64_t g = i / (y[1] * y[2] * y[3]), e = i / (y[2] * y[3]) % y[1], c = i / y[3] % y[2],
                       f = i % y[3];
    double sum = 0;
    for (std::int64_t h = 0; h < t[1].shape[1]; ++h) sum += t[0].at(g, e, c, h) * t[1].at(e, h, f);
    t[2].at(g, e, c, f) = sum;
  }
  apply_defined_activation(op, t);
}

TEST(ExpertKernels, MultiplyByAWeightPerExpert) {
  for (const char* activation : {"none", "silu"}) {
    Bench bench;
    check_kernel(
        {bench.op("expert_linear", {bench.x({4, 4, 3, 4})}, {{"out", 6}, {"activation", activation}}),
         define_expert_linear});
  }
}

}  // namespace
}  // namespace pipesim::cpu
