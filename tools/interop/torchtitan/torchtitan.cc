#include "tools/interop/torchtitan/torchtitan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "taskgraph/plan/pipeline.h"
#include "tools/interop/torchtitan/torchtitan_model.h"

// The fields are those of torchtitan/config/configs.py, and of config/job_config.py in 0.2, of which
// tests/tools/interop/documented/torchtitan.txt lists names and values. How they place stages and take
// steps is in torchtitan/distributed/pipeline_parallel.py, and in PyTorch's
// torch/distributed/pipelining/schedules.py.

namespace pipesim {
namespace {

constexpr std::string_view kTorchtitanTitle = "torchtitan";
constexpr const char* kTorchtitanSchedule = "schedule.csv";

// Schedules in a V.
constexpr const char* kZeroBubbleV = "zb-v";
constexpr const char* kDualPipeV = "dualpipe-v";

void refuse_torchtitan_model(const FrameworkPlan& plan, RuleCheck& check) {
  if (plan.sizes.type == DataType::Float16)
    check.refuse([&] {
      return Refusal{"dtype=float16", "training.mixed_precision_param is bfloat16 or float32", {}};
    });
  if (plan.gradient_type != DataType::Float32)
    check.refuse([&] {
      return Refusal{fmt::format("--gradient-type {}", name_of(plan.gradient_type)),
                     "training.mixed_precision_reduce is float32",
                     [](FrameworkPlan& p) { p.gradient_type = DataType::Float32; }};
    });
  if (plan.optimizer != Optimizer::Adam)
    check.refuse([&] {
      return Refusal{fmt::format("--optimizer {}", name_of(plan.optimizer)),
                     "its optimizers are Adam and AdamW",
                     [](FrameworkPlan& p) { p.optimizer = Optimizer::Adam; }};
    });
}

bool splits_backward(const PipelineSchedule& schedule) {
  return std::ranges::any_of(schedule, [](const std::vector<PipelineStep>& steps) {
    return std::ranges::any_of(steps,
                               [](const PipelineStep& step) { return step.kind == StepKind::BackwardInput; });
  });
}

PipelineSchedule schedule_of_plan(const FrameworkPlan& plan) {
  const Recipe& r = plan.recipe;
  PipelineShape shape;
  shape.devices = static_cast<std::int32_t>(r.pipeline);
  shape.microbatches = static_cast<std::int32_t>(plan.microbatches());
  shape.chunks = static_cast<std::int32_t>(r.chunks);
  return make_schedule(r.schedule_name(), shape);
}

// PyTorch refuses compiled modules where the gradients of inputs and of weights are steps of their own.
bool compiles(const FrameworkPlan& plan) {
  return plan.recipe.pipeline == 1 || !splits_backward(schedule_of_plan(plan));
}

void refuse_torchtitan_schedule(const FrameworkPlan& plan, RuleCheck& check) {
  const Recipe& r = plan.recipe;
  if (r.pipeline == 1) return;
  const ScheduleKind& kind = schedule_kind(r.schedule_name());
  const auto change = [](FrameworkPlan& changed) { changed.recipe.schedule.clear(); };
  if (kind.weights != WeightChange::AfterIteration)
    check.refuse([&] {
      return Refusal{"schedule=" + r.schedule_name(), "weights change once an iteration", change};
    });
  if (kind.both_ways)
    check.refuse([&] {
      return Refusal{"schedule=" + r.schedule_name(),
                     "a stage is on one group of devices for all microbatches", change};
    });
  if (r.tensor_overlap.value_or(false) && !compiles(plan))
    check.refuse([&] {
      return Refusal{"tp-overlap with schedule=" + r.schedule_name(),
                     "async tensor parallelism is for compiled modules, whose backward is one step",
                     amend_recipe([](Recipe& recipe) { recipe.tensor_overlap.reset(); })};
    });
  const StageMessages usual = usual_messages(MessageOverlap::UnlessPlain, r.schedule_name());
  if (r.messages.value_or(usual) != usual)
    check.refuse([&] {
      return Refusal{fmt::format("messages={} with schedule={}", name_of(*r.messages), r.schedule_name()),
                     usual == StageMessages::Beside ? "its steps do not wait for what they send"
                                                    : "steps of 1f1b wait for what they send and receive",
                     amend_recipe([](Recipe& recipe) { recipe.messages.reset(); })};
    });
  if (kind.name != kDualPipeV) return;
  // The stages stay where they are.
  const auto one_by_one = [](FrameworkPlan& changed) { changed.recipe.schedule = kZeroBubbleV; };
  if (r.expert == 1)
    check.refuse([&] {
      return Refusal{fmt::format("schedule={} without ep", kDualPipeV),
                     "its DualPipeV runs forward beside backward only where there is expert parallelism",
                     one_by_one};
    });
  if (r.expert > 1 && r.recompute != Recompute::Kind::None)
    check.refuse([&] {
      return Refusal{fmt::format("schedule={} with recompute={}", kDualPipeV, name_of(r.recompute)),
                     "its DualPipeV runs forward beside backward only where nothing is computed again",
                     one_by_one};
    });
}

void refuse_torchtitan_order(const FrameworkPlan& plan, RuleCheck& check) {
  if (plan.recipe.order == kUsualOrder) return;
  Recipe usual = plan.recipe;
  usual.order = kUsualOrder;
  if (order_text(plan.recipe) == order_text(usual)) return;
  check.refuse([&] {
    return Refusal{"order=" + order_text(plan.recipe), "its mesh has the order tp-cp-ep-dp-pp",
                   amend_recipe([](Recipe& recipe) { recipe.order = kUsualOrder; })};
  });
}

// Shards weights as PyTorch's FSDP2 does, over all copies or over neighbouring ones.
void shard_weights(Recipe& recipe) {
  const std::int32_t group = recipe.state_sharding.group;
  recipe.state_sharding = {.kind = StateSharding::Kind::Weights, .group = group, .wide_weights = true};
}

void refuse_torchtitan_sharding(const FrameworkPlan& plan, RuleCheck& check) {
  const Recipe& r = plan.recipe;
  const StateSharding& s = r.state_sharding;
  using Kind = StateSharding::Kind;
  const bool narrow = plan.sizes.type != DataType::Float32;
  if (plan.copies() == 1) {
    if (narrow && (r.tensor > 1 || r.pipeline > 1))
      check.refuse([&] {
        return Refusal{"dp1",
                       "16-bit compute with tp or pp comes with FSDP, which needs two copies of a weight",
                       amend_recipe([](Recipe& recipe) {
                         std::int64_t& halved = recipe.pipeline > 1 ? recipe.pipeline : recipe.tensor;
                         recipe.data = halved % 2 == 0 ? 2 : halved;
                         halved /= recipe.data;
                         recipe.sequence_parallel = recipe.sequence_parallel && recipe.tensor > 1;
                         if (recipe.pipeline == 1) recipe.chunks = 1;
                         if (recipe.pipeline == 1) recipe.schedule.clear();
                         shard_weights(recipe);
                       })};
      });
    return;
  }
  if (s.kind == Kind::Optimizer || s.kind == Kind::Gradients)
    check.refuse([&] {
      return Refusal{fmt::format("zero{}", static_cast<int>(s.kind)),
                     "its data parallelism divides weights as FSDP2 does, or nothing",
                     amend_recipe(shard_weights)};
    });
  if (s.kind == Kind::Weights && narrow && !s.wide_weights)
    check.refuse([&] {
      return Refusal{"zero3 without weights=float32",
                     "FSDP2 keeps float32 weights and gathers them in training.mixed_precision_param",
                     amend_recipe(shard_weights)};
    });
  if (s.wide_gathers && narrow)
    check.refuse([&] {
      return Refusal{"gather=float32", "weights are gathered in the type that they are used in",
                     amend_recipe([](Recipe& recipe) { recipe.state_sharding.wide_gathers = false; })};
    });
  if (s.prefetch != 1)
    check.refuse([&] {
      return Refusal{fmt::format("prefetch={}", s.prefetch), "no field counts layers to gather ahead",
                     amend_recipe([](Recipe& recipe) { recipe.state_sharding.prefetch = 1; })};
    });
  // A shard group of one copy divides nothing, which is no FSDP.
  if ((!s.any() || s.group == 1) && plan.copies() > 1 && (r.tensor > 1 || r.pipeline > 1 || r.context > 1))
    check.refuse([&] {
      return Refusal{fmt::format("dp{} without FSDP", r.data), "its DDP goes with no other parallelism",
                     amend_recipe([](Recipe& recipe) {
                       recipe.state_sharding.group = 0;
                       shard_weights(recipe);
                     })};
    });
  if (s.group > 0 && (s.group % r.context != 0 || plan.copies() % s.group != 0))
    check.refuse([&] {
      return Refusal{fmt::format("shard={}", s.group),
                     fmt::format("data_parallel_shard_degree x cp{} copies divide weights", r.context),
                     amend_recipe([](Recipe& recipe) { recipe.state_sharding.group = 0; })};
    });
}

void refuse_torchtitan_splits(const FrameworkPlan& plan, RuleCheck& check) {
  const Recipe& r = plan.recipe;
  const std::int64_t parts = r.tensor * (r.context > 1 ? 2 * r.context : 1);
  if (plan.sizes.sequence % parts != 0)
    check.refuse([&] {
      return Refusal{fmt::format("tp{} with cp{}", r.tensor, r.context),
                     fmt::format("training.seq_len must be a multiple of tp x 2 cp, {}, and is {}", parts,
                                 plan.sizes.sequence),
                     amend_recipe([](Recipe& recipe) {
                       recipe.data *= recipe.context;
                       recipe.context = recipe.ulysses = 1;
                       recipe.ring = false;
                     })};
    });
  if (plan.sizes.tied && r.pipeline > 1)
    check.refuse([&] {
      return Refusal{fmt::format("pp{} with a tied projection", r.pipeline),
                     "its pipelines share no weight between stages", amend_recipe(leave_out_pipeline)};
    });
  if (!plan.sizes.latent && plan.sizes.kv_heads % r.tensor != 0)
    check.refuse([&] {
      return Refusal{fmt::format("tp{} with {} heads of keys", r.tensor, plan.sizes.kv_heads),
                     "tp divides heads of keys and values",
                     amend_recipe([heads = plan.sizes.kv_heads](Recipe& recipe) {
                       const std::int64_t kept = std::gcd(recipe.tensor, heads);
                       recipe.data *= recipe.tensor / kept;
                       recipe.tensor = kept;
                       recipe.sequence_parallel = recipe.sequence_parallel && kept > 1;
                     })};
    });
  if (r.ulysses > 1)
    check.refuse([&] {
      return Refusal{fmt::format("ulysses={}", r.ulysses), "context parallelism divides sequences, not heads",
                     amend_recipe([](Recipe& recipe) { recipe.ulysses = 1; })};
    });
  if (r.expert > 1 && r.expert_tensor_degree() != 1)
    check.refuse([&] {
      return Refusal{fmt::format("etp{}", r.expert_tensor_degree()),
                     "with expert parallelism an expert is whole on its device",
                     amend_recipe([](Recipe& recipe) { recipe.expert_tensor = 1; })};
    });
  if (r.recomputed_layers)
    check.refuse([&] {
      return Refusal{fmt::format("recompute=full:{}", *r.recomputed_layers),
                     "activation_checkpoint.mode full computes all layers again",
                     amend_recipe([](Recipe& recipe) { recipe.recomputed_layers.reset(); })};
    });
  if (r.expert == 1 && plan.sizes.experts && r.expert_tensor_degree() != r.tensor)
    check.refuse([&] {
      return Refusal{fmt::format("etp{} with tp{}", r.expert_tensor_degree(), r.tensor),
                     "without expert parallelism, tp divides experts as all else",
                     amend_recipe([](Recipe& recipe) { recipe.expert_tensor = 0; })};
    });
  if (r.recompute == Recompute::Kind::Selective || r.recompute == Recompute::Kind::Stage)
    check.refuse([&] {
      return Refusal{fmt::format("recompute={}", name_of(r.recompute)),
                     "activation_checkpoint.mode is none or full; its selective mode computes products "
                     "again, not attention",
                     amend_recipe([](Recipe& recipe) { recipe.recompute = Recompute::Kind::Full; })};
    });
  if (r.gathered && (r.sequence_parallel || r.context > 1))
    check.refuse([&] {
      return Refusal{fmt::format("gathered={}", name_of(*r.gathered)), "no field says which inputs are kept",
                     amend_recipe([](Recipe& recipe) { recipe.gathered.reset(); })};
    });
}

char torchtitan_letter(StepKind kind) {
  switch (kind) {
    case StepKind::Forward:
      return 'F';
    case StepKind::Backward:
      return 'B';
    case StepKind::BackwardInput:
      return 'I';
    case StepKind::BackwardWeight:
      break;
  }
  return 'W';
}

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

std::string torchtitan_launch(const FrameworkPlan& plan) {
  const FrameworkVersion& version = torchtitan_version(plan);
  return fmt::format(
      "#!/bin/sh\n# {}\n# For {} ({}). Start it in its folder, on each host. Data, learning rate and\n# "
      "checkpoints are those of the configuration that {}.py begins with; overrides go behind this script's "
      "name.\nhere=$(cd \"$(dirname \"$0\")\" && pwd)\nexport "
      "PYTHONPATH=\"$here${{PYTHONPATH:+:$PYTHONPATH}}\"\n{} \\\n  -m torchtitan.train --module {} --config "
      "{} \"$@\"\n",
      plan.recipe.str(), version.title, version.source, kTorchtitanConfig, torchrun_text(plan.hosts),
      kTorchtitanConfig, kTorchtitanConfig);
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
      "PYTHONPATH=\"$here${{PYTHONPATH:+:$PYTHONPATH}}\"\n{3} \\\n  -m torchtitan.train --job.config_file "
      "\"$here/{4}.toml\"{5} \"$@\"\n",
      plan.recipe.str(), version.title, version.source, torchrun_text(plan.hosts), kTorchtitanConfig,
      steps ? fmt::format(" \\\n  --parallelism.pipeline_parallel_schedule_csv \"$here/{}\"",
                          kTorchtitanSchedule)
            : "");
}

// Returns the schedule that places the stages. The steps are those of the CSV, except for DualPipeV: its own
// steps are those of dualpipe-v, and steps of a CSV would run one after the other.
const char* torchtitan_schedule_name(const Recipe& recipe) {
  if (!recipe.in_v()) return "PipelineScheduleMulti";
  return recipe.schedule == kDualPipeV ? "DualPipeV" : "ZBVZeroBubble";
}
bool takes_steps(const Recipe& recipe) { return recipe.pipeline > 1 && recipe.schedule != kDualPipeV; }

void check_torchtitan_recipe(const FrameworkPlan& plan, RuleCheck& check) {
  check.check(plan, {refuse_torchtitan_schedule, refuse_torchtitan_order, refuse_torchtitan_sharding,
                     refuse_torchtitan_splits, refuse_torchtitan_version});
}

}  // namespace

