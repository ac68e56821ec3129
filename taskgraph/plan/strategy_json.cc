#include "taskgraph/plan/strategy_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

// One entry of a device list: a name, or "first..last" in the topology's order.
void read_devices(const JsonValue& entry, const Topology& topology, std::vector<DeviceId>& out) {
  const std::string text = entry.string();
  const std::size_t dots = text.find("..");
  const auto named = [&](const std::string& name) {
    try {
      return topology.device_named(name);
    } catch (const InputError& error) {
      entry.fail(error.what());
    }
  };
  const DeviceId first = named(text.substr(0, dots));
  const DeviceId last = dots == std::string::npos ? first : named(text.substr(dots + 2));
  if (last < first) entry.fail(fmt::format("the range \"{}\" runs backwards", text));
  for (std::int32_t d = first.value; d <= last.value; ++d) out.emplace_back(d);
}

std::vector<DeviceId> read_device_list(const JsonValue& value, const Topology& topology) {
  std::vector<DeviceId> devices;
  if (value.is_string() && value.string() == "all") {
    for (std::size_t d = 0; d < topology.num_devices(); ++d) devices.emplace_back(d);
  } else if (value.is_string()) {
    read_devices(value, topology, devices);
  } else {
    for (const JsonValue& item : value.items()) read_devices(item, topology, devices);
  }
  return devices;
}

struct Split {
  std::size_t factor;
  std::int32_t degree;
};

std::vector<Split> read_splits(const JsonValue& value, const Operator& op) {
  std::vector<std::string> names;
  for (const Factor& f : op.factors) names.push_back(f.name);
  std::vector<Split> splits;
  for (const JsonValue& item : value.items()) {
    const std::vector<JsonValue> pair = item.items();
    if (pair.size() != 2) item.fail("found " + item.text() + ", a pair like [\"b\", 4] is needed");
    const std::string name = pair[0].string();
    const auto it = std::find(names.begin(), names.end(), name);
    if (it == names.end()) {
      pair[0].fail(fmt::format("operator \"{}\" has no factor \"{}\"{}; it has {}", op.name, name,
                               did_you_mean(name, names), list_names(names)));
    }
    const auto factor = static_cast<std::size_t>(it - names.begin());
    if (std::any_of(splits.begin(), splits.end(), [&](const Split& s) { return s.factor == factor; })) {
      pair[0].fail(fmt::format("factor \"{}\" is split twice", name));
    }
    splits.push_back({factor, static_cast<std::int32_t>(pair[1].integer(1, INT32_MAX))});
  }
  return splits;
}

// From the file's order (replicas, then splits as listed) to shard order (replicas, then the operator's
// factors).
std::vector<DeviceId> in_shard_order(const std::vector<DeviceId>& listed, const std::vector<Split>& splits,
                                     const ParallelConfig& config) {
  std::vector<DeviceId> devices(listed.size());
  std::vector<std::int64_t> stride(config.degrees.size(), 1);
  for (std::size_t f = config.degrees.size(); f-- > 1;) stride[f - 1] = stride[f] * config.degrees[f];
  const std::int64_t parts = config.num_shards() / config.replicas;
  for (std::int64_t k = 0; k < config.num_shards(); ++k) {
    std::int64_t rest = k % parts, shard = k / parts * parts;
    for (std::size_t s = splits.size(); s-- > 0;) {
      shard += rest % splits[s].degree * stride[splits[s].factor];
      rest /= splits[s].degree;
    }
    devices[static_cast<std::size_t>(shard)] = listed[static_cast<std::size_t>(k)];
  }
  return devices;
}

ParallelConfig read_config(const JsonValue& value, const Operator& op, const Topology& topology) {
  value.allow_only({"operator", "split", "replicas", "ring", "devices"});
  ParallelConfig config{std::vector<std::int32_t>(op.factors.size(), 1), 1, {}};
  std::vector<Split> splits;
  if (const auto v = value.find("split")) splits = read_splits(*v, op);
  if (const auto v = value.find("replicas"))
    config.replicas = static_cast<std::int32_t>(v->integer(1, INT32_MAX));
  if (const auto v = value.find("ring")) config.ring = v->boolean();
  std::int64_t shards = config.replicas;
  for (const Split& s : splits) {
    config.degrees[s.factor] = s.degree;
    shards *= s.degree;
    if (shards > static_cast<std::int64_t>(topology.num_devices())) {
      value.fail(
          fmt::format("operator \"{}\": more shards than the {} devices", op.name, topology.num_devices()));
    }
  }
  config.devices = read_device_list(value.at("devices"), topology);
  if (shards == static_cast<std::int64_t>(config.devices.size())) {
    config.devices = in_shard_order(config.devices, splits, config);
  }
  if (const auto reason = illegal(op, config, topology))
    value.fail(fmt::format("operator \"{}\": {}", op.name, *reason));
  return config;
}

