#include "topologies/device_kinds.h"

#include <algorithm>

#include "topologies/kind_parts.h"

namespace pipesim {
namespace {

std::vector<DeviceKind> all_kinds() {
  std::vector<DeviceKind> all = kinds::data_center_kinds();
  for (const auto& more : {kinds::card_kinds(), kinds::amd_kinds(), kinds::tpu_kinds()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

std::span<const DeviceKind> built_in_device_kinds() {
  static const std::vector<DeviceKind> kinds = all_kinds();
  return kinds;
}

const DeviceKind* find_built_in_device_kind(std::string_view name) {
  const auto kinds = built_in_device_kinds();
  const auto it =
      std::find_if(kinds.begin(), kinds.end(), [&](const DeviceKind& k) { return k.name == name; });
  return it == kinds.end() ? nullptr : &*it;
}

std::vector<std::string> built_in_device_kind_names() {
  std::vector<std::string> names;
  for (const DeviceKind& kind : built_in_device_kinds()) names.push_back(kind.name);
  return names;
}

}  // namespace pipesim
