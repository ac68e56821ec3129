#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "models/operator_graph.h"
#include "sim/base/rng.h"
#include "taskgraph/plan/plan.h"
#include "tests/taskgraph/random_layouts.h"

namespace pipesim {

/// Zoo models of a few operators each, with dims that 2, 4 and 8 divide.
inline constexpr const char* small_models[] = {
    "mlp:batch=8,layers=2,hidden=16,features=12,classes=8",
    "lenet:batch=8",
    "gpt:batch=4,layers=1,hidden=16,heads=4,vocab=50,sequence=8,positions=8",
    "llama:batch=4,layers=1,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24",
    "mixtral-8x7b:batch=4,layers=1,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=8,ffn=24",
    "nmt:batch=8,steps=2,layers=2,hidden=8,embedded=8,vocab=24",
    "rnntc:batch=8,steps=3,hidden=8,embedded=8,vocab=24",
    "resnet50:batch=8,image=64"};

/// Names a test of a zoo model: "mixtral_8x7b" of "mixtral-8x7b:batch=4".
struct ModelWord {
  template <class Instance>
  std::string operator()(const Instance& instance) const {
    const std::string text = instance.param;
    std::string word = text.substr(0, text.find(':'));
    std::replace(word.begin(), word.end(), '-', '_');
    return word;
  }
};

/// A legal config of at most `most` shards: random degrees of random factors, now and then copies, on random
/// devices, or on neighbours in order. Where keys can pass round a ring, they do in half of the cases.
inline ParallelConfig random_config(const Operator& op, Rng& rng, std::size_t devices, std::int64_t most) {
  ParallelConfig config{std::vector<std::int32_t>(op.factors.size(), 1), 1, {}};
  std::int64_t total = 1;
  if (rng.below(4) == 0 && most >= 2) config.replicas = 2, total = 2;
  for (std::uint64_t tries = rng.below(4); !op.factors.empty() && tries > 0; --tries) {
    const std::size_t f = rng.below(op.factors.size());
    const std::int32_t before = config.degrees[f], degrees[] = {2, 2, 3, 4, 8};
    config.degrees[f] = degrees[rng.below(5)];
    if (config.num_shards() <= most && !illegal_degrees(op, config.degrees)) continue;
    config.degrees[f] = before;
  }
  config.ring = !illegal_ring(op, config.degrees) && rng.below(2) == 0;
  total = config.num_shards();
  config.devices = random_devices(rng, devices, static_cast<std::size_t>(total));
  if (rng.below(2) == 0) {
    const std::uint64_t first = rng.below(devices - static_cast<std::size_t>(total) + 1);
    for (std::size_t k = 0; k < config.devices.size(); ++k) config.devices[k] = DeviceId(first + k);
  }
  return config;
}

inline Strategy random_strategy(const OperatorGraph& graph, Rng& rng, std::size_t devices,
                                std::int64_t most) {
  Strategy strategy;
  for (const Operator& op : graph.operators()) strategy.push_back(random_config(op, rng, devices, most));
  return strategy;
}

/// Gathers keys instead of passing them round a ring, for devices whose kernels only take gathered keys.
inline Strategy without_rings(Strategy strategy) {
  for (ParallelConfig& config : strategy) config.ring = false;
  return strategy;
}

/// Every operator split by its first factor over all devices, or the most that divides it.
inline Strategy data_parallel(const OperatorGraph& graph, std::int32_t devices) {
  Strategy strategy;
  for (const Operator& op : graph.operators()) {
    ParallelConfig config{std::vector<std::int32_t>(op.factors.size(), 1), 1, {}};
    std::int32_t degree = op.factors.empty() ? 1 : devices;
    while (degree > 1 && (config.degrees[0] = degree, illegal_degrees(op, config.degrees))) --degree;
    if (!op.factors.empty()) config.degrees[0] = degree;
    for (std::int32_t d = 0; d < degree; ++d) config.devices.emplace_back(d);
    strategy.push_back(std::move(config));
  }
  return strategy;
}

}  // namespace pipesim
