#include "executor/gpu/machine/requirements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/base/errors.h"

namespace pipesim::gpu {
namespace {

constexpr const char* kSmaller = "take a smaller batch, or a plan that splits weights over more devices";

std::string text_of(const MemoryDemand& demand) {
  return fmt::format("device {} is predicted to need {} and asks for {}", demand.device.value,
                     pretty(demand.predicted), pretty(demand.asked));
}

// The first few.
std::string joined(const std::vector<std::string>& texts) {
  constexpr std::size_t most = 8;
  const std::size_t shown = std::min(most, texts.size());
  std::string text = fmt::format("{}", fmt::join(texts.begin(), texts.begin() + shown, "; "));
  if (const std::size_t rest = texts.size() - shown; rest > 0)
    text += fmt::format("; and {} more device{}", rest, rest == 1 ? "" : "s");
  return text;
}

void require_shared_memory(std::span<const MemoryDemand> demands, const Machine& machine) {
  MemoryDemand all{demands.front().device, Bytes(0), Bytes(0)};
  std::vector<std::string> texts;
  for (const MemoryDemand& demand : demands) {
    all.predicted += demand.predicted;
    all.asked += demand.asked;
    if (demand.asked.value > 0) texts.push_back(text_of(demand));
  }
  const Bytes free = machine.free_memory(all.device);
  if (all.asked <= free) return;
  throw InputError(fmt::format(
      "out of memory, which {} share: {} are free, they are predicted to need {} together and "
      "ask for {} ({}); {}",
      machine.name(), pretty(free), pretty(all.predicted), pretty(all.asked), joined(texts), kSmaller));
}

// Who makes a tensor, or else who uses it first.
std::string operator_at(const OperatorGraph& graph, TensorId id) {
  const Tensor& tensor = graph.tensor(id);
  if (tensor.producer.valid())
    return fmt::format("operator \"{}\" makes \"{}\"", graph.op(tensor.producer).name, tensor.name);
  if (graph.consumers(id).empty()) return fmt::format("tensor \"{}\" is", tensor.name);
  return fmt::format("operator \"{}\" reads \"{}\"", graph.op(graph.consumers(id).front().op).name,
                     tensor.name);
}

}  // namespace

void require_types(const OperatorGraph& graph, const Machine& machine) {
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    const TensorId id(t);
    const DataType type = graph.tensor(id).type;
    if (const std::string why = machine.why_not(type); !why.empty())
      throw InputError(fmt::format("{} in {}: {}", operator_at(graph, id), name_of(type), why));
  }
}

void require_memory(std::span<const MemoryDemand> demands, const Machine& machine) {
  if (demands.empty()) return;
  if (machine.shares_memory()) {
    require_shared_memory(demands, machine);
    return;
  }
  std::vector<std::string> texts;
  for (const MemoryDemand& demand : demands) {
    const Bytes free = machine.free_memory(demand.device);
    if (demand.asked > free) texts.push_back(fmt::format("{}, {} are free", text_of(demand), pretty(free)));
  }
  if (!texts.empty())
    throw InputError(fmt::format("out of memory on {}: {}; {}", machine.name(), joined(texts), kSmaller));
}

}  // namespace pipesim::gpu
