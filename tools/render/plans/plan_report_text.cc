#include "tools/render/plans/plan_report_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tools/analysis/plans/operator_groups.h"
#include "tools/base/figures.h"
#include "tools/render/base/table.h"
#include "tools/render/plans/breakdown_text.h"

// A report, for people and scripts. It is made in plan_report.cc.

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

// The variable has another name before PyTorch 2.9.
constexpr const char* kExpandableSegments =
    "; PYTORCH_ALLOC_CONF (or PYTORCH_CUDA_ALLOC_CONF) =expandable_segments:True leaves smaller ones";
constexpr const char* kNotInFull = "not in full: there was time for the iteration time alone";

bool recomputes(const PlanReport& report) {
  return std::any_of(report.recompute.begin(), report.recompute.end(), [](Nanoseconds t) { return t > 0; });
}

std::string range_text(std::vector<Nanoseconds> times) {
  const auto [least, most] = std::minmax_element(times.begin(), times.end());
  return *least == *most ? pretty(to_seconds(*least))
                         : fmt::format("{} to {}", pretty(to_seconds(*least)), pretty(to_seconds(*most)));
}

std::string memory_text(const PlanReport& report, const Topology& topology) {
  const std::size_t fullest = fullest_of_kind(report, topology, nullptr).value_or(0);
  const DeviceMemory& m = report.memory[fullest];
  const DeviceKind& kind = topology.kind(DeviceId(fullest));
  std::string text =
      fmt::format("{}{} on {}", pretty(m.peak),
                  kind.memory_overhead.is_none() ? " of " + pretty(kind.memory) : std::string(" allocated"),
                  topology.device(DeviceId(fullest)).name);
  std::string parts;
  for (std::size_t c = 0; c < kMemoryCategories; ++c) {
    if (m.at_peak[c].value == 0) continue;
    parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", name_of(static_cast<MemoryCategory>(c)),
                         pretty(m.at_peak[c]));
  }
  return parts.empty() ? text : text + ": " + parts;
}

// What was simulated, where it stands for more.
std::vector<std::string> tasks_row(const PlanReport& report, const Topology& topology) {
  const bool all_devices = report.simulated_devices == static_cast<std::int64_t>(topology.num_devices());
  if (all_devices && report.simulated_microbatches == 0)
    return {"tasks", fmt::format("{} on {}", report.num_tasks, devices_text(topology))};
  std::string part;
  if (report.simulated_microbatches > 0) part = counted(report.simulated_microbatches, "microbatch");
  if (!all_devices)
    part += fmt::format("{}{}", part.empty() ? "" : " on ", counted(report.simulated_devices, "device"));
  return {"simulated", fmt::format("{} tasks: {}, from which all others follow", report.num_tasks, part)};
}

// By the name of each kind that has one: of its fullest device.
Json overheads_json(const PlanReport& report, const Topology& topology) {
  Json json = Json::object();
  for (const DeviceKind& kind : topology.parts().kinds) {
    const MemoryOverhead& overhead = kind.memory_overhead;
    if (overhead.is_none()) continue;
    const std::optional<std::size_t> fullest = fullest_of_kind(report, topology, &kind);
    const DeviceMemory of = fullest ? report.memory[*fullest] : DeviceMemory{};
    json[kind.name] = {{"installed_bytes", overhead.installed.value},
                       {"context_bytes", overhead.context.value},
                       {"communicator_bytes", overhead.communicator.value},
                       {"communicators", of.communicators},
                       {"fragmentation", overhead.fragmentation},
                       {"usable_bytes", overhead.usable(kind.memory, of.communicators).value}};
    if (!fullest) continue;
    json[kind.name]["device"] = topology.device(DeviceId(*fullest)).name;
    json[kind.name]["allocated_bytes"] = of.peak.value;
    const ReservedMemory& reserved = report.reserved.at(DeviceId(*fullest));
    json[kind.name]["reserved_bytes"] = reserved.reserved.value;
    json[kind.name]["allocator_has_room"] = reserved.fits;
    json[kind.name]["process_bytes"] = overhead.of_process(reserved.reserved, of.communicators).value;
  }
  return json;
}

std::string communicators_text(const MemoryOverhead& overhead, std::int32_t communicators) {
  if (communicators == 0 || overhead.communicator.value == 0) return "no communicators";
  return communicators == 1
             ? fmt::format("{} for a communicator", pretty(overhead.communicator))
             : fmt::format("{} for each of {} communicators", pretty(overhead.communicator), communicators);
}

