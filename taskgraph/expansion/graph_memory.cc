#include "taskgraph/expansion/graph_memory.h"

#include <fmt/format.h>

#include <optional>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

std::size_t bytes_of(const TaskGraph& tasks) {
  return tasks.dag.bytes() + tasks.dag.building_bytes() + tasks.labels.size() * sizeof(TaskLabel);
}

std::string graph_text(std::int32_t microbatches, const Topology& topology) {
  return fmt::format("the task graph of {} microbatch{} on {} device{}", microbatches,
                     microbatches == 1 ? "" : "es", topology.num_devices(),
                     topology.num_devices() == 1 ? "" : "s");
}

std::string smaller_graph(std::int32_t microbatches) {
  return fmt::format("Take fewer {}devices, or a model of fewer operators",
                     microbatches > 1 ? "microbatches (--microbatches), fewer " : "");
}

}  // namespace

OutOfMemory graph_too_large(const TaskGraph& so_far, std::int32_t microbatches, const Topology& topology) {
  return out_of_memory(
      fmt::format("building {} ({} tasks so far, {})", graph_text(microbatches, topology),
                  so_far.dag.num_tasks(), pretty(Bytes(static_cast<std::int64_t>(bytes_of(so_far))))),
      smaller_graph(microbatches));
}

void require_room(const TaskGraph& first, std::int32_t microbatches, const Topology& topology) {
  constexpr double kLittle = 256e6;  // not worth asking the system
  const double tasks = static_cast<double>(first.dag.num_tasks()) * microbatches;
  const double bytes = static_cast<double>(bytes_of(first)) * microbatches;
  const std::string what =
      fmt::format("{} has about {:.0f} tasks, which need {}", graph_text(microbatches, topology), tasks,
                  pretty(Bytes(static_cast<std::int64_t>(bytes))));
  if (tasks > INT32_MAX)
    throw InputError(
        fmt::format("{}; allowed: up to {} tasks. {}", what, INT32_MAX, smaller_graph(microbatches)));
  if (bytes < kLittle) return;
  const std::optional<MemoryLimit> limit = memory_limit();
  if (!limit || bytes <= static_cast<double>((limit->left + limit->taken).value)) return;
  throw OutOfMemory(
      fmt::format("out of memory: {}; {}. {}", what, limit->str(), smaller_graph(microbatches)));
}

}  // namespace pipesim
