#include "search/baselines/layer_wise.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "models/box.h"
#include "search/baselines/placement.h"

namespace pipesim {
namespace {

std::vector<DeviceId> all_devices(const Topology& topology) {
  std::vector<DeviceId> devices;
  for (std::size_t d = 0; d < topology.num_devices(); ++d) devices.emplace_back(d);
  return devices;
}

double compute_seconds(const OperatorGraph& graph, const CostModel& costs, DeviceId device) {
  double seconds = 0;
  for (const Operator& op : graph.operators()) seconds += compute_time(graph, op, costs, device).value;
  return seconds;
}

DeviceId fastest_device(const OperatorGraph& graph, const CostModel& costs) {
  const Topology& topology = costs.topology();
  std::map<std::int32_t, double> seconds_of_kind;
  const std::vector<DeviceId> devices = all_devices(topology);
  const auto rank = [&](DeviceId d) {
    const auto [it, fresh] = seconds_of_kind.try_emplace(topology.device(d).kind);
    if (fresh) it->second = compute_seconds(graph, costs, d);
    return std::tuple(it->second, -topology.kind(d).memory.value, d.value);
  };
  return *std::min_element(devices.begin(), devices.end(),
                           [&](DeviceId a, DeviceId b) { return rank(a) < rank(b); });
}

// The operator whose layer a following operator joins: what made the latest of its inputs.
std::optional<std::size_t> latest_producer(const OperatorGraph& graph, const Operator& op) {
  std::optional<std::size_t> latest;
  for (const TensorUse& use : op.uses) {
    const OperatorId producer = graph.tensor(use.tensor).producer;
    if (use.role == Role::Output || !producer.valid()) continue;
    latest = std::max(latest.value_or(0), producer.index());
  }
  return latest;
}

// Joins operators to layers; the root of a layer is its first operator.
class Layers {
 public:
  Layers(const OperatorGraph& graph, SharedWeights shared) : parent_(graph.operators().size()) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
    for (std::size_t i = 0; shared == SharedWeights::Join && i < parent_.size(); ++i) join_weights(graph, i);
    for (std::size_t i = 0; i < parent_.size(); ++i) follow(graph, i);
  }

  // The layer of every operator, numbered by first operators.
  [[nodiscard]] std::vector<std::size_t> numbers() {
    std::map<std::size_t, std::size_t> number_of_root;
    std::vector<std::size_t> numbers;
    for (std::size_t i = 0; i < parent_.size(); ++i) {
      numbers.push_back(number_of_root.try_emplace(root(i), number_of_root.size()).first->second);
    }
    return numbers;
  }

 private:
  std::size_t root(std::size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }

  void unite(std::size_t a, std::size_t b) {
    const auto [first, second] = std::minmax({root(a), root(b)});
    parent_[second] = first;
  }

  void join_weights(const OperatorGraph& graph, std::size_t i) {
    for (const TensorUse& use : graph.operators()[i].uses) {
      if (use.role == Role::Weight) unite(graph.consumers(use.tensor).front().op.index(), i);
    }
  }

  void follow(const OperatorGraph& graph, std::size_t i) {
    const Operator& op = graph.operators()[i];
    const bool has_weights = std::any_of(op.uses.begin(), op.uses.end(),
                                         [](const TensorUse& use) { return use.role == Role::Weight; });
    const auto producer = latest_producer(graph, op);
    if (!has_weights && producer) unite(*producer, i);
  }

  std::vector<std::size_t> parent_;
};

using Seconds2D = std::vector<std::vector<double>>;  // [position][layer]

// Fills device after device up to `limit` seconds each; nothing when the layers do not fit.
std::optional<std::vector<std::size_t>> filled(const Seconds2D& seconds, std::size_t layers, double limit) {
  std::vector<std::size_t> position_of_layer;
  for (std::size_t p = 0; p < seconds.size(); ++p) {
    double load = 0;
    while (position_of_layer.size() < layers && load + seconds[p][position_of_layer.size()] <= limit) {
      load += seconds[p][position_of_layer.size()];
      position_of_layer.push_back(p);
    }
  }
  if (position_of_layer.size() < layers) return std::nullopt;
  return position_of_layer;
}

// Filling greedily is right for any limit, so only the least limit has to be found.
std::vector<std::size_t> balanced(const Seconds2D& seconds, std::size_t layers) {
  double low = 0, high = std::accumulate(seconds[0].begin(), seconds[0].end(), 0.0);
  std::vector<std::size_t> best(layers, 0);
  for (int step = 0; step < 50; ++step) {
    const double middle = (low + high) / 2;
    if (auto positions = filled(seconds, layers, middle)) {
      best = std::move(*positions);
      high = middle;
    } else {
      low = middle;
    }
  }
  return best;
}

}  // namespace

std::vector<std::size_t> layer_numbers(const OperatorGraph& graph, SharedWeights shared) {
  return Layers(graph, shared).numbers();
}

Seconds compute_time(const OperatorGraph& graph, const Operator& op, const CostModel& costs,
                     DeviceId device) {
  const std::vector<Range> ranges = whole_ranges(op);
  Seconds time;
  for (const Pass pass : {Pass::Forward, Pass::BackwardInput, Pass::BackwardWeight})
    time += costs.operator_time(graph, op, pass, ranges, device);
  return time;
}

Strategy single_device_strategy(const OperatorGraph& graph, const CostModel& costs) {
  const DeviceId device = fastest_device(graph, costs);
  Strategy strategy;
  for (const Operator& op : graph.operators()) strategy.push_back(single_device(op, device));
  return strategy;
}

Strategy data_parallel_strategy(const OperatorGraph& graph, const CostModel& costs) {
  const std::vector<DeviceId> devices = sample_devices(graph, costs.topology());
  Strategy strategy;
  for (const Operator& op : graph.operators()) {
    const FactorSplit split = sample_split(op, static_cast<std::int64_t>(devices.size()));
    strategy.push_back(arranged(op, std::span(&split, 1), devices));
  }
  return strategy;
}

std::vector<std::size_t> layer_wise_positions(const OperatorGraph& graph, const CostModel& costs,
                                              std::span<const DeviceId> devices) {
  std::vector<std::size_t> positions = layer_numbers(graph, SharedWeights::Join);
  const std::size_t layers = *std::max_element(positions.begin(), positions.end()) + 1;
  std::map<std::int32_t, std::vector<double>> seconds_of_kind;
  Seconds2D seconds;
  for (const DeviceId d : devices) {
    auto [it, fresh] = seconds_of_kind.try_emplace(costs.topology().device(d).kind, layers, 0.0);
    for (std::size_t i = 0; fresh && i < positions.size(); ++i) {
      it->second[positions[i]] += compute_time(graph, graph.operators()[i], costs, d).value;
    }
    seconds.push_back(it->second);
  }
  const std::vector<std::size_t> position_of_layer = balanced(seconds, layers);
  for (std::size_t& p : positions) p = position_of_layer[p];
  return positions;
}

Strategy model_parallel_strategy(const OperatorGraph& graph, const CostModel& costs) {
  const std::vector<DeviceId> devices = all_devices(costs.topology());
  const std::vector<std::size_t> positions = layer_wise_positions(graph, costs, devices);
  Strategy strategy;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    strategy.push_back(single_device(graph.operators()[i], devices[positions[i]]));
  }
  return strategy;
}

}  // namespace pipesim
