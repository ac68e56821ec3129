#include "tools/interop/shell/launch_devices.h"

#include <algorithm>
#include <charconv>

namespace pipesim {

std::optional<std::int64_t> launched_devices(
    const std::function<std::optional<std::string>(std::string_view flag)>& text) {
  // Nothing: the flag has no plain number. 0: it is not given.
  const auto number = [&](std::string_view flag) -> std::optional<std::int64_t> {
    const std::optional<std::string> written = text(flag);
    if (!written) return 0;
    std::int64_t value = 0;
    constexpr std::int64_t kMost = 1 << 20;
    const char* const end = written->data() + written->size();
    const auto [stopped, error] = std::from_chars(written->data(), end, value);
    const bool plain = error == std::errc() && stopped == end && value > 0 && value <= kMost;
    return plain ? std::optional(value) : std::nullopt;
  };
  const auto each = number("--nproc-per-node"), nodes = number("--nnodes");
  const auto gpus = number("--num-gpus"), hosts = number("--num-nodes");
  if (!each || !nodes || !gpus || !hosts) return std::nullopt;
  const std::int64_t of_a_node = *each > 0 ? *each : *gpus;
  if (of_a_node == 0) return std::nullopt;
  return of_a_node * std::max({*nodes, *hosts, std::int64_t{1}});
}

}  // namespace pipesim
