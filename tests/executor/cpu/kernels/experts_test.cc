#include "tests/executor/cpu/defined_activation.h"
#include "tests/executor/cpu/kernel_checks.h"

namespace pipesim::cpu {
namespace {

struct DefinedRoute {
  std::int64_t sample, token, expert, slot;
  std::int64_t group = 0;  ///< of the sample
};

/// Every token's best experts, the lower of equals first; slots in token order until the capacity is used up.
/// A sample's tokens are in groups of equal length, each with its own capacity.
std::vector<DefinedRoute> defined_routes(WholeTensor p, std::int64_t top_k, std::int64_t capacity,
                                         std::int64_t groups) {
  std::vector<DefinedRoute> routes;
  for (std::int64_t g = 0; g < p.shape[0]; ++g) {
    std::vector<std::int64_t> used;
    for (std::int64_t n = 0; n < p.shape[1]; ++n) {
      const std::int64_t length = p.shape[1] / groups;
      if (n % length == 0) used.assign(static_cast<std::size_t>(p.shape[2]), 0);
      for (std::int64_t e = 0; e < p.shape[2]; ++e) {
        std::int64_t better = 0;
        for (std::int64_t other = 0; other < p.shape[2]; ++other)
          better +=
              p.at(g, n, other) > p.at(g, n, e) || (other < e && p.at(g, n, other) == p.at(g, n, e)) ? 1 : 0;
        std::int64_t& next = used[static_cast<std::size_t>(e)];
        if (better < top_k && next < capacity) routes.push_back({g, n, e, next++, n / length});
      }
    }
  }
  return routes;
}

std::int64_t top_k_of(const Operator& op) { return std::get<std::int64_t>(op.attributes.at("top_k")); }

/// z[g, e, c, h] or z[g, m, e, c, h]; then m is the number of groups.
std::int64_t groups_of(const WholeTensor& z) { return z.shape.size() == 5 ? z.shape[1] : 1; }
std::int64_t capacity_of(const WholeTensor& z) { return z.shape[z.shape.size() - 2]; }
double& slot_of(WholeTensor& z, const DefinedRoute& r, std::int64_t h) {
  return z.shape.size() == 5 ? z.at(r.sample, r.group, r.expert, r.slot, h)
                             : z.at(r.sample, r.expert, r.slot, h);
}

void define_dispatch(const Operator& op, WholeTensors& t) {
  std::fill(t[2].elements.begin(), t[2].elements.end(), 0.0);
  for (const DefinedRoute& r : defined_routes(t[1], top_k_of(op), capacity_of(t[2]), groups_of(t[2]))) {
    for (std::int64_t h = 0; h < t[0].shape[2]; ++h) slot_of(t[2], r, h) = t[0].at(r.sample, r.token, h);
  }
}

void define_dispatch_with_weights(const Operator& op, WholeTensors& t) {
  define_dispatch(op, t);
  std::fill(t[3].elements.begin(), t[3].elements.end(), 0.0);
  for (const DefinedRoute& r : defined_routes(t[1], top_k_of(op), capacity_of(t[2]), groups_of(t[2])))
    slot_of(t[3], r, 0) = t[1].at(r.sample, r.token, r.expert);
}

void define_combine(const Operator& op, WholeTensors& t) {
  const bool weighs = !op.attributes.contains("unweighted");
  std::fill(t[2].elements.begin(), t[2].elements.end(), 0.0);
  for (const DefinedRoute& r : defined_routes(t[1], top_k_of(op), capacity_of(t[0]), groups_of(t[0]))) {
    const double weight = weighs ? t[1].at(r.sample, r.token, r.expert) : 1;
    for (std::int64_t h = 0; h < t[0].shape.back(); ++h)
      t[2].at(r.sample, r.token, h) += weight * slot_of(t[0], r, h);
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

TEST(ExpertKernels, DispatchTokensInGroupsOfASample) {
  for (const int groups : {1, 2, 6}) {
    Bench bench;
    check_kernel({bench.op("moe_dispatch", {bench.x({4, 12, 4}), bench.x({4, 12, 4})},
                           {{"top_k", 2}, {"capacity", groups == 6 ? 1 : 3}, {"groups", groups}}),
                  define_dispatch});
  }
}

TEST(ExpertKernels, CombineGroupsOfASample) {
  for (const int groups : {1, 2, 6}) {
    Bench bench;
    check_kernel(
        {bench.op("moe_combine", {bench.x({4, groups, 4, 2, 3}), bench.x({4, 12, 4})}, {{"top_k", 2}}),
         define_combine});
  }
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

TEST(ExpertKernels, DispatchWeightsWithTheirTokens) {
  for (const int groups : {1, 2, 6}) {
    Bench bench;
    check_kernel(
        {bench.op("moe_dispatch", {bench.x({4, 12, 4}), bench.x({4, 12, 4})},
                  {{"top_k", 2}, {"capacity", groups == 6 ? 1 : 3}, {"groups", groups}, {"weights", 1}}),
         define_dispatch_with_weights});
  }
}

TEST(ExpertKernels, CombineResultsThatWereWeightedBefore) {
  for (const int top_k : {1, 2}) {
    Bench bench;
    check_kernel({bench.op("moe_combine", {bench.x({4, 4, 3, 4}), bench.x({4, 6, 4})},
                           {{"top_k", top_k}, {"unweighted", 1}}),
                  define_combine});
  }
}

/// Rows of z and y follow one another: [g, e, c] or [g, m, e, c].
void define_expert_linear(const Operator& op, WholeTensors& t) {
  const std::vector<std::int64_t>& y = t.back().shape;
  const bool biased = op.attributes.contains("bias");
  const std::int64_t width = y.back(), inner = t[1].shape[1];
  const std::int64_t capacity = y[y.size() - 2], experts = y[y.size() - 3];
  for (std::size_t i = 0; i < t.back().elements.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) / width, f = static_cast<std::int64_t>(i) % width;
    double sum = biased ? t[2].at(row / capacity % experts, f) : 0;
    for (std::int64_t h = 0; h < inner; ++h)
      sum +=
          t[0].elements[static_cast<std::size_t>(row * inner + h)] * t[1].at(row / capacity % experts, h, f);
    t.back().elements[i] = sum;
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
  Bench bench;
  check_kernel({bench.op("expert_linear", {bench.x({2, 3, 4, 2, 4})}, {{"out", 6}}), define_expert_linear});
}

// Where h is split, one shard adds the biases.
TEST(ExpertKernels, AddABiasPerExpert) {
  for (const char* activation : {"none", "silu"}) {
    for (const Sizes& shape : {Sizes{4, 4, 3, 4}, Sizes{2, 3, 4, 2, 4}, Sizes{4, 1, 3, 5}}) {
      Bench bench(shape[0]);
      check_kernel(
          {bench.op("expert_linear", {bench.x(shape)}, {{"out", 6}, {"activation", activation}, {"bias", 1}}),
           define_expert_linear});
    }
  }
}

}  // namespace
}  // namespace pipesim::cpu
