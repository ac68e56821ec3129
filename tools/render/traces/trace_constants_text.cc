#include "tools/render/traces/trace_constants_text.h"

#include <fmt/format.h>

#include <cmath>

#include "tools/base/figures.h"
#include "tools/render/base/table.h"

namespace pipesim {

std::string to_text(const TracedConstants& constants) {
  Table table({{"constant"}, {"factor", Align::Right}, {"90 % interval", Align::Right}, {"from"}});
  if (constants.found.empty()) return "the trace tells no constant\n";
  for (const TracedConstant& found : constants.found) {
    const double factor = std::exp(found.constant.log);
    const PredictionInterval interval = interval_around(Seconds(factor), found.deviation);
    table.add({found.constant.text(), fmt::format("{:.3f}", factor),
               fmt::format("{:.3f} to {:.3f}", interval.low.value, interval.high.value), found.evidence});
  }
  const bool left_out = std::ranges::any_of(constants.found, [](const auto& one) { return !one.in_file; });
  return fmt::format(
      "constants of {}\n\n{}{}", constants.constants.device, table.str(2),
      left_out ? "  The profiler makes the host slower, so its factor is left out without --keep-host.\n"
               : "");
}

}  // namespace pipesim
