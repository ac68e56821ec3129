#include "tools/accuracy/tables/measured_run.h"

#include <fmt/format.h>

namespace pipesim {

std::optional<std::string> part_of_preset(std::string_view preset, std::int64_t each, std::int64_t devices) {
  if (devices < 1) return std::nullopt;
  if (devices < each) return fmt::format("{}:gpus={}", preset, devices);
  if (devices % each != 0) return std::nullopt;
  return fmt::format("{}:{}", preset, devices / each);
}

}  // namespace pipesim
