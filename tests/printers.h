#pragma once

#include <concepts>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>

#include "sim/base/ids.h"
#include "sim/base/units.h"

// How failing tests print values. Part of the precompiled header of all tests, so that every file prints them
// the same; types that only some of them include are declared here, and defined where they are printed.

namespace pipesim {

template <class Tag>
void PrintTo(const Id<Tag>& id, std::ostream* out) {
  *out << '#' << id.value;
}

template <class Unit, class Rep>
void PrintTo(const Quantity<Unit, Rep>& quantity, std::ostream* out) {
  *out << quantity.value;
}

/// "1f1b", "bfloat16", "forward-transfer".
template <class Enum>
requires(std::is_enum_v<Enum>&& requires(Enum e) {
  { name_of(e) } -> std::convertible_to<std::string_view>;
}) void PrintTo(const Enum& value, std::ostream* out) {
  *out << name_of(value);
}

/// A Box as "[0:4, 8:16]".
template <class Text>
requires requires(const Text& t) {
  { t.str() } -> std::convertible_to<std::string>;
}
void PrintTo(const Text& value, std::ostream* out) { *out << value.str(); }

struct ParallelConfig;
struct PipelineStep;
struct Evaluation;
struct LaneUse;
struct TaskKey;
struct Range;
struct DeviceMemory;

/// "degrees 2 1 4, 2 copies, devices 0 1 2 …": the operator, whose factors have names, is not known.
template <std::same_as<ParallelConfig> Config>
void PrintTo(const Config& config, std::ostream* out) {
  *out << "degrees";
  for (const auto degree : config.degrees) *out << ' ' << degree;
  *out << ", " << config.replicas << " copies, devices";
  for (const auto device : config.devices) *out << ' ' << device.value;
}

template <std::same_as<PipelineStep> Step>
void PrintTo(const Step& step, std::ostream* out) {
  *out << "step kind " << static_cast<int>(step.kind) << " of microbatch " << step.microbatch << ", stage "
       << step.stage;
}

template <std::same_as<Evaluation> Score>
void PrintTo(const Score& e, std::ostream* out) {
  *out << e.time << " ns, " << e.overflow.value << " bytes too many";
  if (!e.proven) *out << ", estimated within " << e.spread << " ns";
}

template <std::same_as<LaneUse> Use>
void PrintTo(const Use& use, std::ostream* out) {
  *out << "lane " << use.lane.value << " for " << use.hold << " ns";
}

template <std::same_as<TaskKey> Key>
void PrintTo(const Key& key, std::ostream* out) {
  *out << std::hex << key.high << ':' << key.low << std::dec;
}

template <std::same_as<Range> Part>
void PrintTo(const Part& range, std::ostream* out) {
  *out << range.begin << ':' << range.end;
}

template <std::same_as<DeviceMemory> Memory>
void PrintTo(const Memory& memory, std::ostream* out) {
  *out << memory.peak.value << " bytes at " << memory.when << " ns";
}

}  // namespace pipesim