// One row for each kind that has one: the figure that must fit into the device's memory.
void add_overheads(const PlanReport& report, const Topology& topology, Table& table) {
  for (const DeviceKind& kind : topology.parts().kinds) {
    const MemoryOverhead& overhead = kind.memory_overhead;
    const std::optional<std::size_t> fullest = fullest_of_kind(report, topology, &kind);
    if (overhead.is_none() || !fullest) continue;
    const DeviceMemory& of = report.memory[*fullest];
    const ReservedMemory& reserved = report.reserved.at(DeviceId(*fullest));
    const Bytes gaps = std::max(Bytes(0), reserved.reserved - of.peak);
    table.add({"reserved", fmt::format("{}, {} in gaps; with {} for context and {} {} of {} on {}",
                                       pretty(reserved.reserved), pretty(gaps), pretty(overhead.context),
                                       communicators_text(overhead, of.communicators),
                                       pretty(overhead.of_process(reserved.reserved, of.communicators)),
                                       pretty(overhead.installed), kind.name)});
    if (!reserved.fits && !report.infeasible)
      table.add({"", std::string("more than there is: gaps leave no room for a tensor") +
                         (report.expandable_segments ? "" : kExpandableSegments)});
  }
}

Json json_of(const FlopsCounting& counting) {
  const bool half = counting.causal == FlopsCounting::CausalAttention::Half;
  Json json{{"causal_attention", half ? "half" : "full"},
            {"documents_apart", counting.documents_apart},
            {"routers", counting.routers}};
  if (!counting.framework.empty()) json["framework"] = counting.framework;
  return json;
}

// "bfloat16", or "bfloat16, float16".
std::string names_of(const std::vector<DataType>& types) {
  std::string text;
  for (const DataType type : types) text += fmt::format("{}{}", text.empty() ? "" : ", ", name_of(type));
  return text;
}

}  // namespace

std::string counting_text(const TrainingRates& rates) {
  const bool half = rates.counting.causal == FlopsCounting::CausalAttention::Half;
  const std::string& framework = rates.counting.framework;
  return fmt::format("{}{}",
                     !rates.causal ? "all pairs of query and key"
                     : half        ? "causal attention at half"
                                   : "causal attention in full",
                     framework.empty() ? "" : fmt::format(", as {} does", framework));
}

std::string peak_text(const TrainingRates& rates, const Topology& topology) {
  constexpr double kTera = 1e12;
  const auto devices = static_cast<double>(topology.num_devices());
  bool alike = true;
  for (std::size_t d = 1; d < topology.num_devices(); ++d)
    alike = alike && topology.device(DeviceId(d)).kind == topology.device(DeviceId(0)).kind;
  return fmt::format("{} TFLOP/s{}, the rate of {}",
                     significant(rates.peak_flops_per_second / devices / kTera, 4),
                     alike ? "" : " on average", names_of(rates.peak_types));
}

