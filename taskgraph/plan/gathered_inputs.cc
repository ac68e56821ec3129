#include "taskgraph/plan/gathered_inputs.h"

#include <fmt/format.h>

#include "sim/base/errors.h"

namespace pipesim {

std::string_view name_of(GatheredInputs gathered) {
  return gathered == GatheredInputs::Keep ? "keep" : "again";
}

GatheredInputs parse_gathered_inputs(std::string_view name) {
  for (const GatheredInputs gathered : {GatheredInputs::Keep, GatheredInputs::Again}) {
    if (name == name_of(gathered)) return gathered;
  }
  throw InputError(fmt::format("gathered inputs \"{}\", allowed: keep, again", name));
}

}  // namespace pipesim
