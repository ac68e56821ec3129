#include "topologies/presets/presets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "topologies/changes/topology_changes.h"
#include "topologies/files/topology_json.h"
#include "topologies/levels.h"
#include "topologies/presets/cpu.h"
#include "topologies/presets/flexflow_sim.h"

namespace pipesim {

namespace {

std::vector<TopologyPreset> all_presets() {
  const std::string flexflow =
      "Jia et al., Beyond Data and Model Parallelism for Deep Neural Networks, MLSys 2019";
  const std::string dapple = "Fan et al., DAPPLE, PPoPP 2021, hardware configurations A, B and C";
  return {
      {"p100-4x4", 4, 4, "4 P100 a node meshed by NVLink, a 100 Gb/s InfiniBand NIC a node", flexflow,
       add_p100_box},
      {"k80-16x4", 16, 4, "4 K80 GPUs a node over PCIe, a 56 Gb/s InfiniBand NIC a node", flexflow,
       add_k80_box},
      {"dapple-a", 2, 8, "8 V100 a server in a NVLink cube mesh, 25 Gb/s Ethernet between servers", dapple,
       add_dapple_a_box},
      {"dapple-b", 16, 1, "single-V100 servers over 25 Gb/s Ethernet", dapple, add_dapple_b_box},
      {"dapple-c", 16, 1, "single-V100 servers over 10 Gb/s Ethernet", dapple, add_dapple_c_box},
      {"dgx1-v100", 1, 8, "DGX-1: 8 V100 in the hybrid cube mesh, PCIe and QPI beside it, 4 x 100 Gb/s NICs",
       "NVIDIA DGX-1 With Tesla V100 System Architecture, WP-08437; NVIDIA/nccl#671", add_dgx1_v100_box, 4,
       4},
      {"dgx2", 1, 16, "DGX-2: 16 V100 on NVSwitch, 8 x 100 Gb/s NICs, two GPUs a NIC",
       "NVIDIA DGX-2 datasheet; NVIDIA/nccl-tests#78", add_dgx2_box, 8, 8},
      {"dgx-a100", 1, 8, "DGX A100: 8 A100-80GB on NVSwitch, 8 x 200 Gb/s NICs",
       "NVIDIA DGX A100 datasheet; NVIDIA/nccl#1505", add_dgx_a100_box, 8, 8, true},
      {"roce-a100", 1, 8, "8 A100-80GB on NVSwitch, 4 x 100 Gb/s NICs, two GPUs a NIC",
       "nodes of InternLM/InternEvo, doc/en/train_performance.md", add_roce_a100_box, 4, 4},
      {"dgx-h100", 1, 8, "DGX H100: 8 H100 on NVSwitch, 8 x 400 Gb/s NICs", "NVIDIA DGX H100 datasheet",
       add_dgx_h100_box, 8, 8, true},
      {"grand-teton", 1, 8, "Grand Teton: 8 H100 with 96 GB and 500 W on NVSwitch, 8 x 400 Gb/s NICs",
       "Meta, Grand Teton (OCP Summit 2022); pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md",
       add_grand_teton_box, 8, 8, true},
      {"hgx-h800", 1, 8, "HGX H800: 8 H800 on NVSwitch, 8 x 400 Gb/s NICs",
       "DeepSeek-AI, Insights into DeepSeek-V3, ISCA 2025; arXiv:2505.09343", add_hgx_h800_box, 8, 8, true},
      {"hgx-h200", 1, 8, "HGX H200: 8 H200 on NVSwitch, 8 x 400 Gb/s NICs", "NVIDIA HGX H200 datasheet",
       add_hgx_h200_box, 8, 8, true},
      {"dgx-b200", 1, 8, "DGX B200: 8 B200 on NVSwitch, 8 x 400 Gb/s NICs", "NVIDIA DGX B200 datasheet",
       add_dgx_b200_box, 8, 8, true},
      {"gb200-nvl72", 1, 72, "GB200 NVL72: a rack of 72 GB200 on NVSwitch, 72 x 400 Gb/s NICs",
       "NVIDIA GB200 NVL72 datasheet; DGX SuperPOD GB200 reference architecture: 4 NICs a tray",
       add_nvl72_box, 72, 4, true},
      {"dgx-b300", 1, 8, "DGX B300: 8 B300 on NVSwitch, 8 x 800 Gb/s NICs", "NVIDIA DGX B300 datasheet",
       add_dgx_b300_box, 8, 8, true},
      {"gb300-nvl72", 1, 72, "GB300 NVL72: a rack of 72 GB300 on NVSwitch, 72 x 800 Gb/s NICs",
       "NVIDIA GB300 NVL72 datasheet; DGX SuperPOD GB300 reference architecture: 4 NICs a tray",
       add_nvl72_ultra_box, 72, 4, true},
      {"pcie-v100-4", 1, 4, "4 V100-PCIe on one PCIe switch, a 10 Gb/s Ethernet NIC",
       "the 4-GPU servers of Narayanan et al., PipeDream, SOSP 2019 (cluster A)", add_pcie_v100_box},
      {"flexflow-sim", 2, 4, "4 ideal devices a node over the links of FlexFlow's stand-alone simulator",
       "links and counts: the constants of FlexFlow's stand-alone simulator, scripts/simulator.cc of "
       "flexflow/FlexFlow; devices: assumed, the simulator measures its kernels",
       add_flexflow_sim_box},
  };
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const TopologyPreset& preset : topology_presets()) names.push_back(preset.name);
  names.emplace_back("cpu");
  return names;
}

std::int64_t most_nodes(const TopologyPreset& preset) { return max_devices / preset.devices_per_node; }

std::int64_t parse_node_count(std::string_view text, std::string_view whole, std::int64_t most) {
  std::int64_t nodes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), nodes);
  if (error != std::errc() || end != text.data() + text.size())
    throw InputError(fmt::format("topology \"{}\": found \"{}\" as the number of nodes, allowed 1 to {}",
                                 whole, text, most));
  return nodes;
}

