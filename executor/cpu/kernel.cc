#include "executor/cpu/kernel.h"

#include <algorithm>

#include "executor/cpu/kernels/families.h"
#include "sim/base/errors.h"

namespace pipesim::cpu {
namespace {

const std::vector<KernelEntry>& entries() {
  static const std::vector<KernelEntry> all = [] {
    std::vector<KernelEntry> sorted;
    for (const auto family : kernel_families) {
      for (const KernelEntry& e : family()) sorted.push_back(e);
    }
    std::sort(sorted.begin(), sorted.end(),
              [](const KernelEntry& a, const KernelEntry& b) { return a.kind < b.kind; });
    return sorted;
  }();
  return all;
}

}  // namespace

std::size_t Kernel::saved_bytes(const Operator& /*op*/, std::span<const Range> /*ranges*/) const { return 0; }

void Kernel::backward_input(const ShardCall& call, std::size_t /*segment*/) const {
  throw InternalError("kind " + call.op.kind + " has no backward pass for its inputs");
}

void Kernel::backward_weight(const ShardCall& call) const {
  throw InternalError("kind " + call.op.kind + " has no backward pass for its weights");
}

const Kernel* find_kernel(std::string_view kind) {
  const auto at = std::lower_bound(entries().begin(), entries().end(), kind,
                                   [](const KernelEntry& e, std::string_view k) { return e.kind < k; });
  return at == entries().end() || at->kind != kind ? nullptr : at->kernel;
}

std::vector<std::string_view> kernel_kinds() {
  std::vector<std::string_view> kinds;
  for (const KernelEntry& e : entries()) kinds.push_back(e.kind);
  return kinds;
}

}  // namespace pipesim::cpu
