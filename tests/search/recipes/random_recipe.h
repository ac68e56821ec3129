#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "search/recipes/expand_recipe.h"
#include "sim/base/rng.h"
#include "tests/taskgraph/random_state_sharding.h"

namespace pipesim {

inline std::int64_t any_divisor(std::int64_t n, Rng& rng) {
  std::int64_t d = static_cast<std::int64_t>(1 + rng.below(static_cast<std::uint64_t>(n)));
  while (n % d != 0) --d;
  return d;
}

/// A legal, complete recipe for so many devices, with the samples of the model's microbatch.
inline Recipe random_recipe(const RecipeModel& model, std::int64_t devices, Rng& rng) {
  for (;;) {
    Recipe r;
    r.tensor = any_divisor(devices, rng);
    r.context = any_divisor(devices / r.tensor, rng);
    if (rng.below(2) == 0) r.ulysses = any_divisor(r.context, rng);
    r.ring = r.context > r.ulysses && rng.below(2) == 0;
    r.pipeline = any_divisor(devices / r.tensor / r.context, rng);
    r.data = devices / r.tensor / r.context / r.pipeline;
    if (model.graph().batch() % r.data != 0) continue;
    if (model.axes().has(AxisRole::Experts) && rng.below(3) > 0) {
      r.expert = any_divisor(r.tensor * r.context * r.data, rng);
      if (rng.below(2) == 0) r.expert_tensor = any_divisor(devices, rng);
    }
    r.microbatch = model.graph().batch() / r.data;
    r.sequence_parallel = rng.below(2) == 0;
    if (rng.below(3) == 0) r.chunks = 2;
    if (rng.below(4) == 0) r.first = static_cast<std::int64_t>(rng.below(3));
    if (rng.below(4) == 0) r.last = static_cast<std::int64_t>(rng.below(3));
    if (rng.below(3) == 0 && r.chunks == 1) r.schedule = rng.below(2) == 0 ? "gpipe" : "zb-h1";
    if (r.chunks == 2 && rng.below(2) == 0) r.schedule = "zb-v";
    constexpr std::array texts{"none", "selective", "full", "stage", "op", "mlp", "moe_act+layernorm"};
    r.recompute = parse_recompute(texts[rng.below(texts.size())]);
    if (r.recompute.kind == Recompute::Kind::Full && rng.below(2) == 0)
      r.recompute = {.kind = Recompute::Kind::First, .count = static_cast<std::int64_t>(1 + rng.below(2))};
    r.state_sharding = random_state_sharding(rng);
    using enum StateSharding::Reshard;
    if (r.pipeline > 1 && r.state_sharding.reshard == Never)
      r.state_sharding.reshard = Last, r.state_sharding.whole_gradients = false;
    if (rng.below(4) == 0) r.gathered = rng.below(2) == 0 ? GatheredInputs::Keep : GatheredInputs::Again;
    if (rng.below(4) == 0) r.reduction = GradientReduction::Overlapped;
    for (std::size_t i = kMeshAxes; rng.below(2) == 0 && i-- > 1;)
      std::swap(r.order[i], r.order[rng.below(i + 1)]);
    if (!model.illegal(r)) return r;
  }
}

}  // namespace pipesim
