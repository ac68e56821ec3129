#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "search/additive/intra_costs.h"
#include "search/evaluator.h"
#include "search/intra/files/read_instance.h"
#include "sim/base/cores.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "sim/base/suggest.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/inputs/plan_origin.h"
#include "tools/analysis/inputs/recipe_run.h"
#include "tools/base/figures.h"
#include "tools/cli/base/command.h"
#include "tools/cli/options/framework_options.h"
#include "tools/cli/options/model_options.h"
#include "tools/cli/options/planner_options.h"
#include "tools/cli/options/shared_options.h"
#include "tools/interop/framework/framework.h"
#include "tools/interop/framework/open_run.h"
#include "tools/interop/frameworks.h"
#include "tools/interop/mlir/mlir.h"

namespace pipesim {
namespace {

namespace fs = std::filesystem;

// The plan that is exported, and where to.
struct OpenedPlan {
  std::string file;
  fs::path folder;
  OperatorGraph graph;
  Topology topology;
  Plan plan;
  bool force = false, json = false;
};

struct ExportRun : OpenedPlan {
  const Framework& framework;
  FrameworkVersion version;
  bool version_is_named;
  std::string base;    // MODULE:FUNCTION, or ""
  double seconds = 0;  // to look for another recipe; 0: none
};

constexpr const char* kInstance = "instance";
constexpr const char* kMlir = "mlir";

FrameworkName target_of(const Arguments& a) {
  if (!a.has("to")) a.refuse("--to is missing: the framework that the plan is written for");
  return framework_name_of(a, "to", {kMlir, kInstance});
}

std::string base_of(const Arguments& a, const Framework& framework) {
  if (!a.has("base")) return "";
  if (framework.name != "torchtitan") throw UsageError("export: --base goes with --to torchtitan");
  const std::string& base = a.text("base");
  const std::size_t colon = base.find(':');
  const auto is_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  };
  const bool plain = std::ranges::count_if(base, is_name) + 1 == static_cast<std::ptrdiff_t>(base.size());
  if (!plain || colon == std::string::npos || colon == 0 || colon + 1 == base.size())
    throw UsageError(fmt::format(
        "export: --base \"{}\", allowed: MODULE:FUNCTION, such as my_runs.llama:llama_13b", base));
  return base;
}

OpenedPlan opened_plan(const Arguments& a) {
  const std::string& file = required_text(a, "plan");
  const std::string& folder = required_text(a, "output");
  const PlanFile plan = PlanFile::load(file);
  OperatorGraph graph = open_model(plan.model());
  Topology topology = topology_of(a, a.has("topology") ? a.text("topology") : plan.topology());
  std::vector<OtherOrigin> others;
  Plan read = read_plan(plan, graph, topology, others);
  return {file,           folder, std::move(graph), std::move(topology), std::move(read), a.given("force"),
          a.given("json")};
}

ExportRun export_run_of(const Arguments& a) {
  const FrameworkName target = target_of(a);
  constexpr double kMostSeconds = 1e6;
  return {opened_plan(a),
          *target.framework,
          target.version,
          target.version_is_named,
          base_of(a, *target.framework),
          a.number("seconds", 0, kMostSeconds)};
}

// Recipes that the framework runs, ranked for the time of --seconds, each as "pipesim search --for" has it.
RecipeRanking ranked_recipes(const ExportRun& run, const FrameworkPlan& question) {
  const OpenRun open = run_of_framework(run.framework, run.version,
                                        {.model = plan_model_kept_by(run.framework, run.plan.model),
                                         .topology = run.topology,
                                         .runtime = {},
                                         .options = run.plan.options,
                                         .samples = question.samples,
                                         .threads = available_cores()},
                                        {});
  const Deadline until(run.seconds);
  const KeepTo keep(until);
  return rank_run(open, [](const RankingProgress&) { return true; });
}

// "megatron", or "megatron:0.15" where a version was asked for.
std::string target_text(const ExportRun& run) {
  return fmt::format("{}{}{}", run.framework.name, run.version_is_named ? ":" : "",
                     run.version_is_named ? run.version.name : "");
}

// "; the best that it runs is tp2,dp8,mbs1: 13.2 s an iteration, 4.1 % more than 12.7 s".
std::string best_export(const ExportRun& run, const FrameworkPlan& plan) {
  if (run.seconds == 0 || !run.framework.exports_model(plan)) return "";
  const RecipeRanking ranking = ranked_recipes(run, plan);
  if (ranking.best() == nullptr)
    return ranking.proven()
               ? "; none of its recipes fits into memory"
               : fmt::format("; no recipe that it runs was found in the {} s of --seconds", run.seconds);
  const CostModel costs(run.topology, nullptr, run.plan.runtime);
  const Evaluation before = Evaluator(run.graph, costs, run.plan.options).evaluate(run.plan.strategy);
  const RatedRecipe& best = *ranking.best();
  return fmt::format(
      "; the best that it runs{} is {}: {} an iteration, {} than {}; \"pipesim simulate --model {} "
      "--topology {} --batch {} --for {} --recipe {} -o FILE\" writes it",
      ranking.proven() ? "" : fmt::format(", of those that {} s were enough for,", run.seconds),
      best.recipe.str(), pretty(to_seconds(best.evaluation.time)),
      change_text(before.time, best.evaluation.time), pretty(to_seconds(before.time)),
      plan_model_kept_by(run.framework, run.plan.model), run.plan.topology, plan.samples, target_text(run),
      best.recipe.str());
}

[[noreturn]] void refuse_export(const ExportRun& run, const ReadPlan& read, const Refusals& refusals) {
  throw InputError(fmt::format("{}: {} can't run this plan: {}{}", run.file, run.framework.title,
                               text_of(read.beyond_recipes, refusals), best_export(run, read.plan)));
}

void require_new(const fs::path& folder, bool force, const std::vector<ExportedFile>& files) {
  if (fs::exists(folder) && !fs::is_directory(folder))
    throw InputError(
        fmt::format("{}: is no folder, allowed: a folder, or a name that is free", folder.string()));
  for (const ExportedFile& file : files) {
    const fs::path path = folder / file.name;
    if (!force && fs::exists(path))
      throw InputError(fmt::format("{}: is there already; --force replaces it", path.string()));
  }
}

void write_export(const fs::path& folder, const std::vector<ExportedFile>& files) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw InputError(fmt::format("{}: can't be made: {}", folder.string(), failed.message()));
  for (const ExportedFile& file : files) write_file(folder / file.name, file.content);
}

