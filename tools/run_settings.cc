#include "tools/run_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tools/inputs.h"
#include "tools/table.h"

namespace pipesim {
namespace {

constexpr std::int64_t kMostBatch = 1 << 20;

// --batch through the value of another option.
std::int32_t quotient_of(const Arguments& a, const char* option, std::int64_t value) {
  const std::int64_t batch = a.integer("batch", 1, kMostBatch);
  if (batch % value != 0 || batch / value > kMostBatch)
    throw UsageError(fmt::format("--batch {} is no multiple of --{} {}", batch, option, value));
  return static_cast<std::int32_t>(batch / value);
}

}  // namespace

std::vector<Option> model_and_topology_options() {
  return {{"model", "MODEL", "", kModelHelp}, {"topology", "TOPOLOGY", "", kTopologyHelp}};
}

Option memory_margin_option() {
  return {"memory-margin", "MARGIN", "",
          "what a plan must leave free of every device's memory to fit, for what no plan knows of "
          "(the driver, communication libraries, fragmentation): a share of it (10%) or a size (2GB)"};
}

Topology topology_of(const Arguments& a, const std::string& text) {
  if (!a.has("memory-margin")) return open_topology(text);
  MemoryMargin margin;
  try {
    margin = MemoryMargin::parse(a.text("memory-margin"));
  } catch (const InputError& error) {
    throw UsageError(fmt::format("--memory-margin: {}", error.what()));
  }
  const Topology topology = open_topology(text);
  try {
    return topology.with_memory_margin(margin);
  } catch (const InputError& error) {
    throw InputError(fmt::format("--memory-margin: {}", error.what()));
  }
}

Topology topology_of(const Arguments& a) { return topology_of(a, required_text(a, "topology")); }

std::vector<Option> plan_options() {
  std::vector<Option> options{
      {"optimizer", "NAME", "momentum", "sgd, momentum or adam: decides the optimizer state and the update"},
      {"gradient-type", "TYPE", "float32", "element type in which weight gradients accumulate and travel"},
      {"gradient-piece", "SIZE", "25 MB", "gradient synchronisation is cut into pieces of at most this size"},
      {"microbatches", "N", "1", kMicrobatchesHelp},
      {"recompute", "WHAT", "none", kRecomputeHelp},
      memory_margin_option()};
  for (Option& o : batch_options()) options.push_back(std::move(o));
  return options;
}

const std::string& required_text(const Arguments& arguments, const std::string& option) {
  if (!arguments.has(option)) throw UsageError(fmt::format("--{} is missing; see \"pipesim help\"", option));
  return arguments.text(option);
}

std::string plan_schedule_names() {
  const std::vector<std::string> possible = plan_schedule_forms();
  std::vector<std::string> names;
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (std::ranges::find(possible, kind.form()) != possible.end())
      names.push_back(fmt::format("{} ({})", kind.form(), kind.summary));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

const std::string& schedule_of(const Arguments& arguments) {
  const std::string& written = arguments.text("schedule");
  const std::string name = written.substr(0, written.find(':'));
  const auto limited = [&](const ScheduleKind& kind) { return kind.name == name && kind.takes_limit; };
  if (std::ranges::none_of(schedule_kinds(), limited))
    return arguments.choice("schedule", plan_schedule_forms());
  try {
    (void)plan_schedule(written);
  } catch (const InputError& error) {
    throw UsageError(fmt::format("--schedule: {}", error.what()));
  }
  return written;
}

bool lists_stages(const Arguments& a) {
  return a.has("stages") && a.text("stages").find_first_of(",@x") != std::string::npos;
}

std::vector<ListedStage> stage_list_of(const Arguments& a) {
  if (a.given("chunks")) throw UsageError("--chunks needs --stages N: listed stages share no devices");
  try {
    return parse_stage_list(a.text("stages"));
  } catch (const InputError& error) {
    throw UsageError(fmt::format("--stages: {}", error.what()));
  }
}

PipelineDemand pipeline_demand_of(const Arguments& arguments) {
  constexpr std::int64_t kMost = 100'000;
  return {static_cast<std::int32_t>(arguments.integer("stages", 1, kMost)),
          static_cast<std::int32_t>(arguments.integer("chunks", 1, kMost)), schedule_of(arguments)};
}

std::vector<Option> batch_options() {
  return {
      {"batch", "N", "", "samples of an iteration, all microbatches together; the model's own if not given"},
      {"microbatch", "N", "",
       "samples of one microbatch on all devices together (--algorithm dapple: on each copy of the "
       "pipeline), instead of --microbatches"},
      {"profile-batch", "N", "", "samples with which a profile (FILE.txt) was measured"}};
}

ModelRun model_run_of(const Arguments& a) {
  ModelRun run{required_text(a, "model"), 1};
  if (a.has("microbatches"))
    run.microbatches = static_cast<std::int32_t>(a.integer("microbatches", 1, kMostMicrobatches));
  if (a.has("profile-batch"))
    run.model = with_profile_batch(run.model, a.integer("profile-batch", 1, kMostBatch));
  if (a.has("microbatch")) {
    const std::int64_t size = a.integer("microbatch", 1, kMostBatch);
    if (a.has("batch")) {
      if (a.given("microbatches"))
        throw UsageError("--batch, --microbatch and --microbatches: two of them tell the third");
      run.microbatches = quotient_of(a, "microbatch", size);
    }
    run.model = with_batch(run.model, size);
  } else if (a.has("batch")) {
    run.model = with_batch(run.model, quotient_of(a, "microbatches", run.microbatches));
  }
  return run;
}

SearchBudget search_budget_of(const Arguments& a) {
  SearchBudget budget{0, 0};
  if (a.has("proposals")) budget.proposals = a.integer("proposals", 1, INT64_MAX / 2);
  if (a.given("seconds") || budget.proposals == 0) budget.seconds = a.number("seconds", 1e-3, 1e7);
  return budget;
}

std::vector<std::string> schedules_to_try(const Arguments& arguments) {
  return arguments.given("schedule") ? std::vector{schedule_of(arguments)} : plan_schedules();
}

Recompute recompute_of(const Arguments& arguments) {
  return parse_recompute(arguments.choice("recompute", recompute_names()));
}

void require_recompute(const OperatorGraph& graph, const Recompute& recompute) {
  if (const auto reason = illegal(graph, recompute, {}))
    throw InputError(fmt::format("--recompute {}: {}", name_of(recompute.kind), *reason));
}

std::string profile_note_of(const Arguments& a) {
  return a.has("profile-batch") || !a.has("model") ? "" : profile_note(a.text("model"));
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
  return text + (recompute.kind == Recompute::Kind::Listed
                     ? ", recompute of a list"
                     : fmt::format(", recompute {}", name_of(recompute.kind)));
}

std::int32_t microbatches_of(const ModelRun& run) {
  if (run.microbatches > kMostMicrobatches)
    throw UsageError(fmt::format("{} microbatches, allowed: up to {}", run.microbatches, kMostMicrobatches));
  return run.microbatches;
}

PlanOptions plan_options_of(const Arguments& arguments, const ModelRun& run) {
  PlanOptions options;
  options.optimizer = parse_optimizer(arguments.choice("optimizer", {"sgd", "momentum", "adam"}));
  options.gradient_type =
      parse_data_type(arguments.choice("gradient-type", {"float32", "float16", "bfloat16", "float64"}));
  try {
    options.gradient_piece = parse_bytes(arguments.text("gradient-piece"));
  } catch (const InputError& error) {
    throw UsageError(fmt::format("--gradient-piece: {}", error.what()));
  }
  options.microbatches = microbatches_of(run);
  options.recompute = recompute_of(arguments);
  return options;
}

std::string baselines_json(const std::vector<Baseline>& baselines) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Baseline& b : baselines) {
    nlohmann::ordered_json row{{"name", b.name}};
    if (b.infeasible.empty()) {
      row["iteration_time_s"] = to_seconds(b.scored->evaluation.time).value;
    } else {
      row["infeasible"] = b.infeasible;
    }
    list.push_back(std::move(row));
  }
  return list.dump();
}

