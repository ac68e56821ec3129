#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <tuple>

#include "sim/base/errors.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/cli/base/command.h"
#include "tools/render/base/table.h"
#include "topologies/files/topology_json.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

std::string presets_table() {
  Table table({{"name"}, {"nodes", Align::Right}, {"devices", Align::Right}, {"description"}});
  for (const TopologyPreset& preset : topology_presets()) {
    table.add({preset.name, std::to_string(preset.default_nodes),
               std::to_string(preset.default_nodes * preset.devices_per_node), preset.description});
  }
  return table.str() +
         "\nNAME:N is the same with N nodes; cpu:N stands for N threads of a host. \"pipesim topologies "
         "NAME\" shows one.\nNAME:N,network=rail and NAME:N,network=fat-tree join the nodes by leaf and "
         "spine switches,\nNAME:gpus=4 has only four GPUs a node, see docs/files.md.\n";
}

nlohmann::ordered_json presets_json() {
  nlohmann::ordered_json topologies = nlohmann::ordered_json::array();
  for (const TopologyPreset& preset : topology_presets()) {
    topologies.push_back({{"name", preset.name},
                          {"nodes", preset.default_nodes},
                          {"devices_per_node", preset.devices_per_node},
                          {"description", preset.description},
                          {"source", preset.source}});
  }
  return {{"topologies", topologies}};
}

// "node3.gpu12" -> "node*.gpu*": ends of links that differ only in their numbers are alike.
std::string without_numbers(const std::string& name) {
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    const bool after_digit = i > 0 && is_digit(name[i - 1]);
    if (!is_digit(name[i])) {
      text += name[i];
    } else if (!after_digit) {
      text += '*';
    }
  }
  return text;
}

std::string totals(const Topology& topology) {
  Table table({{}, {}});
  table.add({"devices", std::to_string(topology.num_devices())});
  table.add({"nodes", std::to_string(topology.num_nodes())});
  table.add({"links", std::to_string(topology.parts().links.size())});
  table.add({"fingerprint", topology.fingerprint()});
  return table.str(2);
}

std::string peaks_text(const DeviceKind& kind) {
  std::string text;
  for (const auto& [type, rate] : kind.peak)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(type), pretty(rate));
  return text;
}

std::string kinds_table(const Topology& topology) {
  Table table({{"devices", Align::Right},
               {"kind"},
               {"memory", Align::Right},
               {"at", Align::Right},
               {"launch", Align::Right},
               {"peak rates"}});
  const auto& kinds = topology.parts().kinds;
  std::vector<std::int64_t> counts(kinds.size());
  for (const Device& device : topology.parts().devices) ++counts[static_cast<std::size_t>(device.kind)];
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const DeviceKind& kind = kinds[i];
    table.add({std::to_string(counts[i]), kind.name, pretty(kind.memory), pretty(kind.memory_bandwidth),
               pretty(kind.launch_overhead), peaks_text(kind)});
  }
  return table.str(2);
}

std::string kinds_sources(const Topology& topology) {
  std::string text;
  for (const DeviceKind& kind : topology.parts().kinds) {
    if (!kind.source.empty()) text += fmt::format("  {}: {}\n", kind.name, kind.source);
  }
  return text.empty() ? "" : "\n  figures\n" + text;
}

std::string links_table(const Topology& topology) {
  struct Sort {
    std::string ends;
    BytesPerSecond bandwidth;
    Seconds latency;
    bool duplex;
    auto operator<=>(const Sort&) const = default;
  };
  const TopologyParts& parts = topology.parts();
  const auto end = [&](std::int32_t vertex) {
    return without_numbers(parts.vertices[static_cast<std::size_t>(vertex)].name);
  };
  std::map<Sort, std::int64_t> counts;
  for (const Link& link : parts.links)
    ++counts[{end(link.a) + " - " + end(link.b), link.bandwidth, link.latency, link.duplex}];
  Table table(
      {{"links", Align::Right}, {"between"}, {"bandwidth", Align::Right}, {"latency", Align::Right}, {}});
  for (const auto& [sort, count] : counts) {
    table.add({std::to_string(count), sort.ends, pretty(sort.bandwidth), pretty(sort.latency),
               sort.duplex ? "each way" : "both ways together"});
  }
  return table.str(2);
}

// Above this many devices only the ways from the first node are looked at: all pairs of 1024 are half a
// million.
constexpr std::size_t kAllPairs = 128;