namespace {

std::vector<FrameworkSetting> torchtitan_settings(const FrameworkPlan& plan) {
  std::vector<FrameworkSetting> settings;
  for (const TorchtitanField& field : torchtitan_fields(plan)) settings.push_back({field.path, field.value});
  return settings;
}

}  // namespace

namespace {

std::vector<std::string> torchtitan_notes(const FrameworkPlan& plan) {
  std::vector<std::string> notes{
      chosen_by_code(fmt::format("init_deviation={}", plan.sizes.init_deviation), kTorchtitanTitle)};
  note_balance_loss(plan, kTorchtitanTitle, notes);
  note_float8(plan, kTorchtitanTitle, notes);
  if (!compiles(plan))
    notes.push_back(
        fmt::format("the plan's time is that of compiled kernels, which PyTorch refuses with schedule={}: "
                    "compile.enable is off",
                    plan.recipe.schedule_name()));
  return notes;
}

}  // namespace

Framework torchtitan_framework() {
  StateSharding divided{.kind = StateSharding::Kind::Weights, .wide_weights = true}, kept = divided;
  kept.keep_gathered = true;
  return {.name = "torchtitan",
          .title = kTorchtitanTitle,
          .check_recipe = check_torchtitan_recipe,
          .check_model = refuse_torchtitan_model,
          .check_export = refuse_torchtitan_definition,
          .files = torchtitan_files,
          .settings = torchtitan_settings,
          .notes = torchtitan_notes,
          .versions = torchtitan_versions,
          .runtime = "torch-compile",
          .kept = "torch",
          .usual = {.allows = {}, .shardings = {StateSharding(), divided, kept}, .reduction = {}},
          // torchtitan/models/utils.py counts 6 for each parameter beside embeddings and
          // 6·L·a·(D_qk + D_v)·s, a token. Parameters of norms are left out here.
          .flops = {.causal = FlopsCounting::CausalAttention::Full, .documents_apart = false}};
}