nlohmann::ordered_json json_of(const PlanReport& report, const Topology& topology) {
  Json memory = Json::object(), compute = Json::object(), recompute = Json::object(),
       communication = Json::object(), margin = Json::object();
  for (std::size_t d = 0; d < topology.num_devices(); ++d) {
    const std::string& name = topology.device(DeviceId(d)).name;
    if (!report.memory.empty()) memory[name] = report.memory[d].peak.value;
    margin[name] = topology.memory_margin().of(topology.kind(DeviceId(d)).memory).value;
    if (!report.compute.empty()) compute[name] = seconds(report.compute[d]);
    if (!report.recompute.empty()) recompute[name] = seconds(report.recompute[d]);
    if (report.in_full) communication[name] = seconds(report.communication[d]);
  }
  const Nanoseconds whole = report.makespan;
  Json json{{"iteration_time_s", seconds(report.iteration_time)},
            {"throughput_samples_per_s", report.samples_per_second},
            {"num_devices", topology.num_devices()},
            {"num_tasks", report.num_tasks},
            {"recipe", report.recipe},
            {"peak_memory_bytes", memory},
            {"fits", !report.infeasible},
            {"compute_s", compute},
            {"communication_s", communication},
            {"critical_path",
             {{"tasks", report.critical_tasks},
              {"compute", share(report.critical.compute - report.critical_host, whole)},
              {"host", share(report.critical_host, whole)},
              {"communication", share(report.critical.communication, whole)},
              {"waiting", share(report.critical.waiting, whole)}}}};
  if (const TrainingRates& rates = report.rates; rates.tokens_per_second > 0) {
    json["tokens_per_s"] = rates.tokens_per_second;
    json["model_flops_per_s"] = rates.model_flops_per_second;
    json["hardware_flops_per_s"] = rates.hardware_flops_per_second;
    json["mfu"] = rates.mfu();
    json["hfu"] = rates.hfu();
    json["flops_counting"] = json_of(rates.counting);
    json["peak_flops_per_device"] = rates.peak_flops_per_second / static_cast<double>(topology.num_devices());
    json["peak_type"] = names_of(rates.peak_types);
  }
  if (!report.by_cause.empty())
    json["communication_by_cause"] = json_of(report.by_cause, report.compute, topology);
  if (!report.memory_of_stages.empty()) json["memory_by_stage"] = json_of(report.memory_of_stages, topology);
  if (!report.in_full) {
    json["simulated_in_full"] = false;
    for (const char* unknown : {"num_tasks", "communication_s", "communication_by_cause", "critical_path"})
      json[unknown] = nullptr;
    if (report.memory.empty()) json["peak_memory_bytes"] = nullptr;
    if (report.compute.empty()) json["compute_s"] = nullptr;
  }
  if (report.spread) json["iteration_time_spread_s"] = seconds(*report.spread);
  if (whole != report.iteration_time) json["makespan_s"] = seconds(whole);
  if (recomputes(report)) json["recompute_s"] = recompute;
  if (!topology.memory_margin().is_none()) json["memory_margin_bytes"] = margin;
  if (Json overhead = overheads_json(report, topology); !overhead.empty())
    json["memory_overhead"] = std::move(overhead);
  if (report.infeasible) json["infeasible"] = *report.infeasible;
  if (!report.idle.empty()) json["idle_devices"] = report.idle;
  if (!report.borrowed_rates.empty()) json["borrowed_rates"] = report.borrowed_rates;
  if (!report.opaque.empty()) json["opaque_operators"] = report.opaque;
  return json;
}

namespace {

void add_rates(const TrainingRates& rates, const Topology& topology, Table& table) {
  constexpr double kTera = 1e12;
  const auto devices = static_cast<double>(topology.num_devices());
  const std::string mfu = percent(rates.mfu()), hfu = percent(rates.hfu());
  table.add({"tokens", fmt::format("{} tokens/s, {} a device", significant(rates.tokens_per_second, 4),
                                   significant(rates.tokens_per_second / devices, 4))});
  table.add({"model FLOPs", fmt::format("{} TFLOP/s a device, MFU {}{}",
                                        significant(rates.model_flops_per_second / devices / kTera, 3), mfu,
                                        hfu == mfu ? "" : fmt::format(", HFU {}", hfu))});
  table.add({"counted", fmt::format("{}; of {}", counting_text(rates), peak_text(rates, topology))});
}

void add_causes(const PlanReport& report, const Topology& topology, Table& table) {
  const CommunicationSummary summary = summary_of(report.by_cause, report.compute);
  const double whole = seconds(report.makespan);
  const CommunicationTime& most = report.by_cause[summary.most_exposed];
  if (most.all_exposed() > 0)
    table.add({"exposed",
               fmt::format("{}; most on {}: {}", causes_text(summary.exposed, summary.all_exposed, whole),
                           topology.device(DeviceId(summary.most_exposed)).name,
                           pretty(Seconds(seconds_of_parts(static_cast<double>(most.all_exposed())))))});
  if (summary.all_hidden > 0) table.add({"hidden", causes_text(summary.hidden, summary.all_hidden, whole)});
}

}  // namespace