// Says where a plan hands out tokens to experts otherwise than frameworks, which do it on the tokens' device.
void note_dispatch(const ExportRun& run, const FrameworkPlan& plan, std::vector<std::string>& notes) {
  const Recipe& r = plan.recipe;
  const std::int64_t groups = token_groups(run.plan.model),
                     parts = r.context * (r.sequence_parallel ? r.tensor : 1);
  if (plan.sizes.experts && groups != parts)
    notes.push_back(
        fmt::format("token_groups={}: {} hands out the tokens of each device by themselves, as "
                    "token_groups={} does",
                    groups, run.framework.title, parts));
}

// What a user should know of the files: the version, what they leave out, and what pipesim took otherwise.
std::vector<std::string> notes_of(const ExportRun& run, const FrameworkPlan& plan) {
  std::vector<std::string> notes;
  if (!run.version_is_named)
    notes.push_back(fmt::format("written for {} ({}); --to {}:VERSION names another of {}", run.version.title,
                                run.version.source, run.framework.name, version_names(run.framework)));
  note_dispatch(run, plan, notes);
  if (run.framework.notes != nullptr) {
    for (std::string& note : run.framework.notes(plan)) notes.push_back(std::move(note));
  }
  for (const std::string& option : options_left_out(run.plan.model))
    notes.push_back(fmt::format("left out is {}, which belongs to the model's own code", option));
  return notes;
}

// How the plan's model may be split on its topology, for solvers of the intra-operator problem.
int run_instance_export(const Arguments& a, Streams& streams) {
  if (a.has("base")) throw UsageError("export: --base goes with --to torchtitan");
  const auto [file, folder, graph, topology, plan, force, json] = opened_plan(a);
  if (plan.options.pipeline)
    throw InputError(
        fmt::format("{}: the plan has stages, allowed with --to instance: a plan without", file));
  const CostModel costs(topology, nullptr, plan.runtime);
  require_new(folder, force, {{"instance.json", ""}});
  IntraCosts intra(graph, costs, plan.options, mesh_of(a));
  intra.plan_all();
  const IntraInstance instance = intra.instance(intra.usable());
  const InstanceNames names{intra.node_names(instance), intra.strategy_names(instance)};
  std::size_t strategies = 0;
  for (const IntraInstance::Node& node : instance.nodes) strategies += node.cost.size();
  write_export(folder,
               {{"instance.json", instance_text(instance, graph.name() + " on " + topology.name(), &names)}});
  const std::string path = (folder / "instance.json").string();
  if (json) {
    give_document(streams, {{"nodes", instance.nodes.size()},
                            {"edges", instance.edges.size()},
                            {"strategies", strategies},
                            {"files", {path}}});
    return 0;
  }
  streams.out << fmt::format("{} nodes with {} strategies, {} edges\n  {}\n", instance.nodes.size(),
                             strategies, instance.edges.size(), path);
  return 0;
}

