#include "tools/analysis/traces/collective_times.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <tuple>

#include "tools/analysis/traces/quantiles.h"
#include "tools/analysis/traces/work_class.h"

namespace pipesim {
namespace {

struct CollectiveCall {
  Bytes size;
  Nanoseconds duration = 0;
};

// Group, ranks and name.
using GroupKey = std::tuple<std::string, std::string, std::string>;
using CallsByTrace = std::vector<std::vector<CollectiveCall>>;

Bytes size_of(const TracedCollective& collective, const std::string& name, const std::string& type) {
  const auto kind = traced_collective(name);
  const auto data_type = traced_type(type);
  const std::int64_t each = data_type ? bytes_per_element(*data_type) : 1;
  // What every member holds, once; of all-to-all, the sum over all members. No buffer is larger than these.
  constexpr std::int64_t kMostElements = std::int64_t{1} << 38, kMostMembers = std::int64_t{1} << 20;
  const auto limited = [&](std::int64_t count) { return std::clamp<std::int64_t>(count, 0, kMostElements); };
  const std::int64_t in = limited(collective.elements_in);
  std::int64_t elements = std::max(in, limited(collective.elements_out));
  if (kind == Collective::AllToAll)
    elements = in * std::clamp<std::int64_t>(collective.group_size, 1, kMostMembers);
  return Bytes(elements * each);
}

std::vector<std::int64_t> ranks_in(std::string_view text) {
  std::vector<std::int64_t> ranks;
  for (std::size_t at = 0; at < text.size();) {
    std::int64_t rank = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), rank);
    if (error != std::errc()) {
      ++at;
      continue;
    }
    ranks.push_back(rank);
    at = static_cast<std::size_t>(end - text.data());
  }
  return ranks;
}

void add_call(std::map<Bytes, CollectivePoint>& points, Bytes size, std::vector<double>& times,
              Seconds time) {
  CollectivePoint& point = points[size];
  point.size = size;
  ++point.calls;
  times.push_back(time.value);
}

// With the traces of several members: each collective as long as its shortest kernel.
std::vector<CollectivePoint> points_of_several(const CallsByTrace& calls, GroupTimes& group) {
  std::size_t least = calls.front().size();
  for (const auto& of_trace : calls) least = std::min(least, of_trace.size());
  std::map<Bytes, CollectivePoint> points;
  std::map<Bytes, std::vector<double>> times;
  for (std::size_t n = 0; n < least; ++n) {
    const CollectiveCall& first = calls.front()[n];
    Nanoseconds shortest = first.duration, sum = 0;
    bool equal = true;
    for (const auto& of_trace : calls) {
      equal = equal && of_trace[n].size == first.size;
      shortest = std::min(shortest, of_trace[n].duration);
      sum += of_trace[n].duration;
    }
    if (!equal) continue;
    group.recorded += to_seconds(sum);
    group.waited += to_seconds(sum - shortest * static_cast<Nanoseconds>(calls.size()));
    add_call(points, first.size, times[first.size], to_seconds(shortest));
  }
  std::vector<CollectivePoint> result;
  for (auto& [size, point] : points) {
    point.time = Seconds(quantiles_of(times[size]).median);
    result.push_back(point);
  }
  return result;
}

std::vector<CollectivePoint> points_of_one(const std::vector<CollectiveCall>& calls, GroupTimes& group) {
  std::map<Bytes, CollectivePoint> points;
  for (const CollectiveCall& call : calls) {
    CollectivePoint& point = points[call.size];
    const Seconds time = to_seconds(call.duration);
    point.time = point.calls == 0 ? time : std::min(point.time, time);
    point.size = call.size;
    ++point.calls;
  }
  std::vector<CollectivePoint> result;
  for (const auto& [size, point] : points) result.push_back(point);
  for (const CollectiveCall& call : calls) {
    group.recorded += to_seconds(call.duration);
    group.waited += to_seconds(call.duration) - points[call.size].time;
  }
  return result;
}

}  // namespace

std::optional<Collective> traced_collective(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
  if (has("allreduce") || has("all_reduce")) return Collective::AllReduce;
  if (has("reduce_scatter")) return Collective::ReduceScatter;
  if (has("allgather") || has("all_gather")) return Collective::AllGather;
  if (has("all_to_all") || has("alltoall")) return Collective::AllToAll;
  if (has("broadcast")) return Collective::Broadcast;
  if (has("send") || has("recv")) return Collective::Send;
  if (has("reduce")) return Collective::Reduce;
  return std::nullopt;
}

std::optional<LineFit> fit_line(const std::vector<CollectivePoint>& points) {
  // Weights 1/T²: every size counts by its relative error.
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  std::size_t used = 0;
  const auto weight_of = [](const CollectivePoint& p) {
    return static_cast<double>(p.calls) / (p.time.value * p.time.value);
  };
  for (const CollectivePoint& p : points) {
    if (p.time.value <= 0) continue;
    const double weight = weight_of(p), x = static_cast<double>(p.size.value);
    w += weight, wx += weight * x, wy += weight * p.time.value;
    wxx += weight * x * x, wxy += weight * x * p.time.value;
    ++used;
  }
  const double spread = w * wxx - wx * wx;
  if (used < 2 || spread <= 1e-12 * w * wxx) return std::nullopt;
  LineFit fit{(wxx * wy - wx * wxy) / spread, (w * wxy - wx * wy) / spread, 0, 0};
  const bool at_zero = fit.alpha < 0;
  if (at_zero) fit = {0, wxy / wxx, 0, 0};
  if (fit.beta <= 0) return std::nullopt;
  double squares = 0;
  for (const CollectivePoint& p : points) {
    if (p.time.value <= 0) continue;
    const double error = p.time.value - fit.alpha - fit.beta * static_cast<double>(p.size.value);
    squares += weight_of(p) * error * error;
  }
  const std::size_t free = at_zero ? used - 1 : used - 2;
  if (free > 0) {
    const double variance = squares / static_cast<double>(free);
    fit.alpha_deviation = at_zero ? 0 : std::sqrt(variance * wxx / spread);
    fit.beta_deviation = std::sqrt(variance * (at_zero ? 1 / wxx : w / spread));
  }
  return fit;
}

std::vector<GroupTimes> collective_times(std::span<const MeasuredTrace> traces) {
  std::map<GroupKey, CallsByTrace> all;
  std::map<GroupKey, std::int64_t> sizes;
  for (std::size_t t = 0; t < traces.size(); ++t) {
    const MeasuredTrace& trace = traces[t];
    for (const DeviceActivity& activity : trace.activities) {
      if (activity.collective < 0) continue;
      const TracedCollective& collective = trace.collectives[static_cast<std::size_t>(activity.collective)];
      const std::string& name = trace.name(collective.name);
      const GroupKey key{trace.name(collective.group), trace.name(collective.ranks), name};
      all[key].resize(traces.size());
      sizes[key] = collective.group_size;
      all[key][t].push_back({size_of(collective, name, trace.name(collective.type)), activity.duration});
    }
  }
  std::vector<GroupTimes> groups;
  for (auto& [key, calls] : all) {
    std::erase_if(calls, [](const auto& of_trace) { return of_trace.empty(); });
    GroupTimes group;
    std::tie(group.group, group.ranks, group.name) = key;
    group.kind = traced_collective(group.name);
    group.members = ranks_in(group.ranks);
    group.group_size = sizes[key];
    group.traces = calls.size();
    group.points = calls.size() > 1 ? points_of_several(calls, group) : points_of_one(calls.front(), group);
    group.fit = fit_line(group.points);
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace pipesim
