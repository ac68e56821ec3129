#include "search/pipelines/layer_clusters.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

// The price of runs up to a layer: smaller is better.
struct ClusterCost {
  double bytes = 0, squares = 0;
  auto operator<=>(const ClusterCost&) const = default;
};

constexpr double kNeverRead = std::numeric_limits<double>::infinity();

// What runs of layers from `first` on read of those before, each output once; by their last layer, up to
// before `end`.
std::vector<Bytes> reads_from(const LayerGraph& graph, std::int32_t first, std::int32_t end) {
  std::vector<bool> counted(static_cast<std::size_t>(first), false);
  std::vector<Bytes> reads;
  Bytes bytes;
  for (std::int32_t j = first; j < end; ++j) {
    for (const std::int32_t i : graph.inputs(j)) {
      if (i >= first || counted[static_cast<std::size_t>(i)]) continue;
      counted[static_cast<std::size_t>(i)] = true;
      bytes += graph[i].output;
    }
    reads.push_back(bytes);
  }
  return reads;
}

class ClusterPlanner {
 public:
  ClusterPlanner(const LayerGraph& graph, std::size_t clusters,
                 const std::vector<std::vector<std::int32_t>>& together)
      : size_(graph.size()), may_begin_(size_, true), begins_(size_ + 1, 0) {
    for (const std::vector<std::int32_t>& list : together) {
      const auto [first, last] = std::ranges::minmax(list);
      for (std::int32_t i = first + 1; i <= last; ++i) may_begin_[static_cast<std::size_t>(i)] = false;
    }
    for (std::size_t i = 0; i < size_; ++i) begins_[i + 1] = begins_[i] + (may_begin_[i] ? 1 : 0);
    clusters_ = std::min(clusters, begins_.back());
    until_.assign(1, 0.0);
    for (std::size_t i = 0; i < size_; ++i) {
      const Layer& layer = graph[static_cast<std::int32_t>(i)];
      until_.push_back(until_.back() + (layer.forward + layer.backward).value);
      stop_if_late();
      reads_.push_back(reads_from(graph, static_cast<std::int32_t>(i), static_cast<std::int32_t>(size_)));
    }
  }

  [[nodiscard]] double average() const { return until_.back() / static_cast<double>(clusters_); }

  // Nothing when some run would have to take longer than the limit. What largest runs read at least is found
  // first, since of equal ones that with the least sum need not begin with the least.
  std::optional<std::vector<std::int32_t>> solve(double limit) {
    std::vector<std::size_t> begin;
    const auto largest = least<double>(limit, kNeverRead, begin, [](double before, double bytes, double) {
      return std::max(before, bytes);
    });
    if (!largest) return std::nullopt;
    least<ClusterCost>(limit, *largest, begin, [](const ClusterCost& before, double bytes, double time) {
      return ClusterCost{before.bytes + bytes, before.squares + time * time};
    });
    std::vector<std::int32_t> cluster_of(size_);
    for (std::size_t q = clusters_, end = size_; q > 0; --q) {
      const std::size_t first = begin[q * (size_ + 1) + end];
      for (std::size_t i = first; i < end; ++i) cluster_of[i] = static_cast<std::int32_t>(q) - 1;
      end = first;
    }
    return cluster_of;
  }

 private:
  // The least cost of all runs, none of which reads more than `most`; begin[runs · (layers + 1) + end]: where
  // the last one begins.
  template <class Cost, class Extend>
  std::optional<Cost> least(double limit, double most, std::vector<std::size_t>& begin, Extend extend) const {
    const std::size_t row = size_ + 1;
    std::vector<std::optional<Cost>> best((clusters_ + 1) * row);
    begin.assign(best.size(), 0);
    best[0] = Cost{};
    for (std::size_t q = 1; q <= clusters_; ++q) {
      for (std::size_t end = q; end <= size_; ++end) {
        stop_if_late();
        std::optional<Cost>& here = best[q * row + end];
        for (std::size_t k = end; k-- >= q;) {
          const double time = until_[end] - until_[k],
                       bytes = static_cast<double>(reads_[k][end - k - 1].value);
          if (!may_begin_[k]) continue;
          if (begins_[end] - begins_[k] > 1 && time >= limit) break;
          const std::optional<Cost>& before = best[(q - 1) * row + k];
          if (!before || bytes > most) continue;
          const Cost cost = extend(*before, bytes, time);
          if (!here || cost < *here) here = cost, begin[q * row + end] = k;
        }
      }
    }
    return best.back();
  }

  std::size_t size_, clusters_ = 0;
  std::vector<bool> may_begin_;            // by layer: a run
  std::vector<std::size_t> begins_;        // among the first so many layers
  std::vector<double> until_;              // time of the first so many layers
  std::vector<std::vector<Bytes>> reads_;  // by first layer of a run: see reads_from()
};

}  // namespace

std::vector<std::int32_t> cluster_layers(const LayerGraph& graph, std::int32_t clusters,
                                         const std::vector<std::vector<std::int32_t>>& together,
                                         double tolerance) {
  if (clusters < 1 || graph.size() == 0 || !(tolerance > 0))
    throw InternalError("clusters of no layers, or a tolerance that none keeps to");
  ClusterPlanner planner(graph, static_cast<std::size_t>(clusters), together);
  for (;; tolerance *= 2) {
    if (auto found = planner.solve(planner.average() * (1 + tolerance))) return *found;
    if (planner.average() == 0) tolerance = std::numeric_limits<double>::infinity();
  }
}

LayerGraph clustered(const LayerGraph& graph, const std::vector<std::int32_t>& cluster_of) {
  std::vector<Layer> layers(static_cast<std::size_t>(cluster_of.back()) + 1);
  std::vector<LayerGraph::Edge> edges;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.size()); ++i) {
    const std::int32_t own = cluster_of[static_cast<std::size_t>(i)];
    Layer& layer = layers[static_cast<std::size_t>(own)];
    if (layer.name.empty()) layer.name = graph[i].name;
    layer.forward += graph[i].forward;
    layer.backward += graph[i].backward;
    layer.parameters += graph[i].parameters;
    bool leaves = graph.consumers(i).empty();
    for (const std::int32_t reader : graph.consumers(i)) {
      const std::int32_t other = cluster_of[static_cast<std::size_t>(reader)];
      if (other == own) continue;
      edges.emplace_back(own, other);
      leaves = true;
    }
    if (leaves) layer.output += graph[i].output;
  }
  return {std::move(layers), edges};
}

Bytes read_from_before(const LayerGraph& graph, std::int32_t first, std::int32_t last) {
  if (first >= last) return Bytes(0);
  return reads_from(graph, first, last).back();
}

}  // namespace pipesim