std::string pairs_table(const Topology& topology) {
  struct Way {
    int distance;
    BytesPerSecond bandwidth;
    std::size_t hops;
    Seconds latency;
    // The fastest first, within a node before between nodes.
    bool operator<(const Way& o) const {
      return std::tie(distance, o.bandwidth, hops, latency) <
             std::tie(o.distance, bandwidth, o.hops, o.latency);
    }
  };
  struct Pairs {
    std::int64_t count = 0;
    std::string example;
  };
  const bool all = topology.num_devices() <= kAllPairs;
  const std::size_t sources = all ? topology.num_devices() : topology.devices_of_node(0).size();
  std::map<Way, Pairs> ways;
  for (std::size_t i = 0; i < sources; ++i) {
    const DeviceId from = all ? DeviceId(i) : topology.devices_of_node(0)[i];
    for (std::size_t j = 0; j < topology.num_devices(); ++j) {
      const DeviceId to(j);
      if (from == to) continue;
      const Route route = topology.route(from, to);
      Pairs& pairs = ways[{topology.distance(from, to), route.bandwidth, route.lanes.size(), route.latency}];
      if (pairs.count++ == 0) pairs.example = topology.device(from).name + " -> " + topology.device(to).name;
    }
  }
  Table table({{all ? "pairs" : "pairs from the first node", Align::Right},
               {"within"},
               {"bandwidth", Align::Right},
               {"hops", Align::Right},
               {"latency", Align::Right},
               {"for example"}});
  for (const auto& [way, pairs] : ways) {
    table.add({std::to_string(pairs.count), way.distance == 1 ? "a node" : "the network",
               pretty(way.bandwidth), std::to_string(way.hops), pretty(way.latency), pairs.example});
  }
  return table.str(2);
}

std::string description(const Topology& topology) {
  std::string text = topology.name() + "\n";
  for (const TopologyPreset& preset : topology_presets()) {
    if (topology.name() == preset.name) text = fmt::format("{}: {}\n", preset.name, preset.description);
  }
  if (!topology.parts().source.empty()) text += "Source: " + topology.parts().source + "\n";
  text += "\n" + totals(topology) + "\n" + kinds_table(topology) + kinds_sources(topology);
  if (!topology.parts().links.empty()) text += "\n" + links_table(topology);
  if (topology.num_devices() > 1) text += "\n" + pairs_table(topology);
  return text;
}

int run_topologies(const Arguments& arguments, Streams& streams) {
  const bool json = arguments.given("json");
  if (arguments.operands().empty()) {
    if (arguments.given("expanded")) throw UsageError("topologies: --expanded needs TOPOLOGY");
    if (json) {
      give_document(streams, presets_json());
    } else {
      streams.out << presets_table();
    }
    return 0;
  }
  const Topology topology = open_topology(arguments.operands().front());
  if (arguments.given("expanded")) {
    streams.out << to_json(topology);
  } else {
    streams.out << (json ? to_compact_json(topology) : description(topology));
  }
  return 0;
}

}  // namespace

Command topologies_command() {
  return {
      .name = "topologies",
      .summary = "list the topologies that have names, or show one topology",
      .description =
          "Without TOPOLOGY: lists the presets. With TOPOLOGY: shows its kinds of devices and the source of "
          "their figures (datasheet, published measurement, estimate), its links, and how fast pairs of "
          "devices reach each other. Links that differ only in the numbers of their ends share a line, and "
          "so do pairs of devices with equal routes. The bandwidth of a route is that of its narrowest link; "
          "its latency is the sum.\n\nTopology files have a short form: one kind of node for many nodes, a "
          "count of equal devices, links between all names of a pattern (gpu* means gpu0, gpu1, …), a "
          "network that joins all NICs, and built-in kinds of devices by name. --json prints the short form, "
          "--expanded a line for every device, vertex and link. Both mean the same topology; docs/files.md "
          "describes both.",
      .operands =
          {{.name = "TOPOLOGY", .help = kTopologyHelp, .required = false, .details = kTopologyDetails}},
      .options = {{.name = "json",
                   .argument = "",
                   .default_value = "",
                   .help = "print a topology file, to be edited and used as FILE.json",
                   .details = "Without TOPOLOGY: the list as JSON.",
                   .group = OptionGroup::Output},
                  {.name = "expanded",
                   .argument = "",
                   .default_value = "",
                   .help = "print the file with every device, vertex and link spelled out",
                   .group = OptionGroup::Output}},
      .examples = {{"pipesim topologies", "the presets"},
                   {"pipesim topologies dgx-a100:4", "four nodes of a preset"},
                   {"pipesim topologies dgx2 --json > my.topology.json", "a topology file to start from"}},
      .run = run_topologies};
}

}  // namespace pipesim
