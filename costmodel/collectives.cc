#include "costmodel/collectives.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/errors.h"

namespace pipesim {

namespace {

/// T + 2√(κT).
double pipelined_seconds(const Phase& phase, Bytes size) {
  double stream = phase.seconds_per_byte * static_cast<double>(size.value);
  return stream + 2 * std::sqrt(phase.chunk_overhead * stream);
}

/// How much longer the phase keeps its lanes than their bytes alone. The gaps between chunks count as busy:
/// the next call of the same group waits for the end of this one, so it can't use them.
double stretch_of(const Phase& phase, Bytes size) {
  double stream = phase.seconds_per_byte * static_cast<double>(size.value);
  return stream > 0 ? pipelined_seconds(phase, size) / (stream * phase.carried) : 1;
}

/// Appends what a transfer of this size holds of every lane.
void append_holds(const CollectiveAlgorithm& algorithm, Bytes size, std::vector<LaneHold>& holds) {
  LaneId last;
  std::int32_t phase = -1;
  double stretch = 1;
  for (const LaneLoad& load : algorithm.loads) {
    if (load.phase != phase)
      phase = load.phase, stretch = stretch_of(algorithm.phases[static_cast<std::size_t>(phase)], size);
    double seconds = load.seconds_per_byte * static_cast<double>(size.value) * stretch;
    if (last == load.lane) {
      holds.back().hold += Seconds(seconds);
    } else {
      holds.push_back({load.lane, Seconds(seconds)});
    }
    last = load.lane;
  }
}

}  // namespace

std::string_view name_of(Collective kind) {
  switch (kind) {
    case Collective::AllReduce:
      return "all-reduce";
    case Collective::ReduceScatter:
      return "reduce-scatter";
    case Collective::AllGather:
      return "all-gather";
    case Collective::AllToAll:
      return "all-to-all";
    case Collective::Broadcast:
      return "broadcast";
    case Collective::Reduce:
      return "reduce";
    case Collective::Send:
      return "send";
  }
  throw InternalError("collective of unknown kind");
}

std::int64_t bytes_on_links(Collective kind, std::int64_t n, Bytes size) {
  switch (kind) {
    case Collective::AllReduce:
      return 2 * (n - 1) * size.value;
    case Collective::AllToAll:
      return size.value - (size.value + n - 1) / n;
    case Collective::Send:
      return size.value;
    default:
      return (n - 1) * size.value;
  }
}

Seconds CollectiveAlgorithm::duration_at(Bytes size) const {
  Seconds total = latency;
  for (const Phase& phase : phases) total += Seconds(pipelined_seconds(phase, size));
  return total;
}

CollectivePlan::CollectivePlan(std::vector<CollectiveAlgorithm> algorithms, std::vector<LaneId> compute_lanes)
    : algorithms_(std::move(algorithms)), compute_lanes_(std::move(compute_lanes)) {
  if (algorithms_.empty()) throw InternalError("collective plan without an algorithm");
  std::sort(compute_lanes_.begin(), compute_lanes_.end());
}

CollectivePlan::Choice CollectivePlan::best_at(Bytes size) const {
  if (size.value < 0) throw InternalError("collective of negative size");
  const CollectiveAlgorithm* best = nullptr;
  Bytes asked;
  Seconds least(0);
  for (const CollectiveAlgorithm& algorithm : algorithms_) {
    if (algorithms_.size() == 1) return {algorithm, size};
    if (size >= algorithm.most) continue;
    const Bytes of = std::max(size, algorithm.least);
    const Seconds duration = algorithm.duration_at(of);
    if (best == nullptr || duration < least) best = &algorithm, asked = of, least = duration;
  }
  if (best == nullptr) throw InternalError("collective plan without an algorithm for its size");
  return {*best, asked};
}

void CollectivePlan::calibrate(RatioCurve ratios, const Correction& correction) {
  ratios_ = std::move(ratios);
  correction_ = correction;
}

// A message of no bytes takes as long as one of a single byte.
RatioCurve::Value CollectivePlan::ratio_at(Bytes size) const {
  return ratios_.at(static_cast<double>(std::max<std::int64_t>(1, size.value)));
}

Seconds CollectivePlan::duration_at(Bytes size) const {
  const RatioCurve::Value ratio = ratio_at(size);
  return correction_for(ratio.source)(best_at(size).duration() * ratio.ratio);
}

Correction CollectivePlan::correction_for(DurationSource source) const {
  return source == DurationSource::Measured ? Correction{} : correction_;
}

CollectiveTime CollectivePlan::at(Bytes size) const {
  CollectiveTime time;
  at(size, time);
  return time;
}

void CollectivePlan::at(Bytes size, CollectiveTime& out) const {
  const Choice choice = best_at(size);
  const CollectiveAlgorithm& best = choice.algorithm;
  const RatioCurve::Value ratio = ratio_at(size);
  const Correction correction = correction_for(ratio.source);
  const double scale = ratio.ratio;
  const Seconds analytic = choice.duration();
  const Seconds busy = (analytic - best.latency) * scale * correction.factor;
  out.duration = correction(analytic * scale);
  out.latency = correction(best.latency * scale);
  out.algorithm = best.name;
  out.lanes.clear();
  // Compute lanes have the lowest ids of a topology, so the whole stays sorted.
  // A device that can't overlap does not compute while it waits for a message either.
  for (LaneId lane : compute_lanes_) out.lanes.push_back({lane, out.duration});
  append_holds(best, choice.size, out.lanes);
  // Rounding in sums must not let a lane be busy for longer than the whole takes.
  for (std::size_t i = compute_lanes_.size(); i < out.lanes.size(); ++i) {
    LaneHold& hold = out.lanes[i];
    hold.hold = std::min(hold.hold * scale * correction.factor, busy);
  }
}

}  // namespace pipesim