std::string to_text(const PlanReport& report, const Topology& topology) {
  const Nanoseconds whole = report.makespan;
  Table table({{}, {}});
  table.add({"iteration", pretty(to_seconds(report.iteration_time))});
  if (report.spread)
    table.add({"estimated", fmt::format("no period shows; the rate of the last quarter differs by {}",
                                        pretty(to_seconds(*report.spread)))});
  if (whole != report.iteration_time) table.add({"from empty to empty", pretty(to_seconds(whole))});
  table.add({"throughput", pretty_rate(report.samples_per_second)});
  if (report.rates.tokens_per_second > 0) add_rates(report.rates, topology, table);
  table.add(report.in_full ? tasks_row(report, topology) : std::vector<std::string>{"simulated", kNotInFull});
  if (!report.recipe.empty()) table.add({"recipe", report.recipe});
  if (!report.idle.empty()) table.add({"idle devices", report.idle});
  if (!report.borrowed_rates.empty()) table.add({"data types", report.borrowed_rates});
  if (!report.compute.empty()) table.add({"compute", range_text(report.compute) + " a device"});
  if (recomputes(report)) table.add({"recompute", range_text(report.recompute) + " a device of this"});
  if (report.in_full) {
    table.add({"links busy", range_text(report.communication) + " a device"});
    add_causes(report, topology, table);
    table.add({"critical path",
               fmt::format("{} compute, {}{} communication, {} waiting, {} tasks",
                           percent(share(report.critical.compute - report.critical_host, whole)),
                           report.critical_host > 0
                               ? fmt::format("{} host, ", percent(share(report.critical_host, whole)))
                               : "",
                           percent(share(report.critical.communication, whole)),
                           percent(share(report.critical.waiting, whole)), report.critical_tasks)});
  }
  if (!report.memory.empty()) {
    table.add({"memory", memory_text(report, topology)});
    add_overheads(report, topology, table);
  }
  if (const MemoryMargin& margin = topology.memory_margin(); !margin.is_none())
    table.add({"margin", fmt::format("{} of every device's memory must stay free{}", margin.str(),
                                     report.infeasible ? "" : ": the plan fits")});
  if (report.infeasible) table.add({"does not fit", *report.infeasible});
  if (!report.opaque.empty()) table.add({"unknown kinds", report.opaque});
  return table.str(2);
}

namespace {

struct TrainingTime {
  double days = 0, device_hours = 0, price = 0;  // 0: no price was said
};

TrainingTime training_time(const PlanReport& report, const Topology& topology, double tokens) {
  if (report.rates.tokens_per_second <= 0)
    throw InputError("--tokens: the model has no tokens, or is not trained; its samples have one label each");
  constexpr double kHour = 3600, kDay = 24;
  const double hours = tokens / report.rates.tokens_per_second / kHour;
  const double device_hours = hours * static_cast<double>(topology.num_devices());
  return {hours / kDay, device_hours, device_hours * topology.parts().price_per_hour};
}

}  // namespace

std::string training_text(const PlanReport& report, const Topology& topology, double tokens) {
  constexpr int kDigits = 3;
  const TrainingTime time = training_time(report, topology, tokens);
  Table table({{}, {}});
  table.add(
      {"training     ",
       fmt::format("{} tokens take {} days, {} device hours{}", pretty_count(std::llround(tokens)),
                   significant(time.days, kDigits), pretty_count(std::llround(time.device_hours)),
                   time.price > 0 ? fmt::format(", price {}", pretty_count(std::llround(time.price))) : "")});
  return table.str(2);
}

nlohmann::ordered_json training_json(const PlanReport& report, const Topology& topology, double tokens) {
  const TrainingTime time = training_time(report, topology, tokens);
  Json json{{"training_days", time.days}, {"device_hours", time.device_hours}};
  if (time.price > 0) json["price"] = time.price;
  return json;
}

std::string configs_text(const OperatorGraph& graph, const BoundStrategy& strategy, std::size_t most,
                         const std::optional<Pipeline>& pipeline) {
  std::vector<std::string> configs;
  for (const BoundOperator* bound : strategy) configs.push_back(bound->config.str(*bound->op));
  const std::vector<Nanoseconds> compute = compute_times(strategy, pipeline);
  const Nanoseconds whole = std::accumulate(compute.begin(), compute.end(), Nanoseconds{0});
  const std::vector<OperatorGroup> groups = group_operators(configs, compute);
  Table table(
      {{"split (factor/degree)"}, {"operators", Align::Right}, {"compute", Align::Right}, {"such as"}});
  for (std::size_t i = 0; i < std::min(most, groups.size()); ++i) {
    const OperatorGroup& group = groups[i];
    constexpr std::size_t kNames = 3;
    table.add({group.words, std::to_string(group.operators.size()), percent(share(group.compute, whole)),
               some_names(graph, group, kNames)});
  }
  const std::string rest = groups.size() > most ? fmt::format("  … and {} more\n", groups.size() - most) : "";
  return table.str(2) + rest;
}

std::string devices_text(const Topology& topology) {
  return counted(static_cast<std::int64_t>(topology.num_devices()), "device");
}

std::string batch_text(const OperatorGraph& graph, const PlanOptions& options) {
  std::string text = fmt::format("batch {}", samples_per_iteration(graph, options));
  if (options.microbatches > 1)
    text += fmt::format(" in {} microbatches of {}", options.microbatches, graph.batch());
  const Recompute& recompute = options.recompute;
  if (recompute.kind == Recompute::Kind::None) return text;
  return fmt::format("{}, recompute {}", text, in_words(recompute));
}

}  // namespace pipesim
