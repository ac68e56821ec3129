// What a search does again and again allocates nothing once its contents were met.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "models/zoo/zoo.h"
#include "taskgraph/expansion/editable_task_graph.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_strategies.h"
#include "topologies/presets/presets.h"

namespace {
thread_local std::size_t allocations = 0;
}  // namespace

// Sanitizers have an allocator of their own.
#ifndef PIPESIM_SANITIZED
// g++ sees through the replaced operators and finds free() where delete was written.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace pipesim {
namespace {

TEST(PlanningAllocations, NoneOnceEverythingWasMet) {
  if (sanitized) GTEST_SKIP() << "allocations are not counted under sanitizers";
  const OperatorGraph graph = make_zoo_model("nmt:steps=2");
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  PlanContents contents(graph, costs, {});
  EditableTaskGraph edited(contents);
  edited.build(contents.bind(data_parallel(graph, static_cast<std::int32_t>(topology.num_devices()))));
  edited.carry_out();
  edited.keep();
  Rng rng(1);
  std::vector<BoundChange> changes;
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    const ParallelConfig config = random_config(graph.operators()[i], rng, topology.num_devices(), 8);
    changes.push_back({OperatorId(i), contents.bind(OperatorId(i), config)});
  }
  const auto propose_all = [&] {
    for (std::size_t i = 0; i < changes.size(); ++i) {
      if (edited.change(std::span(changes).subspan(i, 1))) edited.carry_out();
      edited.undo();
    }
  };
  propose_all();
  const std::size_t before = allocations;
  propose_all();
  EXPECT_EQ(allocations, before);
}

}  // namespace
}  // namespace pipesim
