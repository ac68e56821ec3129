#include "tools/interop/torchtitan/torchtitan_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "tools/interop/torchtitan/torchtitan_fields.h"
#include "tools/interop/torchtitan/torchtitan_flavors.h"
#include "tools/interop/torchtitan/torchtitan_model.h"
#include "tools/interop/torchtitan/torchtitan_schedule.h"

namespace pipesim {
namespace {

std::vector<std::vector<std::string>> modules_of(const FrameworkPlan& plan) {
  std::vector<std::vector<std::string>> parts(plan.layers.size());
  std::int64_t layer = 0;
  parts.front().emplace_back("tok_embeddings");
  for (std::size_t stage = 0; stage < parts.size(); ++stage) {
    for (std::int64_t i = 0; i < plan.layers[stage]; ++i)
      parts[stage].push_back(fmt::format("layers.{}", layer++));
  }
  parts.back().emplace_back("norm");
  parts.back().emplace_back(takes_toml(plan) ? "output" : "lm_head");
  return parts;
}

// Writes a list of lists, with its lines indented by `indent` spaces.
std::string modules_text(const FrameworkPlan& plan, std::size_t indent) {
  const std::string before(indent, ' ');
  std::string text = "[\n";
  for (const auto& part : modules_of(plan)) {
    text += before + "    [";
    for (std::size_t i = 0; i < part.size(); ++i)
      text += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", part[i]);
    text += "],\n";
  }
  return text + before + "]";
}

// The module and the function of the configuration that the plan's settings are put on.
std::pair<std::string, std::string> base_of_plan(const FrameworkPlan& plan) {
  const std::size_t colon = plan.base.find(':');
  if (!plan.base.empty()) return {plan.base.substr(0, colon), plan.base.substr(colon + 1)};
  const TorchtitanFlavor& model = *torchtitan_model(plan);
  return {fmt::format("torchtitan.models.{}.config_registry", model.module), std::string(model.function)};
}

constexpr const char* kPlacedInV =
    "# Stages lie in a V because of the schedule's name. Their steps are these.\n";

// The program reports in one line a module or field that the installed version does not have.
std::string torchtitan_opening(const FrameworkPlan& plan) {
  const auto [module, function] = base_of_plan(plan);
  const FrameworkVersion& version = torchtitan_version(plan);
  std::string own;
  if (plan.base.empty()) {
    own = "    from torchtitan.models.common import RMSNorm\n";
    if (const TorchtitanFlavor& model = *torchtitan_model(plan); !model.assets.empty())
      own += fmt::format("    from torchtitan.models.{} import model_registry\n", model.module);
  }
  return fmt::format(
      "# {0}\n# For {1} ({2}).\n\nfrom {7}pathlib import Path\n\nALLOWED = (\n    \"allowed: {1} ({2}); \"\n"
      "    \"pipesim export --to torchtitan:VERSION writes for others\"\n)\n\ntry:\n    from "
      "torchtitan.distributed.activation_checkpoint import FullAC\n{3}    from {4} import {5}\nexcept "
      "ImportError "
      "as error:\n    raise SystemExit(f\"{6}.py: found a torchtitan for which {{error}}, "
      "{{ALLOWED}}\")\n\n\n"
      "def put(config, path, value):\n    *owners, name = path.split(\".\")\n    for owner in owners:\n      "
      "  "
      "config = getattr(config, owner, None)\n    if not hasattr(config, name):\n        raise "
      "SystemExit(f\"{6}.py: found a torchtitan without {{path}}, {{ALLOWED}}\")\n    setattr(config, name, "
      "value)\n\n\n",
      plan.recipe.str(), version.title, version.source, own, module, function, kTorchtitanConfig,
      plan.base.empty() ? "dataclasses import replace\nfrom " : "");
}

std::string torchtitan_config(const FrameworkPlan& plan, const std::vector<TorchtitanField>& fields) {
  std::string text = torchtitan_opening(plan) + fmt::format("def {}():\n    config = {}()\n",
                                                            kTorchtitanConfig, base_of_plan(plan).second);
  if (plan.base.empty()) text += torchtitan_definition(plan);
  for (const TorchtitanField& field : fields) {
    const bool steps = field.path.ends_with("schedule_csv");
    if (plan.recipe.in_v() && steps) text += std::string("    ") + kPlacedInV;
    // The schedule stands beside this file, wherever that is.
    const std::string value = steps ? fmt::format("str(Path(__file__).with_name(\"{}\"))", field.value)
                              : field.quoted ? fmt::format("\"{}\"", field.value)
                                             : field.value;
    text += fmt::format("    put(config, \"{}\", {})\n", field.path, value);
  }
  if (plan.recipe.pipeline > 1)
    text += fmt::format("    put(config, \"parallelism.module_fqns_per_model_part\", {})\n",
                        modules_text(plan, 4));
  return text + "    return config\n";
}

// Sections of TOML, each with its fields.
std::string torchtitan_toml(const FrameworkPlan& plan, const std::vector<TorchtitanField>& fields) {
  const FrameworkVersion& version = torchtitan_version(plan);
  std::string text = fmt::format(
      "# {}\n# For {} ({}).\n\n[experimental]\ncustom_import = \"{}\"\n\n[model]\nname = \"{}\"\nflavor = "
      "\"plan\"\n",
      plan.recipe.str(), version.title, version.source, kTorchtitanConfig, kTorchtitanConfig);
  std::string section;
  for (const TorchtitanField& field : fields) {
    const std::size_t dot = field.path.find('.');
    if (field.path.substr(0, dot) != section) {
      if (section == "parallelism" && plan.recipe.pipeline > 1)
        text += "module_fqns_per_model_part = " + modules_text(plan, 0) + "\n";
      section = field.path.substr(0, dot);
      text += fmt::format("\n[{}]\n", section);
    }
    // The launch line says where the schedule is.
    if (field.path.ends_with("schedule_csv")) continue;
    std::string value = field.quoted ? fmt::format("\"{}\"", field.value) : field.value;
    if (value == "True" || value == "False") value.front() = value == "True" ? 't' : 'f';
    text += fmt::format("{} = {}\n", field.path.substr(dot + 1), value);
  }
  return text;
}

// Returns "--compile.no-enable", since options of truth values take no value.
std::string negated_option(const std::string& path) {
  const std::size_t name = path.rfind('.') + 1;
  std::string option = path.substr(0, name) + "no-" + path.substr(name);
  std::ranges::replace(option.begin() + static_cast<std::ptrdiff_t>(name), option.end(), '_', '-');
  return option;
}

// Returns "model loss" of ["model", "loss"].
std::string separate_words(std::string list) {
  std::erase_if(list, [](char c) { return c == '[' || c == ']' || c == '"' || c == ','; });
  return list;
}

std::string overrides_text(const std::vector<TorchtitanField>& fields) {
  std::string text;
  for (const TorchtitanField& field : fields) {
    if (field.path == "activation_checkpoint") {  // a choice of classes
      text += fmt::format("activation_checkpoint:{}\n", field.value == "None" ? "none" : "full");
    } else if (field.value == "True") {
      text += fmt::format("--{}\n", field.path);
    } else if (field.value == "False") {
      text += fmt::format("--{}\n", negated_option(field.path));
    } else if (field.value.starts_with('[')) {
      text += fmt::format("--{} {}\n", field.path, separate_words(field.value));
    } else {
      text += fmt::format("--{} {}\n", field.path, field.value);
    }
  }
  return text;
}

// Sets what torchtitan's own run_train.sh sets, under both names that PyTorch knows.
std::string allocator_text(const FrameworkPlan& plan) {
  return plan.expandable_segments ? "export PYTORCH_ALLOC_CONF=expandable_segments:True\n"
                                    "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"
                                  : "";
}

std::string torchtitan_launch(const FrameworkPlan& plan) {
  const FrameworkVersion& version = torchtitan_version(plan);
  return fmt::format(
      "#!/bin/sh\n# {}\n# For {} ({}). Start it in its folder, on each host. Data, learning rate and\n# "
      "checkpoints are those of the configuration that {}.py begins with; overrides go behind this script's "
      "name.\nhere=$(cd \"$(dirname \"$0\")\" && pwd)\nexport "
      "PYTHONPATH=\"$here${{PYTHONPATH:+:$PYTHONPATH}}\"\n{}{} \\\n  -m torchtitan.train --module {} "
      "--config "
      "{} \"$@\"\n",
      plan.recipe.str(), version.title, version.source, kTorchtitanConfig, allocator_text(plan),
      torchrun_text(plan.hosts), kTorchtitanConfig, kTorchtitanConfig);
}

// The script looks for job_config.py, which later versions do not have; nor do they read TOML files.
std::string toml_launch(const FrameworkPlan& plan) {
  const FrameworkVersion& version = torchtitan_version(plan);
  const bool steps = plan.recipe.pipeline > 1 && plan.recipe.schedule != kDualPipeV;
  return fmt::format(
      "#!/bin/sh\n# {0}\n# For {1} ({2}). Start it in its folder, on each host. Data, learning rate and "
      "checkpoints are yours:\n# overrides go behind this script's name.\nif [ ! -f "
      "torchtitan/config/job_config.py ]; then\n  echo \"$0: found no torchtitan/config/job_config.py in "
      "this "
      "folder, allowed: that of {1} ({2}); pipesim export --to torchtitan:VERSION writes for others\" >&2\n  "
      "exit "
      "1\nfi\nhere=$(cd \"$(dirname \"$0\")\" && pwd)\nexport "
      "PYTHONPATH=\"$here${{PYTHONPATH:+:$PYTHONPATH}}\"\n{6}{3} \\\n  -m torchtitan.train --job.config_file "
      "\"$here/{4}.toml\"{5} \"$@\"\n",
      plan.recipe.str(), version.title, version.source, torchrun_text(plan.hosts), kTorchtitanConfig,
      steps ? fmt::format(" \\\n  --parallelism.pipeline_parallel_schedule_csv \"$here/{}\"",
                          kTorchtitanSchedule)
            : "",
      allocator_text(plan));
}

}  // namespace

std::vector<ExportedFile> torchtitan_files(const FrameworkPlan& plan) {
  const std::vector<TorchtitanField> fields = torchtitan_fields(plan);
  std::vector<ExportedFile> files;
  if (takes_toml(plan)) {
    files.push_back({fmt::format("{}.toml", kTorchtitanConfig), torchtitan_toml(plan, fields)});
    files.push_back({fmt::format("{}.py", kTorchtitanConfig), torchtitan_module(plan)});
  } else {
    files.push_back({fmt::format("{}.py", kTorchtitanConfig), torchtitan_config(plan, fields)});
    files.push_back({"overrides.txt", overrides_text(fields)});
  }
  if (takes_torchtitan_steps(plan.recipe))
    files.push_back({kTorchtitanSchedule, torchtitan_schedule(torchtitan_schedule_of(plan))});
  files.push_back({"launch.sh", takes_toml(plan) ? toml_launch(plan) : torchtitan_launch(plan)});
  files.push_back({"hostfile", host_file(plan.hosts)});
  files.push_back({"ranks.csv", rank_table(plan.hosts, plan.recipe)});
  return files;
}

}  // namespace pipesim
