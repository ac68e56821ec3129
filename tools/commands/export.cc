#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "search/evaluator.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tools/cli/command.h"
#include "tools/commands/options/shared_options.h"
#include "tools/frameworks/framework_plan.h"
#include "tools/inputs/model_and_topology.h"
#include "tools/inputs/plan_origin.h"
#include "tools/inputs/recipe_run.h"

namespace pipesim {
namespace {

namespace fs = std::filesystem;

// The plan that is exported, opened.
struct ExportRun {
  const Framework& framework;
  std::string file;
  OperatorGraph graph;
  Topology topology;
  Plan plan;
  fs::path folder;
  bool force = false, json = false;
};

const Framework& framework_asked(const Arguments& a) {
  if (!a.has("to")) a.refuse("--to is missing: the framework that the plan is written for");
  std::vector<std::string> names;
  for (const Framework& framework : frameworks()) names.emplace_back(framework.name);
  return *std::ranges::find(frameworks(), a.choice("to", names), &Framework::name);
}

ExportRun export_run_of(const Arguments& a) {
  const Framework& framework = framework_asked(a);
  const std::string& file = required_text(a, "plan");
  const std::string& folder = required_text(a, "output");
  const PlanFile plan = PlanFile::load(file);
  OperatorGraph graph = open_model(plan.model());
  Topology topology = topology_of(a, a.has("topology") ? a.text("topology") : plan.topology());
  std::vector<OtherOrigin> others;
  Plan read = read_plan(plan, graph, topology, others);
  return {framework,       file,   std::move(graph), std::move(topology),
          std::move(read), folder, a.given("force"), a.given("json")};
}

// The order of positions follows from the recipe.
std::string without_zigzag(std::string model) {
  const std::size_t begin = model.find("zigzag=");
  if (begin == std::string::npos) return model;
  const std::size_t end = model.find(',', begin);
  if (end == std::string::npos) return model.erase(begin - 1);  // with what stands before it
  return model.erase(begin, end + 1 - begin);
}

// The iteration of the plan that the framework can express, where it differs.
Evaluation evaluated_export(const FrameworkPlan& plan, const Topology& topology, const PlanOptions& options) {
  Recipe recipe = plan.recipe;
  const BatchRequest asked{.batch = plan.samples, .microbatch = {}, .microbatches = {}};
  const ModelRun run = run_of_recipe(without_zigzag(plan.model), recipe.devices(), asked, recipe);
  const OperatorGraph graph = open_model(run.model);
  Plan made;
  made.options = options;
  made.options.pipeline.reset();
  made.options.optimizer = plan.optimizer;
  made.options.gradient_type = plan.gradient_type;
  made.options.microbatches = run.microbatches;
  apply_recipe(recipe, RecipeModel(graph), topology, made);
  const CostModel costs(topology);
  return Evaluator(graph, costs, made.options).score(made.strategy);
}

// "; the nearest that it can is tp2,dp8,mbs1: 13.2 s an iteration, 4.1 % more than 12.7 s".
std::string nearest_export(const ExportRun& run, const ReadPlan& read, const RecipeModel& model) {
  const auto beyond_recipes = [](const Refusal& refusal) { return !refusal.amend; };
  if (std::ranges::any_of(read.refusals, beyond_recipes)) return "";
  const auto nearest = nearest_expressible(run.framework, read.plan, read.refusals, model);
  if (!nearest) return "; no recipe near it is possible";
  const CostModel costs(run.topology);
  const Evaluation before = Evaluator(run.graph, costs, run.plan.options).score(run.plan.strategy);
  const Evaluation after = evaluated_export(*nearest, run.topology, run.plan.options);
  const double change = static_cast<double>(after.time) / static_cast<double>(before.time) - 1;
  std::string text = fmt::format(
      "; the nearest that it can is {}: {} an iteration, {:.1f} % {} than {}{}", nearest->recipe.str(),
      pretty(to_seconds(after.time)), std::abs(100 * change), change >= 0 ? "more" : "less",
      pretty(to_seconds(before.time)), after.feasible() ? "" : ", and it does not fit into memory");
  if (nearest->gradient_type != read.plan.gradient_type)
    text += fmt::format(", with --gradient-type {}", name_of(nearest->gradient_type));
  if (nearest->optimizer != read.plan.optimizer)
    text += fmt::format(", with --optimizer {}", name_of(nearest->optimizer));
  return text + fmt::format(
                    "; \"pipesim simulate --model {} --topology {} --batch {} --recipe {} -o FILE\" "
                    "writes it",
                    run.plan.model, run.plan.topology, nearest->samples, nearest->recipe.str());
}

[[noreturn]] void refuse_export(const ExportRun& run, const ReadPlan& read, const RecipeModel& model) {
  std::string reasons;
  for (const Refusal& refusal : read.refusals)
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", refusal.part, refusal.reason);
  throw InputError(fmt::format("{}: {} can't run this plan: {}{}", run.file, run.framework.title, reasons,
                               nearest_export(run, read, model)));
}

void require_new(const ExportRun& run, const std::vector<ExportedFile>& files) {
  if (fs::exists(run.folder) && !fs::is_directory(run.folder))
    throw InputError(
        fmt::format("{}: is no folder, allowed: a folder, or a name that is free", run.folder.string()));
  for (const ExportedFile& file : files) {
    const fs::path path = run.folder / file.name;
    if (!run.force && fs::exists(path))
      throw InputError(fmt::format("{}: is there already; --force replaces it", path.string()));
  }
}

void write_export(const ExportRun& run, const std::vector<ExportedFile>& files) {
  std::error_code failed;
  fs::create_directories(run.folder, failed);
  if (failed) throw InputError(fmt::format("{}: can't be made: {}", run.folder.string(), failed.message()));
  for (const ExportedFile& file : files) write_file(run.folder / file.name, file.content);
}

int run_export(const Arguments& arguments, Streams& streams) {
  const ExportRun run = export_run_of(arguments);
  const RecipeModel model(run.graph);
  ReadPlan read = read_framework_plan(run.plan, model, run.topology);
  for (Refusal& refusal : run.framework.refusals(read.plan)) read.refusals.push_back(std::move(refusal));
  if (!read.refusals.empty()) refuse_export(run, read, model);
  const std::vector<ExportedFile> files = run.framework.files(read.plan);
  require_new(run, files);
  write_export(run, files);
  for (const std::string& option : options_left_out(run.plan.model))
    streams.err << fmt::format("pipesim: {}: left out is {}, which belongs to the model's own code\n",
                               run.file, option);
  if (run.json) {
    nlohmann::ordered_json json{{"framework", run.framework.name},
                                {"recipe", read.plan.recipe.str()},
                                {"files", nlohmann::ordered_json::array()}};
    for (const ExportedFile& file : files) json["files"].push_back((run.folder / file.name).string());
    streams.out << json.dump(2) << "\n";
    return 0;
  }
  streams.out << fmt::format(
      "{} for {}, on {} of {}\n", read.plan.recipe.str(), run.framework.title,
      read.plan.hosts.names.size() == 1 ? "a host" : fmt::format("{} hosts", read.plan.hosts.names.size()),
      read.plan.hosts.devices_of_each == 1 ? "a device"
                                           : fmt::format("{} devices", read.plan.hosts.devices_of_each));
  for (const ExportedFile& file : files)
    streams.out << fmt::format("  {}\n", (run.folder / file.name).string());
  return 0;
}

}  // namespace

Command export_command() {
  Command c;
  c.name = "export";
  c.summary = "write a plan for Megatron-LM, torchtitan or DeepSpeed";
  c.description =
      "Writes what starts a plan's training run in a framework: its settings, a script that launches it, the "
      "hosts, and the place of each rank. The plan must be that of a recipe, and its model a decoder of the "
      "zoo or of a config.json.\n\nmegatron: arguments of pretrain_gpt.py, with the layout of pipeline "
      "stages. "
      "torchtitan: a configuration in Python, the same as overrides of its command line, and the schedule as "
      "CSV. deepspeed: its JSON.\n\nWhat the framework can't express is refused, with the reason, the "
      "nearest "
      "recipe that it can, and what that costs.";
  c.options = {{"plan", "FILE", "", "the plan, as search -o and simulate -o write it"},
               {.name = "to",
                .argument = "FRAMEWORK",
                .default_value = "",
                .help = "the framework that it is written for",
                .choices = {{"megatron", "Megatron-LM"}, {"torchtitan"}, {"deepspeed", "DeepSpeed"}}},
               {.name = "topology",
                .argument = "TOPOLOGY",
                .default_value = "",
                .help = "hosts and devices; default: those of the plan"},
               memory_margin_option()};
  for (Option& o :
       in_group(OptionGroup::Output, {{.name = "output",
                                     .argument = "FOLDER",
                                     .default_value = "",
                                     .help = "the folder that files are written to; made if it is not there",
                                     .letter = 'o'},
                                      {"force", "", "", "replace files that are there"},
                                      json_option()}))
    c.options.push_back(std::move(o));
  c.common = {"plan", "to", "output", "force"};
  c.examples = {
      {"pipesim simulate --model llama3-8b --topology dgx-h100:1 --batch 64 --recipe tp4,dp2,sp,zero1 -o "
       "llama.plan.json",
       "a plan to export"},
      {"pipesim export --plan llama.plan.json --to megatron -o llama.run", "the arguments of its run"},
      {"pipesim export --plan llama.plan.json --to megatron -o llama.run --force",
       "in place of earlier files"}};
  c.run = run_export;
  return c;
}

}  // namespace pipesim
