#include "taskgraph/plan/gradient_reduction.h"

#include <fmt/format.h>

#include "sim/base/errors.h"

namespace pipesim {

std::string_view name_of(GradientReduction reduction) {
  return reduction == GradientReduction::Overlapped ? "overlapped" : "after-steps";
}

GradientReduction parse_gradient_reduction(std::string_view name) {
  for (const GradientReduction reduction : {GradientReduction::Overlapped, GradientReduction::AfterSteps}) {
    if (name == name_of(reduction)) return reduction;
  }
  throw InputError(fmt::format("gradient reduction \"{}\", allowed: overlapped, after-steps", name));
}

}  // namespace pipesim
