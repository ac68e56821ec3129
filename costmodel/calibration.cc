#include "costmodel/calibration.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "models/causal_mask.h"
#include "models/operator_kind.h"
#include "sim/base/errors.h"
#include "topologies/gpu_share.h"

namespace pipesim {

namespace {

// Sizes that the lengths of factors say as well, and what only restricts or seeds.
const std::set<std::string> without_effect = {"out", "hidden", "rows", "width", "router", "uneven", "rate"};

std::string kernel_attributes(const Operator& op) {
  std::string text;
  for (const auto& [name, value] : op.attributes) {
    const bool part_of_size = op.kind == "rotary" && name == "width";
    if (without_effect.contains(name) && !part_of_size) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, to_text(value));
  }
  return text;
}

std::string busy_text(std::int32_t busy) {
  return busy == 0 ? "" : fmt::format(" beside {} busy neighbour{}", busy, busy == 1 ? "" : "s");
}

}  // namespace

std::string CalibrationKey::str() const {
  const std::string_view type_name = name_of(type);
  switch (subject) {
    case Subject::Update:
      return fmt::format("{} update of {} {} on {}{}", name, sizes.at(0), type_name, place,
                         busy_text(busy_neighbours));
    case Subject::Transfer:
      return fmt::format("{} of {} B among {}, {}, {}", name, sizes.at(1), sizes.at(0), type_name, place);
    case Subject::Operator:
      break;
  }
  return fmt::format("{} {} {} {} on {}{}{}", name, correction_class(pass), to_text(sizes), type_name, place,
                     busy_text(busy_neighbours), attributes.empty() ? "" : " (" + attributes + ")");
}

CalibrationKey operator_key(const OperatorGraph& graph, const Operator& op, Pass pass,
                            std::span<const Range> ranges, std::string device, std::int32_t busy) {
  CalibrationKey key;
  key.name = op.kind;
  key.attributes = kernel_attributes(op);
  key.pass = pass;
  for (const Range& range : ranges) key.sizes.push_back(range.length());
  if (op.causal) {
    const Range queries = ranges[static_cast<std::size_t>(op.causal->first)],
                keys = ranges[static_cast<std::size_t>(op.causal->second)];
    key.sizes.push_back(op.zigzag > 1 || has_narrow_mask(op)
                            ? std::llround(visible_share(op, ranges) * static_cast<double>(keys.length()))
                            : queries.begin - keys.begin);
  }
  key.type = operand_type(graph, op);
  key.place = std::move(device);
  key.busy_neighbours = busy;
  return key;
}

CalibrationKey update_key(const Optimizer& optimizer, std::int64_t elements, DataType type,
                          std::string device, std::int32_t busy) {
  CalibrationKey key;
  key.subject = CalibrationKey::Subject::Update;
  key.name = optimizer.str();
  key.pass = Pass::Update;
  key.sizes = {elements};
  key.type = type;
  key.place = std::move(device);
  key.busy_neighbours = busy;
  return key;
}

CalibrationKey transfer_key(Collective kind, std::int64_t devices, Bytes size, DataType type,
                            std::string links) {
  CalibrationKey key;
  key.subject = CalibrationKey::Subject::Transfer;
  key.name = name_of(kind);
  key.sizes = {devices, size.value};
  key.type = type;
  key.place = std::move(links);
  return key;
}

std::string link_class(const Topology& topology, std::span<const DeviceId> group) {
  std::map<std::int32_t, int> members;
  for (const DeviceId device : group) ++members[topology.device(device).node];
  std::vector<int> counts;
  for (const auto& [node, count] : members) counts.push_back(count);
  std::sort(counts.rbegin(), counts.rend());
  const std::string& kind = topology.kind(group.front()).name;
  return (counts.size() < 2 ? "node" : fmt::format("nodes {}", fmt::join(counts, "+"))) +
         (names_share(kind) ? " of " + kind : "");
}

Distribution MeasuredKey::durations() const {
  if (samples.empty()) throw InternalError("a measured key without samples");
  Distribution all = samples.front().durations;
  for (std::size_t i = 1; i < samples.size(); ++i) all.merge(samples[i].durations);
  return all;
}

void Calibration::add(const Measurement& m) {
  if (runs.empty()) throw InternalError("measurements outside of a run");
  if (m.seconds.empty()) {
    throw InputError(fmt::format("no clean samples of {}, {} {} dropped", m.key.str(), m.dropped,
                                 m.dropped == 1 ? "was" : "were"));
  }
  for (const double s : m.seconds) {
    if (!std::isfinite(s) || s <= 0)
      throw InputError(fmt::format("a sample of {} is {} s, allowed: above 0", m.key.str(), s));
  }
  MeasuredKey& measured = keys[m.key];
  measured.work = m.work;
  const std::size_t run = runs.size() - 1;
  Distribution durations(m.seconds, m.dropped);
  const auto same = std::find_if(measured.samples.begin(), measured.samples.end(),
                                 [&](const RunSamples& s) { return s.run == run; });
  if (same != measured.samples.end()) {
    same->durations.merge(durations);
  } else {
    measured.samples.push_back({run, std::move(durations)});
  }
}

}  // namespace pipesim
