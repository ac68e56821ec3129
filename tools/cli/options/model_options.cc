#include "tools/cli/options/model_options.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <utility>

#include "sim/base/errors.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/cli/options/framework_options.h"
#include "tools/cli/options/shared_options.h"
#include "tools/interop/framework/open_run.h"

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

// --batch would be overruled, or overrule.
void require_one_batch(const Arguments& a, const std::string& model) {
  const char* other = a.has("batch") ? "batch" : a.has("microbatch") ? "microbatch" : nullptr;
  if (!other || a.texts("set").empty()) return;
  const std::string key = batch_key(model);
  for (const std::string& setting : a.texts("set")) {
    if (("," + setting).find("," + key + "=") != std::string::npos && !key.empty())
      throw UsageError(fmt::format("--set {} and --{} both tell the model's samples; leave one of them out",
                                   setting, other));
  }
}

ModelAsRun model_as_run(const Arguments& a) {
  const std::string model = model_of_config(with_settings(required_text(a, "model"), a.texts("set")));
  const Framework* framework = framework_of(a);
  if (framework == nullptr) return {model, ""};
  if (!a.has("topology")) return model_run_by(*framework, model, {});
  return model_run_by(*framework, model, topology_of(a).parts().kinds);
}

}  // namespace

std::vector<Option> model_and_topology_options() {
  return {{.name = "model",
           .argument = "MODEL",
           .default_value = "",
           .help = kModelHelp,
           .details = kModelDetails},
          set_option(),
          topology_option()};
}

Option topology_option() {
  return {.name = "topology",
          .argument = "TOPOLOGY",
          .default_value = "",
          .help = kTopologyHelp,
          .details = kTopologyDetails};
}

Option set_option() {
  return {
      .name = "set",
      .argument = "KEY=VALUE",
      .default_value = "",
      .help = "sets a size of the model; may be repeated",
      .repeated = true,
      .details =
          "--set layers=12 means the same as NAME:layers=12. --set b=32 sets a size that FILE.json names."};
}

std::string model_text_of(const Arguments& a) { return model_as_run(a).text; }

std::string model_note_of(const Arguments& a) { return a.has("model") ? model_as_run(a).note : ""; }

Option memory_margin_option() {
  return {.name = "memory-margin",
          .argument = "MARGIN",
          .default_value = "",
          .help = "memory to leave free on every device",
          .details =
              "A share (10%) or a size (2GB). It is for memory that no plan counts: driver, communication "
              "libraries, fragmentation."};
}

Option microbatches_option(const std::string& microbatches) {
  return {
      .name = "microbatches",
      .argument = "N",
      .default_value = microbatches,
      .help = "microbatches in an iteration",
      .details = "Each has the model's batch. They run one after the other; then the weights are updated."};
}

ModelRun recipe_run_of(const Arguments& a, const Topology& topology, const Runtime& runtime, Recipe& recipe) {
  BatchRequest asked;
  const std::string model = model_text_of(a);
  require_one_batch(a, model);
  if (a.has("batch")) asked.batch = a.integer("batch", 1, kMostBatch);
  if (a.has("microbatch")) asked.microbatch = a.integer("microbatch", 1, kMostBatch);
  if (a.given("microbatches")) asked.microbatches = a.integer("microbatches", 1, kMostMicrobatches);
  const std::string profiled =
      a.has("profile-batch") ? with_profile_batch(model, a.integer("profile-batch", 1, kMostBatch)) : model;
  ModelRun run = run_of_recipe(profiled, static_cast<std::int64_t>(topology.num_devices()), asked, recipe);
  if (dispatches_locally(framework_of(a), run.model, runtime))
    run.model = with_token_groups(run.model, recipe.shape(true).sequence.token_groups);
  return run;
}

Option calibration_option() {
  return {.name = "calibration",
          .argument = "FILE",
          .default_value = "",
          .help = "use measured durations, or constants fitted to runs",
          .details =
              "A file from the command calibrate. The report lists durations that had to be guessed. "
              "FILE,FILE: durations, and constants from calibrate --runs."};
}

Option runtime_option() {
  Option option{.name = "runtime",
                .argument = "NAME",
                .default_value = "",
                .help = "what runs the plan, with what its host costs",
                .details =
                    "Left out: for recipes on A100 and later GPUs that of --for, or megatron; else pipesim. "
                    "NAME:KEY=VALUE,… changes figures. KEY: " +
                    runtime_keys_text() + "."};
  for (const RuntimePreset& preset : runtime_presets())
    option.choices.push_back({preset.runtime.name, preset.description});
  return option;
}

Runtime runtime_of(const Arguments& arguments) {
  return arguments.has("runtime") ? parse_runtime(arguments.text("runtime")) : Runtime();
}

Runtime runtime_of_recipes(const Arguments& arguments, const Topology& topology) {
  if (arguments.has("runtime")) return runtime_of(arguments);
  const Framework* framework = framework_of(arguments);
  return framework == nullptr ? runtime_for_recipes(topology)
                              : runtime_for_recipes(topology, framework->runtime);
}

double tokens_of(const Arguments& a) {
  const std::string& text = a.text("tokens");
  constexpr std::array<std::pair<char, double>, 4> kUnits{{{'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'T', 1e12}}};
  std::string number = text;
  double unit = 1;
  for (const auto& [letter, times] : kUnits) {
    if (number.empty() || std::toupper(static_cast<unsigned char>(number.back())) != letter) continue;
    number.pop_back();
    unit = times;
    break;
  }
  double value = 0;
  const char* const end = number.data() + number.size();
  const auto [stopped, error] = std::from_chars(number.data(), end, value);
  if (error != std::errc() || stopped != end || !(value > 0) || value * unit > 1e18)
    throw UsageError(
        fmt::format("--tokens \"{}\", allowed: a number above 0, with K, M, B or T, such as 15T", text));
  return value * unit;
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

std::vector<Option> batch_options() {
  return {{"batch", "N", "", "samples in an iteration, in all microbatches together"},
          {.name = "microbatch",
           .argument = "N",
           .default_value = "",
           .help = "samples in a microbatch, instead of --microbatches",
           .details = "Over all devices together; with --algorithm dapple, on each copy of the pipeline."},
          {"profile-batch", "N", "", "samples per batch when a profile (FILE.txt) was measured"}};
}

ModelRun model_run_of(const Arguments& a) {
  ModelRun run{model_text_of(a), 1};
  require_one_batch(a, run.model);
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

std::string profile_note_of(const Arguments& a) {
  return a.has("profile-batch") || !a.has("model") ? "" : profile_note(model_text_of(a));
}

std::int32_t microbatches_of(const ModelRun& run) {
  if (run.microbatches > kMostMicrobatches)
    throw UsageError(fmt::format("{} microbatches, allowed: up to {}", run.microbatches, kMostMicrobatches));
  return run.microbatches;
}

}  // namespace pipesim