void check_gpus(const TopologyPreset& preset, std::int64_t gpus, const std::string& topology) {
  if (gpus == 0) return;
  if (!preset.takes_fewer) {
    std::vector<std::string> names;
    for (const TopologyPreset& p : topology_presets()) {
      if (p.takes_fewer) names.push_back(p.name);
    }
    throw InputError(fmt::format("topology \"{}\": its nodes have all their GPUs; gpus suits {}", topology,
                                 list_names(names)));
  }
  if (gpus > preset.devices_per_node)
    throw InputError(fmt::format("topology \"{}\": found {} GPUs a node, allowed 1 to {}", topology, gpus,
                                 preset.devices_per_node));
}

// Node `number`; its parts are called after it where a separator stands between.
void add_node(TopologyDraft& draft, const TopologyPreset& preset, std::int64_t number,
              std::string_view separator, std::int64_t gpus, std::vector<DraftVertex> network) {
  const std::string node = fmt::format("node{}", number);
  BoxPlace place;
  place.node = draft.add_node(node);
  if (!separator.empty()) place.prefix = node + std::string(separator);
  place.gpus = static_cast<std::int32_t>(gpus);
  place.network = std::move(network);
  preset.add_box(draft, place);
}

// Nodes of one preset, as a text asks for them.
struct PresetNodes {
  const TopologyPreset* preset = nullptr;
  std::int64_t nodes = 1;
  PresetOptions options;
};

// `size`: "N", "key=value,…", or both with a comma.
PresetNodes sized_nodes(const TopologyPreset& preset, std::string_view size, std::string_view whole) {
  const std::size_t comma = size.find(',');
  const std::string_view first = size.substr(0, comma);
  if (first.find('=') != std::string_view::npos)
    return {&preset, preset.default_nodes, parse_preset_options(size, whole)};
  const std::int64_t nodes = parse_node_count(first, whole, most_nodes(preset));
  if (comma == std::string_view::npos) return {&preset, nodes, {}};
  return {&preset, nodes, parse_preset_options(size.substr(comma + 1), whole)};
}

// Nothing where no preset has this name.
std::optional<PresetNodes> preset_nodes(std::string_view text) {
  const std::size_t colon = text.find(':');
  for (const TopologyPreset& preset : topology_presets()) {
    if (preset.name != text.substr(0, colon)) continue;
    if (colon == std::string_view::npos) return PresetNodes{&preset, preset.default_nodes, {}};
    return sized_nodes(preset, text.substr(colon + 1), text);
  }
  return std::nullopt;
}

Topology named_topology(std::string_view text) {
  if (const auto asked = preset_nodes(text))
    return preset_topology(*asked->preset, asked->nodes, asked->options);
  const std::size_t colon = text.find(':');
  const std::string name(text.substr(0, colon));
  if (name == "cpu")
    return cpu_topology(
        colon == std::string_view::npos ? 2 : parse_node_count(text.substr(colon + 1), text, max_devices));
  const std::vector<std::string> names = preset_names();
  throw InputError(fmt::format(
      "unknown topology \"{}\"{}; allowed: {}, each also as NAME:N for N nodes (cpu:N for N "
      "threads of a host), presets also as NAME:N,gpus=4,network=rail, levels:4@10GB/s,2@1.25GB/s, "
      "or a .json file",
      text, did_you_mean(name, names), list_names(names)));
}