std::string baselines_table(const std::vector<Baseline>& baselines, std::int64_t batch) {
  Nanoseconds fastest = 0;
  for (const Baseline& b : baselines) {
    if (b.infeasible.empty() && (fastest == 0 || b.scored->evaluation.time < fastest))
      fastest = b.scored->evaluation.time;
  }
  Table table({{"baseline"}, {"iteration", Align::Right}, {"samples/s", Align::Right}, {""}});
  for (const Baseline& b : baselines) {
    if (!b.infeasible.empty()) {
      table.add({b.name, "-", "-", b.infeasible});
      continue;
    }
    const Seconds time = to_seconds(b.scored->evaluation.time);
    table.add({b.name, pretty(time), fmt::format("{:.4g}", static_cast<double>(batch) / time.value),
               b.scored->evaluation.time == fastest ? "fastest baseline" : ""});
  }
  return table.str(2);
}

void require_room(const OperatorGraph& graph, const Topology& topology, const PlanOptions& options) {
  Bytes needed, available;
  for (const Tensor& t : graph.tensors()) {
    if (t.kind != TensorKind::Weight) continue;
    const WeightMemory m =
        CostModel::weight_memory(t.elements(), t.type, options.gradient_type, options.optimizer);
    needed += m.weights + m.gradients + m.optimizer_state;
  }
  for (std::size_t d = 0; d < topology.num_devices(); ++d) available += topology.usable_memory(DeviceId(d));
  if (needed <= available) return;
  throw InputError(fmt::format(
      "model \"{}\" is too large for topology \"{}\": weights, gradients and {} state need {}, "
      "all {} devices together "
      "have {}{}; {} are missing",
      graph.name(), topology.name(), name_of(options.optimizer), pretty(needed), topology.num_devices(),
      pretty(available), topology.memory_margin().is_none() ? "" : " beside the margin",
      pretty(needed - available)));
}

}  // namespace pipesim
