#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "sim/base/suggest.h"
#include "topologies/device_kinds.h"
#include "topologies/files/checked_value.h"
#include "topologies/files/topology_json.h"
#include "topologies/files/topology_reader.h"

namespace pipesim {

namespace {

double fraction(const JsonValue& value) {
  return checked(value, value.number(), fault_of_fraction(value.number()));
}

DataType parse_type_of_rate(const std::string& name, const JsonValue& place) {
  static const std::vector<std::string> names{"float32", "tf32",      "float16", "bfloat16", "float64",
                                              "float8",  "fp8-block", "mxfp8",   "nvfp4"};
  if (std::find(names.begin(), names.end(), name) == names.end())
    place.fail(fmt::format("unknown data type \"{}\"{}; allowed: {}", name, did_you_mean(name, names),
                           list_names(names)));
  return parse_rate_type(name);
}

std::map<DataType, FlopsPerSecond> read_peaks(const JsonValue& value) {
  std::map<DataType, FlopsPerSecond> peaks;
  for (const auto& [type, rate] : value.members()) {
    peaks[parse_type_of_rate(type, rate)] =
        checked(rate, rate.compute_rate(), fault_of_peak(rate.compute_rate()));
  }
  if (peaks.empty()) value.fail("found no peak rate, at least one is needed");
  return peaks;
}

std::vector<EfficiencyPoint> read_efficiency(const JsonValue& value) {
  std::vector<EfficiencyPoint> curve;
  for (const JsonValue& point : value.items()) {
    const std::vector<JsonValue> pair = point.items();
    if (pair.size() != 2) point.fail(fmt::format("found {}, allowed is [FLOPS, FRACTION]", point.text()));
    curve.push_back({Flops(pair[0].number()), fraction(pair[1])});
  }
  return checked(value, curve, fault_of_efficiency(curve));
}

std::map<DataType, ProductRate> read_product_rates(const JsonValue& value) {
  std::map<DataType, ProductRate> rates;
  for (const auto& [name, rate] : value.members()) {
    rate.allow_only({"efficiency", "sustained"});
    ProductRate& read = rates[parse_type_of_rate(name, rate)];
    read.efficiency = read_efficiency(rate.at("efficiency"));
    if (const auto share = rate.find("sustained")) read.sustained = fraction(*share);
  }
  return rates;
}

// Parts that are left out take nothing.
MemoryOverhead memory_overhead(const JsonValue& value) {
  value.allow_only({"installed", "context", "communicator", "fragmentation"});
  MemoryOverhead overhead;
  overhead.installed = value.at("installed").bytes();
  if (const auto context = value.find("context")) overhead.context = context->bytes();
  if (const auto buffers = value.find("communicator")) overhead.communicator = buffers->bytes();
  if (const auto lost = value.find("fragmentation")) overhead.fragmentation = lost->number(0, 1);
  return checked(value, overhead, fault_of_overhead(overhead));
}

}  // namespace

DeviceKind read_device_kind(const std::string& name, const JsonValue& value) {
  if (value.is_string()) {
    const DeviceKind* kind = find_built_in_device_kind(value.string());
    const std::vector<std::string> names = built_in_device_kind_names();
    if (!kind)
      value.fail(fmt::format("unknown device kind \"{}\"{}; built in: {}", value.string(),
                             did_you_mean(value.string(), names), list_names(names)));
    return *kind;
  }
  value.allow_only({"peak", "efficiency", "memory", "memory_bandwidth", "memory_efficiency",
                    "launch_overhead", "memory_overhead", "overlap", "shape_losses", "sustained",
                    "product_rates", "fused_attention", "flash_attention_2", "collectives", "source"});
  DeviceKind kind;
  kind.name = checked(value, name, fault_of_name(name));
  kind.peak = read_peaks(value.at("peak"));
  kind.products.efficiency = {{Flops(1), 1}};  // always the peak rate
  if (const auto curve = value.find("efficiency")) kind.products.efficiency = read_efficiency(*curve);
  const JsonValue memory = value.at("memory"), bandwidth = value.at("memory_bandwidth");
  kind.memory = checked(memory, memory.bytes(), fault_of_memory(memory.bytes()));
  kind.memory_bandwidth =
      checked(bandwidth, bandwidth.bandwidth(), fault_of_memory_bandwidth(bandwidth.bandwidth()));
  if (const auto share = value.find("memory_efficiency")) kind.memory_efficiency = fraction(*share);
  if (const auto overhead = value.find("launch_overhead")) kind.launch_overhead = latency(*overhead);
  if (const auto overhead = value.find("memory_overhead")) kind.memory_overhead = memory_overhead(*overhead);
  if (const auto overlap = value.find("overlap")) kind.overlap = overlap->boolean();
  if (const auto losses = value.find("shape_losses")) kind.shape_losses = losses->boolean();
  if (const auto share = value.find("sustained")) kind.products.sustained = fraction(*share);
  if (const auto rates = value.find("product_rates")) kind.product_rates = read_product_rates(*rates);
  if (const auto collectives = value.find("collectives")) {
    collectives->allow_only({"call", "in_switch"});
    kind.collectives = CollectiveTraits{latency(collectives->at("call"))};
    if (const auto adds = collectives->find("in_switch")) kind.collectives->in_switch = adds->boolean();
  }
  const auto attention = [&](std::string_view key) -> std::optional<FusedAttention> {
    const auto fused = value.find(key);
    if (!fused) return std::nullopt;
    fused->allow_only({"forward", "backward", "half_rate_keys", "half_rate_rows"});
    FusedAttention read{fraction(fused->at("forward")), fraction(fused->at("backward"))};
    if (const auto keys = fused->find("half_rate_keys")) read.half_rate_keys = keys->number(0, 1e6);
    if (const auto rows = fused->find("half_rate_rows")) read.half_rate_rows = rows->number(0, 1e9);
    return read;
  };
  kind.fused_attention = attention("fused_attention");
  kind.flash_attention_2 = attention("flash_attention_2");
  if (const auto source = value.find("source")) kind.source = source->string();
  return kind;
}

DeviceKind load_device_kind(const std::string& path) {
  const JsonValue root = JsonDocument::load(path);
  const auto members = root.members();
  if (members.size() != 1)
    root.fail(
        fmt::format("found {} members, allowed: one, the kind's name with its figures", members.size()));
  return read_device_kind(members.front().first, members.front().second);
}

}  // namespace pipesim