// "gpu0..gpu3, gpu6", in the topology's order.
std::string ranges_text(const std::vector<DeviceId>& devices, const Topology& topology) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < devices.size();) {
    std::size_t end = i + 1;
    while (end < devices.size() && devices[end].value == devices[end - 1].value + 1) ++end;
    std::string text = topology.device(devices[i]).name;
    if (end > i + 1) text += ".." + topology.device(devices[end - 1]).name;
    ranges.push_back(std::move(text));
    i = end;
  }
  const std::size_t more = ranges.size() - std::min(kMost, ranges.size());
  ranges.resize(ranges.size() - more);
  return fmt::format("{}{}", fmt::join(ranges, ", "), more > 0 ? ", …" : "");
}

Json device_list(const std::vector<DeviceId>& devices, const Topology& topology) {
  Json list = Json::array();
  for (std::size_t i = 0; i < devices.size();) {
    std::size_t j = i + 1;
    while (j < devices.size() && devices[j].value == devices[j - 1].value + 1) ++j;
    if (j - i == topology.num_devices() && j - i > 1) return "all";
    std::string text = topology.device(devices[i]).name;
    if (j - i > 1) text += ".." + topology.device(devices[j - 1]).name;
    list.push_back(std::move(text));
    i = j;
  }
  return list;
}

}  // namespace

Strategy read_strategy(const JsonValue& configs, const OperatorGraph& graph, const Topology& topology) {
  std::vector<std::string> names;
  for (const Operator& op : graph.operators()) names.push_back(op.name);
  Strategy strategy(names.size());
  for (const JsonValue& item : configs.items()) {
    const JsonValue name = item.at("operator");
    const auto it = std::find(names.begin(), names.end(), name.string());
    if (it == names.end()) {
      name.fail(fmt::format("model \"{}\" has no operator \"{}\"{}", graph.name(), name.string(),
                            did_you_mean(name.string(), names)));
    }
    const auto i = static_cast<std::size_t>(it - names.begin());
    if (!strategy[i].devices.empty()) name.fail(fmt::format("operator \"{}\" has two configs", *it));
    strategy[i] = read_config(item, graph.operators()[i], topology);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (strategy[i].devices.empty()) configs.fail(fmt::format("operator \"{}\" has no config", names[i]));
  }
  return strategy;
}

void move_to(const Topology& topology, const Topology& own, const JsonValue& configs, Strategy& strategy) {
  std::vector<bool> used(own.num_devices(), false);
  for (const ParallelConfig& config : strategy) {
    for (const DeviceId d : config.devices) used[d.index()] = true;
  }
  std::vector<DeviceId> there(own.num_devices()), missing, has;
  for (std::size_t d = 0; d < used.size(); ++d) {
    if (!used[d]) continue;
    const auto found = topology.find_device(own.device(DeviceId(d)).name);
    if (found) there[d] = *found;
    if (!found) missing.emplace_back(d);
  }
  if (!missing.empty()) {
    for (std::size_t d = 0; d < topology.num_devices(); ++d) has.emplace_back(d);
    configs.fail(fmt::format("the plan uses {} of \"{}\", but topology \"{}\" lacks {}: {}; it has {}",
                             counted(std::count(used.begin(), used.end(), true), "device"), own.name(),
                             topology.name(), missing.size(), ranges_text(missing, own),
                             ranges_text(has, topology)));
  }
  for (ParallelConfig& config : strategy) {
    for (DeviceId& d : config.devices) d = there[d.index()];
  }
}

std::string config_line(const Operator& op, const ParallelConfig& config, const Topology& topology) {
  Json json{{"operator", op.name}};
  Json splits = Json::array();
  for (std::size_t f = 0; f < config.degrees.size(); ++f) {
    if (config.degrees[f] > 1) splits.push_back({op.factors[f].name, config.degrees[f]});
  }
  if (!splits.empty()) json["split"] = std::move(splits);
  if (config.replicas > 1) json["replicas"] = config.replicas;
  if (config.ring) json["ring"] = true;
  json["devices"] = device_list(config.devices, topology);
  return json.dump();
}

}  // namespace pipesim
