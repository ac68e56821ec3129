#include "taskgraph/schedules/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <utility>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "taskgraph/schedules/kinds.h"

namespace pipesim {
namespace {

struct NamedSchedule {
  const ScheduleKind& kind;
  std::int32_t number = 0;
};

const ScheduleKind& kind_named(std::string_view name, std::string_view written) {
  const std::span<const ScheduleKind> kinds = schedule_kinds();
  const auto found = std::ranges::find(kinds, name, &ScheduleKind::name);
  if (found != kinds.end()) return *found;
  std::vector<std::string> names, forms;
  for (const ScheduleKind& kind : kinds) {
    names.emplace_back(kind.name);
    forms.push_back(kind.form());
  }
  throw InputError(fmt::format("schedule \"{}\": unknown{}, allowed: {}", written,
                               did_you_mean(std::string(name), names), list_names(forms)));
}

NamedSchedule named(std::string_view written) {
  const std::size_t colon = written.find(':');
  const ScheduleKind& kind = kind_named(written.substr(0, colon), written);
  if (colon == std::string_view::npos && !kind.takes_number()) return {kind};
  if (!kind.takes_number())
    throw InputError(
        fmt::format("schedule \"{}\": {} takes no number, allowed: {}", written, kind.name, kind.name));
  const std::string_view digits = colon == std::string_view::npos ? "" : written.substr(colon + 1);
  std::int32_t number = 0;
  const char* const end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, number);
  if (read.ec == std::errc() && read.ptr == end && number >= 1) return {kind, number};
  throw InputError(
      fmt::format("schedule \"{}\": found {}, allowed: {} with {}, a whole number from 1, like {}:8", written,
                  colon == std::string_view::npos ? "no number" : fmt::format("the number \"{}\"", digits),
                  kind.form(), kind.number.meaning, kind.name));
}

}  // namespace

std::span<const ScheduleKind> schedule_kinds() {
  static const std::array kinds{gpipe_schedule(),
                                one_forward_one_backward_schedule(),
                                eager_schedule(),
                                interleaved_schedule(),
                                interleaved_groups_schedule(),
                                interleaved_beside_schedule(),
                                zero_bubble_h1_schedule(),
                                zero_bubble_h2_schedule(),
                                automatic_zero_bubble_schedule(),
                                zero_bubble_v_schedule(),
                                dual_pipe_v_schedule(),
                                pipedream_schedule(),
                                pipedream_vertical_sync_schedule(),
                                double_buffered_schedule(),
                                chimera_schedule(),
                                dual_pipe_schedule(),
                                inference_schedule()};
  return kinds;
}

const ScheduleKind& schedule_kind(std::string_view written) { return named(written).kind; }
std::int32_t schedule_number(std::string_view written) { return named(written).number; }

bool lies_in_v(std::string_view written) {
  return std::ranges::any_of(schedule_kinds(),
                             [name = written.substr(0, written.find(':'))](const ScheduleKind& k) {
                               return k.in_v && k.name == name;
                             });
}

std::string refuse_all_but_two_chunks(const PipelineShape& shape) {
  if (shape.chunks == 2) return "";
  return fmt::format("found {} a device, allowed: 2, as in a V", counted(shape.chunks, "chunk"));
}

namespace {

std::vector<std::string> names_that_take_replicas() {
  std::vector<std::string> names;
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.takes_replicas) names.emplace_back(kind.name);
  }
  return names;
}

void require_shape(const ScheduleKind& kind, const PipelineShape& shape) {
  if (shape.devices < 1 || shape.microbatches < 1 || shape.chunks < 1)
    throw InternalError("a schedule for no devices, microbatches or chunks");
  std::string refusal = kind.refusal(shape);
  const bool replay = shape.devices == 1 && kind.weights != WeightChange::AfterIteration;
  if (refusal.empty() && shape.chunks > 1 && !kind.takes_chunks && !replay)
    refusal = fmt::format("found {} chunks a device, allowed: 1", shape.chunks);
  if (refusal.empty() && !shape.replicas.empty() && !kind.takes_replicas)
    refusal = fmt::format("it takes no replicas that have microbatches in turn, allowed: {}",
                          list_names(names_that_take_replicas()));
  if (!refusal.empty()) throw InputError(fmt::format("schedule \"{}\": {}", kind.name, refusal));
}

}  // namespace

PipelineSchedule make_schedule(const ScheduleKind& kind, const PipelineShape& shape) {
  require_shape(kind, shape);
  return kind.build(shape);
}

void require_shape(std::string_view written, PipelineShape shape) {
  const NamedSchedule found = named(written);
  shape.number = found.number;
  require_shape(found.kind, shape);
}

PipelineSchedule make_schedule(std::string_view written, PipelineShape shape) {
  const NamedSchedule found = named(written);
  shape.number = found.number;
  return make_schedule(found.kind, shape);
}

const PipelineSchedule& MadeSchedules::of(const std::string& written, const PipelineShape& shape) {
  constexpr std::size_t kMost = 4;  // few and many microbatches of two plans
  const auto known =
      std::ranges::find_if(made_, [&](const Made& m) { return m.written == written && m.shape == shape; });
  if (known != made_.end()) return known->schedule;
  Made made{written, shape, make_schedule(written, shape)};
  if (made_.size() < kMost) return made_.emplace_back(std::move(made)).schedule;
  Made& replaced = made_[next_++ % kMost];
  replaced = std::move(made);
  return replaced.schedule;
}

}  // namespace pipesim
