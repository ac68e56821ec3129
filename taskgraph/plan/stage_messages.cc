#include "taskgraph/plan/stage_messages.h"

#include <fmt/format.h>

#include "sim/base/errors.h"

namespace pipesim {

std::string_view name_of(StageMessages messages) {
  return messages == StageMessages::Beside ? "beside" : "blocking";
}

StageMessages parse_stage_messages(std::string_view name) {
  for (const StageMessages messages : {StageMessages::Beside, StageMessages::Blocking}) {
    if (name == name_of(messages)) return messages;
  }
  throw InputError(fmt::format("messages \"{}\", allowed: beside, blocking", name));
}

StageMessages usual_messages(MessageOverlap overlap, std::string_view schedule) {
  const bool blocks =
      overlap == MessageOverlap::Never || (overlap == MessageOverlap::UnlessPlain && schedule == "1f1b");
  return blocks ? StageMessages::Blocking : StageMessages::Beside;
}

}  // namespace pipesim
