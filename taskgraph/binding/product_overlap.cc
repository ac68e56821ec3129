#include "taskgraph/binding/product_overlap.h"

#include <algorithm>

namespace pipesim {

std::optional<PartedTransfer> parted_transfer(const CommunicationPlan& plan, const Topology& topology) {
  if (plan.tasks.empty()) return std::nullopt;
  PartedTransfer parted{plan.tasks.front().kind, static_cast<std::int32_t>(plan.tasks.front().group.size())};
  if (parted.kind != Collective::AllGather && parted.kind != Collective::ReduceScatter) return std::nullopt;
  for (const CommunicationTask& task : plan.tasks) {
    const auto node = [&](DeviceId device) { return topology.device(device).node; };
    const auto elsewhere = [&](DeviceId device) { return node(device) != node(task.group.front()); };
    if (task.kind != parted.kind || task.round != 0 || std::ranges::any_of(task.group, elsewhere))
      return std::nullopt;
    parted.parts = std::min(parted.parts, static_cast<std::int32_t>(task.group.size()));
  }
  return parted;
}

double share_beside_product(Nanoseconds transfer, Nanoseconds product, std::int32_t parts) {
  if (transfer <= 0) return 1;
  const double part = 1.0 / parts;
  const double hidden = static_cast<double>(product) / static_cast<double>(transfer) * (1 - part);
  return std::max(part, 1 - hidden);
}

}  // namespace pipesim
