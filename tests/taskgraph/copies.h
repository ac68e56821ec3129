#pragma once

#include <cstdint>
#include <string>

#include "models/zoo/zoo.h"
#include "sim/simulate.h"
#include "taskgraph/memory/peak_memory.h"
#include "tests/taskgraph/expansion.h"
#include "tests/taskgraph/replica_plans.h"

namespace pipesim {

inline constexpr std::int32_t kCopies = 8;

/// Copies of a model, each with its own samples.
struct Copies {
  Copies(const char* model, const std::string& sharding, std::int32_t microbatches = 1,
         DataType gradient_type = DataType::Float32, std::int32_t copies = kCopies,
         const char* runtime = "pipesim", const Optimizer& optimizer = Optimizer::Adam)
      : graph(make_zoo_model(model)),
        costs(topology, nullptr, parse_runtime(runtime)),
        options(options_of(sharding, microbatches, gradient_type, optimizer)) {
    Strategy strategy;
    for (const Operator& op : graph.operators()) strategy.push_back(in_both(op, 0, copies, 1));
    bound = contents.bind(strategy);
    expanded.expand(bound, {.labels = Labels::Make});
  }
  static PlanOptions options_of(const std::string& sharding, std::int32_t microbatches,
                                DataType gradient_type, const Optimizer& optimizer) {
    PlanOptions options;
    options.optimizer = optimizer;
    options.microbatches = microbatches;
    options.gradient_type = gradient_type;
    options.state_sharding = parse_state_sharding(sharding);
    return options;
  }
  [[nodiscard]] std::int64_t bytes_of(TaskKind kind) const {
    std::int64_t sum = 0;
    for (const TaskLabel& l : expanded.graph().labels) {
      if (l.kind == kind) sum += bytes_on_links(l.collective, l.group_size, l.size);
    }
    return sum;
  }
  [[nodiscard]] std::int64_t parameters() const {
    std::int64_t sum = 0;
    for (const Tensor& t : graph.tensors()) sum += t.kind == TensorKind::Weight ? t.elements() : 0;
    return sum;
  }
  [[nodiscard]] WeightMemory memory() const { return contents.permanent_memory(bound)[3]; }
  [[nodiscard]] DeviceMemory peak(std::size_t device = 3) const {
    return peak_memory(expanded, simulate(expanded.dag()))[device];
  }

  OperatorGraph graph;
  Topology topology = make_topology("dgx-a100:1");
  CostModel costs;
  PlanOptions options;
  PlanContents contents{graph, costs, options};
  ExpandedStrategy expanded{contents};
  BoundStrategy bound;
};

inline constexpr const char* kCopiedLlama =
    "llama:batch=8,layers=3,hidden=64,heads=4,kv_heads=4,vocab=64,sequence=16,ffn=64,dtype=bfloat16";

}  // namespace pipesim
