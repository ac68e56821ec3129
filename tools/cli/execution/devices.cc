#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "costmodel/host.h"
#include "executor/backend/cores.h"
#include "executor/gpu/machine/inventory.h"
#include "sim/base/errors.h"
#include "tools/cli/commands/execution_commands.h"
#include "tools/render/base/table.h"
#include "tools/running/machine_topology.h"

namespace pipesim {
namespace {

GpuInventory gpus_or_reason() {
  try {
    return gpus_of_this_machine();
  } catch (const DeviceError& error) {
    GpuInventory none;
    none.no_gpus = error.what();
    return none;
  }
}

std::string capability_text(const Gpu& gpu) {
  return fmt::format("{}.{}", gpu.capability / 10, gpu.capability % 10);
}

std::string pcie_text(const PcieLink& link) {
  const std::string generation = link.generation == 0 ? "?" : fmt::format("{}.0", link.generation);
  return fmt::format("{} x{}", generation, link.lanes == 0 ? "?" : std::to_string(link.lanes));
}

std::string pair_text(const GpuPair& pair) {
  if (pair.nvlinks > 0) return fmt::format("{} NVLinks", pair.nvlinks);
  return pair.peer_access ? "directly" : "through the host's memory";
}

std::string gpus_text(const GpuInventory& found) {
  if (!found.no_gpus.empty()) return fmt::format("  none: {}\n", found.no_gpus);
  Table table({{"", Align::Right},
               {"GPU"},
               {"bus id"},
               {"capability", Align::Right},
               {"multiprocessors", Align::Right},
               {"memory", Align::Right},
               {"free", Align::Right},
               {"PCIe"},
               {"NUMA node", Align::Right},
               {"NVLinks to switches", Align::Right}});
  for (std::size_t i = 0; i < found.gpus.size(); ++i) {
    const Gpu& gpu = found.gpus[i];
    table.add({std::to_string(i), gpu.name, gpu.bus_id, capability_text(gpu),
               std::to_string(gpu.multiprocessors), pretty(Bytes(gpu.memory)), pretty(Bytes(gpu.free_memory)),
               pcie_text(gpu.pcie), gpu.numa_node < 0 ? "?" : std::to_string(gpu.numa_node),
               std::to_string(found.switch_nvlinks[i])});
  }
  std::string text = table.str(2);
  if (found.pairs.empty()) return text;
  Table pairs({{"GPUs"}, {"reach each other"}});
  for (const GpuPair& pair : found.pairs)
    pairs.add({fmt::format("{}, {}", pair.first, pair.second), pair_text(pair)});
  return text + "\n" + pairs.str(2);
}

std::vector<std::pair<std::string, std::string>> versions_of(const GpuInventory& found) {
  return {{"driver", found.driver},   {"CUDA runtime", found.runtime},
          {"cuBLASLt", found.cublas}, {"cuDNN", found.cudnn},
          {"NCCL", found.nccl},       {"CUPTI API", found.cupti}};
}

std::string text_of(const HostDescription& host, const GpuInventory& found) {
  Table cpu({{}, {}});
  cpu.add({"processor", host.processor});
  cpu.add({"cores", fmt::format("{} (topology cpu:{})", host.cores, host.cores)});
  if (const std::optional<Bytes> free = available_memory()) cpu.add({"free memory", pretty(*free)});
  Table versions({{}, {}});
  for (const auto& [name, version] : versions_of(found))
    versions.add({name, version.empty() ? "not loaded" : version});
  return fmt::format("{}\n\nCPU\n{}\nGPUs\n{}\nlibraries\n{}", host.name, cpu.str(2), gpus_text(found),
                     versions.str(2));
}

nlohmann::ordered_json json_of(const HostDescription& host, const GpuInventory& found) {
  nlohmann::ordered_json json;
  json["host"] = host.name;
  json["cpu"] = {{"processor", host.processor}, {"cores", host.cores}};
  if (const std::optional<Bytes> free = available_memory()) json["cpu"]["free_bytes"] = free->value;
  json["gpus"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < found.gpus.size(); ++i) {
    const Gpu& gpu = found.gpus[i];
    json["gpus"].push_back({{"name", gpu.name},
                            {"bus_id", gpu.bus_id},
                            {"capability", capability_text(gpu)},
                            {"multiprocessors", gpu.multiprocessors},
                            {"memory_bytes", gpu.memory},
                            {"free_bytes", gpu.free_memory},
                            {"pcie_generation", gpu.pcie.generation},
                            {"pcie_lanes", gpu.pcie.lanes},
                            {"numa_node", gpu.numa_node},
                            {"pcie_switches", nlohmann::ordered_json::array()},
                            {"nvlinks_to_switches", found.switch_nvlinks[i]}});
    for (const PcieSwitch& above : gpu.switches) json["gpus"].back()["pcie_switches"].push_back(above.bus_id);
  }
  if (!found.no_gpus.empty()) json["no_gpus"] = found.no_gpus;
  for (const GpuPair& pair : found.pairs) {
    json["pairs"].push_back(
        {{"gpus", {pair.first, pair.second}}, {"peer_access", pair.peer_access}, {"nvlinks", pair.nvlinks}});
  }
  for (const auto& [name, version] : versions_of(found)) {
    if (!version.empty()) json["versions"][name] = version;
  }
  return json;
}

}  // namespace

int run_devices(const Arguments& arguments, Streams& streams) {
  const HostDescription host = this_host();
  const GpuInventory found = gpus_or_reason();
  if (arguments.given("json")) {
    give_document(streams, json_of(host, found));
  } else {
    streams.out << text_of(host, found);
  }
  return 0;
}

}  // namespace pipesim