// How each tensor is divided, for compilers.
int run_mlir_export(const Arguments& a, Streams& streams) {
  if (a.has("base")) throw UsageError("export: --base goes with --to torchtitan");
  if (a.has("mesh")) throw UsageError("export: --mesh goes with --to instance");
  const auto [file, folder, graph, topology, plan, force, json] = opened_plan(a);
  const std::vector<ExportedFile> files{{"plan.mlir", mlir_text(graph, plan, topology)}};
  require_new(folder, force, files);
  write_export(folder, files);
  const std::string path = (folder / files[0].name).string();
  if (json) {
    give_document(streams, {{"operators", graph.operators().size()}, {"files", {path}}});
    return 0;
  }
  streams.out << fmt::format("{} on {}\n  {}\n", graph.name(), topology.name(), path);
  return 0;
}

int run_export(const Arguments& arguments, Streams& streams) {
  if (target_of(arguments).name == kInstance) return run_instance_export(arguments, streams);
  if (target_of(arguments).name == kMlir) return run_mlir_export(arguments, streams);
  if (arguments.has("mesh")) throw UsageError("export: --mesh goes with --to instance");
  const ExportRun run = export_run_of(arguments);
  const RecipeModel model(run.graph);
  ReadPlan read = read_framework_plan(run.plan, model, run.topology);
  read.plan.base = run.base;
  read.plan.version = run.version;
  const Refusals refusals = run.framework.refusals(read.plan);
  if (!refusals.empty() || !read.beyond_recipes.empty()) refuse_export(run, read, refusals);
  const std::vector<ExportedFile> files = run.framework.files(read.plan);
  require_new(run.folder, run.force, files);
  write_export(run.folder, files);
  const std::vector<std::string> notes = notes_of(run, read.plan);
  for (const std::string& note : notes) streams.err << fmt::format("pipesim: {}: {}\n", run.file, note);
  if (run.json) {
    nlohmann::ordered_json json{{"framework", run.framework.name},
                                {"version", run.version.name},
                                {"recipe", read.plan.recipe.str()},
                                {"notes", notes},
                                {"files", nlohmann::ordered_json::array()}};
    for (const ExportedFile& file : files) json["files"].push_back((run.folder / file.name).string());
    give_document(streams, json);
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

namespace {

std::string versions_text() {
  std::string text = "Left out, the version is the newest known. Versions are";
  for (const Framework& framework : frameworks())
    text += fmt::format("{} of {} {}", &framework == &frameworks().front() ? "" : ";", framework.title,
                        version_names(framework));
  return text +
         ". Settings differ from version to version, so that files say theirs, and refuse to start with "
         "others.";
}

}  // namespace

Command export_command() {
  Command c;
  c.name = "export";
  c.summary = "write a plan for Megatron-LM, torchtitan, DeepSpeed, compilers";
  c.description =
      "Writes what starts a plan's training run in a framework: its settings, a script that launches it, the "
      "hosts, and the place of each rank. The plan must be that of a recipe, and its model a decoder of the "
      "zoo or of a config.json.\n\nmegatron: arguments of pretrain_gpt.py, with the layout of pipeline "
      "stages. "
      "torchtitan: a configuration in Python, the same as overrides of its command line, and the schedule as "
      "CSV; for 0.2 a TOML file. deepspeed: its JSON. mlir: no run, but how each tensor of any plan is "
      "divided, with meshes and "
      "shardings "
      "as Shardy and GSPMD write them. instance: no run, but all splits of the model's operators on the "
      "topology, "
      "with "
      "costs and memory, for any solver of the intra-operator problem; \"pipesim solve\" reads it. The plan "
      "says "
      "model, topology and what an iteration is, and has no stages.\n\nWhat the framework can't express is "
      "refused, with the reason, the best recipe that it runs, and what that costs.";
  c.options = {
      {"plan", "FILE", "", "the plan, as search -o and simulate -o write it"},
      {.name = "to",
       .argument = "FRAMEWORK",
       .default_value = "",
       .help = "the framework that it is written for, or FRAMEWORK:VERSION",
       .details = versions_text(),
       .choices = {{"megatron", "Megatron-LM"},
                   {"torchtitan"},
                   {"deepspeed", "DeepSpeed"},
                   {"mlir", "meshes and shardings, for compilers"},
                   {"instance", "splits and their costs, for other solvers"}}},
      {.name = "topology",
       .argument = "TOPOLOGY",
       .default_value = "",
       .help = "hosts and devices; default: those of the plan"},
      {.name = "base",
       .argument = "MODULE:FUNCTION",
       .default_value = "",
       .help = "torchtitan: your configuration of the model",
       .details = "A function in Python that returns it. The plan's settings are put on it. Left out, it is "
                  "torchtitan's own, of models that it has one for."},
      {.name = "seconds",
       .argument = "S",
       .default_value = "10",
       .help = "time to look for the best plan, where this one is refused; 0: none"},
      mesh_option("instance: only splits over the axes of this mesh of all devices"),
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
      {"pipesim export --plan llama.plan.json --to megatron -o llama.run", "arguments of Megatron-LM"},
      {"pipesim export --plan llama.plan.json --to megatron -o llama.run --force",
       "in place of earlier files"}};
  c.run = run_export;
  return c;
}

}  // namespace pipesim