std::string torchtitan_schedule(const PipelineSchedule& schedule) {
  std::string text;
  for (const auto& steps : schedule) {
    for (std::size_t i = 0; i < steps.size(); ++i)
      text += fmt::format("{}{}{}{}", i == 0 ? "" : ",", steps[i].stage, torchtitan_letter(steps[i].kind),
                          steps[i].microbatch);
    text += "\n";
  }
  return text;
}

namespace {

// Collects fields.
class FieldWriter {
 public:
  void number(const char* path, std::int64_t value) {
    fields_.push_back({path, fmt::format("{}", value), false});
  }
  void word(const char* path, std::string_view value) { fields_.push_back({path, std::string(value), true}); }
  void truth(const char* path, bool value) { code(path, value ? "True" : "False"); }
  void words(const char* path, std::initializer_list<std::string_view> values) {
    fields_.push_back({path, fmt::format("[\"{}\"]", fmt::join(values, "\", \"")), false});
  }
  void code(const char* path, const char* value) { fields_.push_back({path, value, false}); }
  std::vector<TorchtitanField> take() && { return std::move(fields_); }

 private:
  std::vector<TorchtitanField> fields_;
};

void write_torchtitan_pipeline(const FrameworkPlan& plan, FieldWriter& w) {
  const Recipe& r = plan.recipe;
  w.number("parallelism.pipeline_parallel_degree", r.pipeline);
  if (r.pipeline == 1) return;
  w.word("parallelism.pipeline_parallel_schedule", torchtitan_schedule_name(r));
  if (takes_steps(r)) w.word("parallelism.pipeline_parallel_schedule_csv", kTorchtitanSchedule);
  if (!takes_toml(plan)) return w.number("parallelism.num_pp_microbatches", plan.microbatches());
  if (r.schedule == kDualPipeV) w.truth("parallelism.pipeline_parallel_expert_parallel_overlap", true);
  w.number("parallelism.pipeline_parallel_microbatch_size", r.microbatch);
}

void write_torchtitan_parallelism(const FrameworkPlan& plan, FieldWriter& w) {
  const Recipe& r = plan.recipe;
  const StateSharding& s = r.state_sharding;
  const std::int64_t sharded =
      !s.any() ? 1 : (s.group > 0 ? static_cast<std::int64_t>(s.group) : plan.copies()) / r.context;
  w.number("parallelism.data_parallel_replicate_degree", r.data / sharded);
  w.number("parallelism.data_parallel_shard_degree", sharded);
  if (s.any()) w.word("parallelism.fsdp_reshard_after_forward", s.keep_gathered ? "never" : "always");
  w.number("parallelism.tensor_parallel_degree", r.tensor);
  if (!takes_toml(plan))
    w.truth("parallelism.enable_sequence_parallel", r.sequence_parallel || r.tensor == 1);
  if (takes_toml(plan)) w.truth("parallelism.enable_async_tensor_parallel", r.tensor_overlap.value_or(false));
  w.number("parallelism.context_parallel_degree", r.context);
  if (takes_toml(plan) && r.context > 1)
    w.word("parallelism.context_parallel_rotate_method", r.ring ? "alltoall" : "allgather");
  w.number("parallelism.expert_parallel_degree", r.expert);
  write_torchtitan_pipeline(plan, w);
}

// With a pipeline, a device's batch is that of all its microbatches in 0.2, and of one on the main branch;
// without a pipeline, gradients accumulate.
void write_torchtitan_batch(const FrameworkPlan& plan, FieldWriter& w) {
  const Recipe& r = plan.recipe;
  const std::int64_t sequence = plan.sizes.sequence;
  if (takes_toml(plan)) {
    w.number("training.local_batch_size", r.pipeline > 1 ? r.microbatch * plan.microbatches() : r.microbatch);
    w.number("training.global_batch_size", plan.samples);
    w.number("training.seq_len", sequence);
  } else {
    w.number("training.num_tokens_per_microbatch_per_dp_rank", r.microbatch * sequence);
    w.number("training.num_tokens_per_train_step", plan.samples * sequence);
    w.number("training.max_context_length", sequence);
    // CUDA graphs are on by default, and refused with pipelines and with the usual exchange of experts'
    // tokens.
    w.truth("training.disable_cuda_graphs", r.pipeline > 1 || r.expert > 1);
  }
  w.word("training.mixed_precision_param", name_of(plan.sizes.type));
  w.word("training.mixed_precision_reduce", "float32");
}

// Plans are rated with compiled kernels. Async tensor parallelism is the compiler's, too.
void write_torchtitan_compile(const FrameworkPlan& plan, FieldWriter& w) {
  if (!takes_toml(plan))
    w.truth("compile.enable_async_tensor_parallel",
            compiles(plan) && plan.recipe.tensor_overlap.value_or(false));
  w.truth("compile.enable", compiles(plan));
  if (compiles(plan)) w.words("compile.components", {"model", "loss"});
}

}  // namespace

std::vector<TorchtitanField> torchtitan_fields(const FrameworkPlan& plan) {
  FieldWriter w;
  write_torchtitan_parallelism(plan, w);
  write_torchtitan_batch(plan, w);
  const bool full = plan.recipe.recompute == Recompute::Kind::Full;
  if (takes_toml(plan)) {
    w.word("activation_checkpoint.mode", full ? "full" : "none");
  } else {
    w.code("activation_checkpoint", full ? "FullAC.Config()" : "None");
  }
  write_torchtitan_compile(plan, w);
  return std::move(w).take();
}

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
  if (takes_steps(plan.recipe))
    files.push_back({kTorchtitanSchedule, torchtitan_schedule(schedule_of_plan(plan))});
  files.push_back({"launch.sh", takes_toml(plan) ? toml_launch(plan) : torchtitan_launch(plan)});
  files.push_back({"hostfile", host_file(plan.hosts)});
  files.push_back({"ranks.csv", rank_table(plan.hosts, plan.recipe)});
  return files;
}

}  // namespace pipesim
