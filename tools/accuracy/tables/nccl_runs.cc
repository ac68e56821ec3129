#include "tools/accuracy/tables/nccl_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace pipesim {
namespace {

using NcclName = std::pair<std::string_view, std::string_view>;
constexpr std::array kNcclNodes = std::to_array<NcclName>(
    {{"a100_sxm", "dgx-a100"}, {"h100_sxm", "dgx-h100"}, {"h200_sxm", "hgx-h200"}, {"b200_sxm", "dgx-b200"}});
constexpr std::array kNcclKinds =
    std::to_array<std::pair<std::string_view, Collective>>({{"all_reduce", Collective::AllReduce},
                                                            {"reduce_scatter", Collective::ReduceScatter},
                                                            {"all_gather", Collective::AllGather},
                                                            {"alltoall", Collective::AllToAll}});

template <class Found>
const Found* found_in(std::span<const Found> all, std::string_view name) {
  const auto found = std::ranges::find(all, name, &Found::first);
  return found == all.end() ? nullptr : &*found;
}

std::string_view class_of(std::int64_t bytes) {
  constexpr std::int64_t kMebibyte = 1 << 20;
  return bytes < kMebibyte ? "below 1 MiB" : bytes < 16 * kMebibyte ? "1 MiB to 16 MiB" : "16 MiB and more";
}

MeasuredRun run_of(const MeasuredTable& table, std::size_t row) {
  const std::string &system = table.text(row, "system"), &op = table.text(row, "op");
  const auto count = [&](std::string_view column) { return table.count(row, column).value_or(0); };
  const std::int64_t gpus = count("n_gpus"), bytes = count("bytes");
  MeasuredRun run;
  run.name = fmt::format("{} of {} bytes on {} {}, {} {}", op, bytes, gpus, system, table.text(row, "dtype"),
                         table.text(row, "nccl_version"));
  const auto* node = found_in<NcclName>(kNcclNodes, system);
  const auto* kind = found_in<std::pair<std::string_view, Collective>>(kNcclKinds, op);
  if (node == nullptr) run.reason = "a system that pipesim does not know";
  if (kind == nullptr) run.reason = "a collective that pipesim does not know";
  if (gpus < 2 || gpus > 8) run.reason = "other than 2 to 8 GPUs";
  if (!run.reason.empty()) return run;
  run.measured_time = Seconds(table.number(row, "latency_us").value_or(0) * 1e-6);
  run.groups = {system, op, fmt::format("{} GPUs", gpus), std::string(class_of(bytes))};
  run.traits = {{"n_gpus", static_cast<double>(gpus)}, {"bytes", static_cast<double>(bytes)}};
  run.collective = ExpressedCollective{std::string(node->second), kind->second, gpus, Bytes(bytes),
                                       table.text(row, "dtype") != "int8"};
  return run;
}

MeasuredRun cube_mesh_run(const MeasuredTable& table, std::size_t row) {
  const std::int64_t gpus = table.positive(row, "n_gpus"), bytes = table.positive(row, "bytes");
  MeasuredRun run;
  run.name = fmt::format("all-reduce of {} bytes on {} {}", bytes, gpus, table.text(row, "gpu"));
  if (table.text(row, "gpu") != "v100") run.reason = "a system that pipesim does not know";
  if (gpus < 2 || gpus > 8) run.reason = "other than 2 to 8 GPUs";
  if (!run.reason.empty()) return run;
  run.measured_time = Seconds(table.number(row, "time_us").value_or(0) * 1e-6);
  run.groups = {fmt::format("{} GPUs", gpus), std::string(class_of(bytes))};
  run.traits = {{"n_gpus", static_cast<double>(gpus)}, {"bytes", static_cast<double>(bytes)}};
  run.collective = ExpressedCollective{"dgx1-v100", Collective::AllReduce, gpus, Bytes(bytes)};
  return run;
}

}  // namespace

std::vector<MeasuredRun> nccl_runs(const MeasuredTable& table) {
  table.require({"system", "nccl_version", "op", "dtype", "n_gpus", "bytes", "latency_us"});
  std::vector<MeasuredRun> runs;
  for (std::size_t row = 0; row < table.rows(); ++row) runs.push_back(run_of(table, row));
  return runs;
}

std::vector<MeasuredRun> cube_mesh_runs(const MeasuredTable& table) {
  table.require({"gpu", "n_gpus", "bytes", "time_us"});
  std::vector<MeasuredRun> runs;
  for (std::size_t row = 0; row < table.rows(); ++row) runs.push_back(cube_mesh_run(table, row));
  return runs;
}

}  // namespace pipesim
