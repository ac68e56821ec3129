#include "executor/gpu/kernel.h"

#include <algorithm>
#include <string>

#include "executor/gpu/kernels/families.h"
#include "sim/base/errors.h"

namespace pipesim::gpu {
namespace {

const std::vector<KernelEntry>& gpu_entries() {
  static const std::vector<KernelEntry> all = [] {
    std::vector<KernelEntry> sorted;
    for (const auto family : kernel_families) {
      for (const KernelEntry& e : family()) sorted.push_back(e);
    }
    std::ranges::sort(sorted, {}, &KernelEntry::kind);
    return sorted;
  }();
  return all;
}

}  // namespace

Stored stored_as(DataType type) {
  switch (type) {
    case DataType::Float32:
    case DataType::TensorFloat32:
      return Stored::Float32;
    case DataType::BFloat16:
      return Stored::BFloat16;
    case DataType::Float16:
      return Stored::Float16;
    case DataType::Float64:
      return Stored::Float64;
    default:
      throw InternalError("elements of type " + std::string(name_of(type)) +
                          " are no floating-point numbers");
  }
}

Floats Piece::floats() const { return present() ? Floats{memory, stored_as(type)} : Floats{}; }

std::size_t Kernel::saved_bytes(const Operator& /*op*/, std::span<const Range> /*ranges*/) const { return 0; }

void Kernel::backward_input(const ShardCall& call, std::size_t /*segment*/) const {
  throw InternalError("kind " + call.op.kind + " has no backward pass for its inputs");
}

void Kernel::backward_weight(const ShardCall& call) const {
  throw InternalError("kind " + call.op.kind + " has no backward pass for its weights");
}

const Kernel* find_kernel(std::string_view kind) {
  const auto at = std::ranges::lower_bound(gpu_entries(), kind, {}, &KernelEntry::kind);
  return at == gpu_entries().end() || at->kind != kind ? nullptr : at->kernel;
}

std::vector<std::string_view> kernel_kinds() {
  std::vector<std::string_view> kinds;
  for (const KernelEntry& e : gpu_entries()) kinds.push_back(e.kind);
  return kinds;
}

}  // namespace pipesim::gpu