Topology unchanged_topology(std::string_view text) {
  if (text.starts_with("levels:")) return levels_topology(text);
  std::error_code ignored;
  if (text.ends_with(".json") || text.find('/') != std::string_view::npos ||
      std::filesystem::is_regular_file(text, ignored))
    return load_topology(std::string(text));
  return named_topology(text);
}

// Nodes of several presets on one network.
Topology joined_topology(const std::vector<std::string_view>& texts, std::string_view whole) {
  std::vector<PresetNodes> groups;
  std::int64_t nodes = 0;
  std::string sources;
  for (const std::string_view text : texts) {
    const auto group = preset_nodes(text);
    if (!group)
      throw InputError(
          fmt::format("topology \"{}\": found \"{}\" among nodes that are joined by +, allowed: presets, {}",
                      whole, text, list_names(preset_names())));
    if (group->options.network != NetworkOptions{})
      throw InputError(fmt::format(
          "topology \"{}\": network is given for \"{}\", nodes that are joined by + have one switch", whole,
          text));
    check_gpus(*group->preset, group->options.gpus, std::string(text));
    nodes += group->nodes;
    if (group->nodes < 1 || nodes > max_devices / group->preset->devices_per_node)
      throw InputError(fmt::format("topology \"{}\": found {} nodes, allowed 1 to {}", whole, group->nodes,
                                   most_nodes(*group->preset)));
    sources += (sources.empty() ? "" : "; ") + group->preset->source;
    groups.push_back(*group);
  }
  TopologyDraft draft(std::string(whole), sources);
  const Network network(draft, {}, NetworkNodes{nodes, 1, 1}, std::string(whole));
  std::int64_t n = 0;
  for (const PresetNodes& group : groups) {
    for (std::int64_t i = 0; i < group.nodes; ++i, ++n) {
      add_node(draft, *group.preset, n, ".", group.options.gpus, network.switches_of(n));
    }
  }
  return Topology(std::move(draft).finish());
}

}  // namespace

std::span<const TopologyPreset> topology_presets() {
  static const std::vector<TopologyPreset> presets = all_presets();
  return presets;
}

Topology preset_topology(const TopologyPreset& preset, std::int64_t nodes, const PresetOptions& options) {
  PresetOptions said = options;
  if (said.gpus == preset.devices_per_node) said.gpus = 0;
  std::string name = preset.name;
  if (nodes != preset.default_nodes) name += fmt::format(":{}", nodes);
  if (const std::string text = said.str(); !text.empty())
    name += (nodes != preset.default_nodes ? "," : ":") + text;
  if (nodes < 1 || nodes > most_nodes(preset))
    throw InputError(
        fmt::format("topology \"{}\": found {} nodes, allowed 1 to {}", name, nodes, most_nodes(preset)));
  check_gpus(preset, said.gpus, name);
  const auto with_gpus = [&](std::int64_t number) {
    return said.gpus > 0 ? std::min(number, said.gpus) : number;
  };
  TopologyDraft draft(name, preset.source);
  std::optional<Network> built;
  if (nodes > 1 || said.network != NetworkOptions{})
    built.emplace(draft, said.network, NetworkNodes{nodes, with_gpus(preset.nics), with_gpus(preset.rails)},
                  name);
  for (std::int64_t n = 0; n < nodes; ++n) {
    add_node(draft, preset, n, nodes > 1 ? "." : "", said.gpus,
             built ? built->switches_of(n) : std::vector<DraftVertex>());
  }
  if (built) built->link_switches();
  return Topology(std::move(draft).finish());
}

Topology make_topology(std::string_view text) {
  std::error_code ignored;
  if (text.find('+') == std::string_view::npos || std::filesystem::is_regular_file(text, ignored))
    return unchanged_topology(text);
  std::vector<std::string_view> nodes, changes;
  for (std::size_t end = 0, from = 0; end != std::string_view::npos; from = end + 1) {
    end = text.find('+', from);
    const std::string_view part = text.substr(from, end - from);
    // Options of a preset stand behind a colon, but so do names in "slow:gpu3=2".
    const bool is_change = part.find('=') != std::string_view::npos && !preset_nodes(part);
    (is_change ? changes : nodes).push_back(part);
  }
  if (nodes.empty())
    throw InputError(fmt::format("topology \"{}\" begins with a change, allowed: NAME+CHANGE", text));
  const Topology topology =
      nodes.size() == 1 ? unchanged_topology(nodes.front()) : joined_topology(nodes, text);
  if (changes.empty()) return topology;
  return changed_topology(topology, fmt::format("{}", fmt::join(changes, "+")), text);
}

}  // namespace pipesim
