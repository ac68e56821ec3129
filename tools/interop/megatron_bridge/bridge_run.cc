#include "tools/interop/megatron_bridge/bridge_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tools/interop/megatron/megatron_model.h"
#include "tools/interop/megatron/megatron_run.h"
#include "tools/interop/megatron_bridge/bridge_arguments.h"
#include "tools/interop/megatron_bridge/bridge_models.h"
#include "tools/interop/python/python_settings.h"
#include "tools/interop/settings/toml_settings.h"
#include "tools/interop/settings/yaml_settings.h"

namespace pipesim {
namespace {

// What the common beginnings of recipes set (src/megatron/bridge/recipes/common.py).
constexpr std::string_view kPretraining =
    "train.global_batch_size=32\ntrain.micro_batch_size=2\nddp.grad_reduce_in_fp32=true\n"
    "ddp.overlap_grad_reduce=true\nddp.overlap_param_gather=true\nddp.use_distributed_optimizer=true\n"
    "dataset.seq_length=4096\nmixed_precision='bf16_mixed'\n";
constexpr std::string_view kTuning =
    "train.global_batch_size=128\ntrain.micro_batch_size=1\nddp.grad_reduce_in_fp32=true\n"
    "ddp.use_distributed_optimizer=true\ndataset.seq_length=2048\nmixed_precision='bf16_mixed'\n";

// The model of Hugging Face that a configuration comes from:
// AutoBridge.from_hf_pretrained("…").get_model_config().
std::string hub_name_in(const PythonValue& model) {
  constexpr std::string_view kCall = "from_hf_pretrained(";
  const std::size_t at = model.origin.find(kCall);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + kCall.size();
  return model.origin.substr(begin, model.origin.find(')', begin) - begin);
}

struct BridgeFile {
  Settings settings;
  std::string hub;  // the model of Hugging Face; "": sizes are settings
  std::vector<std::string> notes;
};

void set_beginning(BridgeFile& file, std::string_view toml, const std::string& name) {
  const Settings beginning = toml_settings(toml, name);
  for (const Setting& setting : beginning.all()) file.settings.set(setting);
}

std::string chosen_recipe(const PythonModule& module, const std::string& asked) {
  std::vector<std::string> names;
  for (const std::string& name : module.functions()) {
    if (!name.starts_with('_')) names.push_back(name);
  }
  if (asked.empty() && names.size() == 1) return names.front();
  if (std::ranges::find(names, asked) != names.end()) return asked;
  if (names.empty()) throw InputError(module.source() + ": has no function that returns a configuration");
  throw InputError(fmt::format("{}: {} recipes, allowed: one of them, as {}:{}: {}", module.source(),
                               asked.empty() ? fmt::format("has {}", names.size())
                                             : fmt::format("found \"{}\" beside {}", asked, names.size()),
                               module.source(), names.front(), list_names(names)));
}

BridgeFile file_of_recipe(std::string_view text, const std::string& source, const std::string& function) {
  PythonModule module(text, source);
  const PythonReference config = module.call(chosen_recipe(module, function));
  BridgeFile file{.settings = Settings(source), .hub = "", .notes = module.notes()};
  if (config->kind != PythonValue::Kind::Object)
    throw InputError(source + ": returns no configuration of Megatron-Bridge");
  const std::string& made_by = config->text;
  if (made_by.ends_with("_peft_common"))
    throw InputError(
        fmt::format("{}:{}: {}: the training of adapters can't be expressed", source, config->line, made_by));
  if (made_by.ends_with("_pretrain_common")) {
    set_beginning(file, kPretraining, made_by);
  } else if (made_by.ends_with("_sft_common")) {
    set_beginning(file, kTuning, made_by);
  } else if (!made_by.ends_with("ConfigContainer")) {
    throw InputError(
        fmt::format("{}:{}: begins with {}, which is in another file, allowed: ConfigContainer, "
                    "_pretrain_common or _sft_common",
                    source, config->line, made_by));
  }
  const Settings own = python_settings(config, source);
  for (const Setting& setting : own.all()) file.settings.set(setting);
  if (const PythonReference model = config->field("model")) file.hub = hub_name_in(*model);
  return file;
}

std::vector<ShellWord> words_of_hub(const BridgeFile& file) {
  const std::string_view zoo = zoo_model_of_hub(file.hub);
  if (zoo.empty()) {
    const std::vector<std::string> known = hub_models();
    throw InputError(fmt::format("{}: the sizes of \"{}\" are not known{}, allowed: {}",
                                 file.settings.source(), file.hub, did_you_mean(file.hub, known),
                                 list_names(known, known.size())));
  }
  FrameworkPlan plan;
  plan.model = std::string(zoo);
  plan.sizes = decoder_sizes(plan.model);
  MegatronWriter writer;
  write_megatron_model(plan, writer);
  std::vector<ShellWord> words;
  for (const MegatronArgument& argument : std::move(writer).take()) {
    words.push_back({argument.flag, file.settings.source(), 0});
    for (const std::string& value : argument.values) words.push_back({value, file.settings.source(), 0});
  }
  return words;
}

}  // namespace

bool is_bridge_file(const std::string& file, std::string_view text) {
  if (file.ends_with(".py")) return text.find("megatron.bridge") != std::string_view::npos;
  if (!file.ends_with(".yaml") && !file.ends_with(".yml")) return false;
  if (text.find("_target_: megatron.bridge") != std::string_view::npos) return true;
  const auto section = [&](std::string_view name) {
    return text.starts_with(name) || text.find("\n" + std::string(name)) != std::string_view::npos;
  };
  return section("model:") && section("train:") &&
         (section("ddp:") || section("scheduler:") || section("dataset:") || section("checkpoint:"));
}

FrameworkRun bridge_run(std::string_view text, const std::string& source, const std::string& function,
                        std::int64_t devices) {
  BridgeFile file = source.ends_with(".py") ? file_of_recipe(text, source, function)
                                            : BridgeFile{yaml_settings(text, source), "", {}};
  if (file.hub.empty()) file.hub = file.settings.text("model.hf_model_id").value_or("");
  std::vector<ShellWord> words;
  if (!file.settings.given("model.num_layers")) {
    if (file.hub.empty())
      throw InputError(source +
                       ": names no model: model.num_layers is missing, allowed: the configuration that a run "
                       "saves, or a recipe in Python with AutoBridge.from_hf_pretrained(\"…\")");
    words = words_of_hub(file);
  }
  std::vector<std::string> left_out;
  const std::vector<ShellWord> own = bridge_arguments(file.settings, left_out);
  words.insert(words.end(), own.begin(), own.end());
  FrameworkRun run = megatron_run(MegatronFile::of_words(words, source), devices);
  run.left_out.insert(run.left_out.begin(), left_out.begin(), left_out.end());
  run.left_out.insert(run.left_out.begin(), file.notes.begin(), file.notes.end());
  return run;
}

}  // namespace pipesim
