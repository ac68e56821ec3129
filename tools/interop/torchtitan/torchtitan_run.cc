#include "tools/interop/torchtitan/torchtitan_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "sim/base/errors.h"
#include "taskgraph/schedules/schedule.h"
#include "tools/interop/framework/decoder_sizes.h"
#include "tools/interop/framework/stage_layers.h"
#include "tools/interop/torchtitan/known_models.h"
#include "tools/interop/torchtitan/torchtitan.h"
#include "tools/interop/torchtitan/torchtitan_fields.h"
#include "tools/interop/torchtitan/torchtitan_schedule.h"
#include "tools/interop/torchtitan/torchtitan_settings.h"

namespace pipesim {
namespace {

const std::string kRope = "model_spec.model.layers.each.attention.rope.";
const std::string kSchedulePath = "parallelism.pipeline_parallel_schedule";

class TorchtitanReader {
 public:
  TorchtitanReader(const TorchtitanFile& file, std::int64_t devices)
      : file_(file), settings_(file.settings), devices_(devices) {}

  FrameworkRun read() {
    run_.framework = "torchtitan";
    run_.left_out = file_.notes;
    run_.launched = file_.launched;
    tell_settings(settings_, torchtitan_keys(file_.main), "torchtitan", run_.left_out);
    read_degrees();
    read_model();
    read_batch();
    read_sharding();
    read_types();
    read_stages();
    read_recompute();
    read_optimizer();
    read_compile();
    run_.model = zoo_text(sizes_);
    const std::int64_t groups = recipe().context * (recipe().sequence_parallel ? recipe().tensor : 1);
    if (sizes_.experts && groups > 1)
      run_.model +=
          fmt::format("{}token_groups={}", run_.model.find(':') == std::string::npos ? ":" : ",", groups);
    return std::move(run_);
  }

 private:
  Recipe& recipe() { return run_.recipe; }
  [[nodiscard]] const Recipe& recipe() const { return run_.recipe; }
  void leave_out(std::string_view path, const std::string& what) {
    run_.left_out.push_back(fmt::format("{}: {}", path, what));
  }

  void read_degrees() {
    Recipe& r = recipe();
    r.tensor = settings_.count("parallelism.tensor_parallel_degree").value_or(1);
    r.context = settings_.count("parallelism.context_parallel_degree").value_or(1);
    r.pipeline = settings_.count("parallelism.pipeline_parallel_degree").value_or(1);
    r.expert = settings_.count("parallelism.expert_parallel_degree").value_or(1);
    const std::int64_t of_a_copy = r.tensor * r.context * r.pipeline;
    if (devices_ % of_a_copy != 0)
      throw InputError(
          fmt::format("{}: tp{} x cp{} x pp{} is {} devices, which do not divide the {} of the run",
                      settings_.source(), r.tensor, r.context, r.pipeline, of_a_copy, devices_));
    r.data = devices_ / of_a_copy;
    replicas_ = settings_.count("parallelism.data_parallel_replicate_degree").value_or(1);
    shards_ = settings_.count("parallelism.data_parallel_shard_degree", -1).value_or(-1);
    if (shards_ < 1) shards_ = r.data % replicas_ == 0 ? r.data / replicas_ : 0;
    if (replicas_ * shards_ != r.data)
      settings_.fail(
          "parallelism.data_parallel_shard_degree",
          fmt::format("replicate {} x shard {} is no dp{}, which are the {} devices of the run by tp{} x "
                      "cp{} x pp{}",
                      replicas_, shards_, r.data, devices_, r.tensor, r.context, r.pipeline));
    const bool divides =
        !file_.main || settings_.truth("parallelism.enable_sequence_parallel").value_or(true);
    r.sequence_parallel = r.tensor > 1 && divides;
    const char* const overlap =
        file_.main ? "compile.enable_async_tensor_parallel" : "parallelism.enable_async_tensor_parallel";
    if (r.tensor > 1 && settings_.is_on(overlap)) r.tensor_overlap = true;
    r.ring = r.context > 1 && !file_.main &&
             settings_.word("parallelism.context_parallel_rotate_method", "allgather",
                            {"allgather", "alltoall"}) == "alltoall";
    const std::int64_t features = settings_.count("parallelism.expert_tensor_parallel_degree").value_or(1);
    if (r.expert > 1 && features != r.tensor) r.expert_tensor = features;
  }

  void read_model() {
    const TorchtitanFlavor& flavor = torchtitan_flavor(settings_, "llama3");
    sizes_ = decoder_sizes(std::string(flavor.zoo));
    if (!flavor.what.empty()) leave_out("model.flavor", std::string(flavor.what));
    const std::string name = settings_.text("model.flavor").value_or("");
    if (name.find("_flex") != std::string::npos || name.find("_varlen") != std::string::npos)
      leave_out("model.flavor", "documents are taken as one: each token attends to all before it");
    if (name.ends_with("_irope"))
      leave_out("model.flavor", "windows of attention are as long as the sequence");
    constexpr std::int64_t kUsual = 2048;
    sizes_.sequence =
        settings_.count(file_.main ? "training.max_context_length" : "training.seq_len").value_or(kUsual);
    if (sizes_.experts && recipe().expert > 1 && sizes_.experts->count % recipe().expert != 0)
      settings_.fail(
          "parallelism.expert_parallel_degree",
          fmt::format("found {}, allowed: a divisor of {} experts", recipe().expert, sizes_.experts->count));
    if (file_.main) {
      read_definition_of_main();
    } else {
      read_definition_of_toml();
    }
    if (sizes_.rotary_scaling && sizes_.rotary_scaling->factor == 1) sizes_.rotary_scaling.reset();
    if (file_.main && settings_.find("loss") != nullptr &&
        settings_.find("loss")->text.find("Chunked") != std::string::npos)
      leave_out("loss", "words are predicted of a whole microbatch at once, not of chunks");
  }

  // Positions are stretched as the models' own arguments say, but for what a file changes.
  void read_definition_of_main() {
    RotaryScaling scaling = usual_scaling();
    if (const auto base = settings_.real(kRope + "theta")) sizes_.rotary_base = *base;
    if (const auto epsilon = settings_.real("model_spec.model.traverse.each.eps"))
      sizes_.norm_epsilon = *epsilon;
    const bool stretches = settings_.word(kRope + "scaling", "usual", {"none", "llama", "yarn"}) != "none";
    const bool yarn = scaling.way == RotaryScaling::Way::Yarn;
    const auto real = [&](const char* key, double& to) { to = settings_.real(kRope + key).value_or(to); };
    real(yarn ? "rope_factor" : "scaling_factor", scaling.factor);
    real(yarn ? "beta_slow" : "low_freq_factor", scaling.low);
    real(yarn ? "beta_fast" : "high_freq_factor", scaling.high);
    scaling.original =
        settings_.count(kRope + (yarn ? "original_seq_len" : "original_max_position_embeddings"))
            .value_or(scaling.original);
    set_scaling(stretches, scaling);
  }

  void read_definition_of_toml() {
    const std::string arguments = "model.arguments.", of_scaling = arguments + "rope_scaling_args.";
    RotaryScaling scaling = usual_scaling();
    if (const auto base = settings_.real(arguments + "rope_theta")) sizes_.rotary_base = *base;
    if (const auto epsilon = settings_.real(arguments + "norm_eps")) sizes_.norm_epsilon = *epsilon;
    const bool yarn = scaling.way == RotaryScaling::Way::Yarn;
    const auto real = [&](const std::string& path, double& to) { to = settings_.real(path).value_or(to); };
    real(yarn ? arguments + "rope_factor" : of_scaling + "scaling_factor", scaling.factor);
    real(yarn ? arguments + "beta_slow" : of_scaling + "low_freq_factor", scaling.low);
    real(yarn ? arguments + "beta_fast" : of_scaling + "high_freq_factor", scaling.high);
    scaling.original =
        settings_
            .count(yarn ? arguments + "original_seq_len" : of_scaling + "original_max_position_embeddings")
            .value_or(scaling.original);
    if (yarn) real(arguments + "mscale", scaling.mscale);
    if (yarn) scaling.mscale_all = scaling.mscale;
    // Longer sequences alone are stretched by YaRN in 0.2.
    set_scaling(!yarn || sizes_.sequence > scaling.original, scaling);
  }

  [[nodiscard]] RotaryScaling usual_scaling() const {
    if (sizes_.latent) return *decoder_sizes("deepseek-v3").rotary_scaling;
    return {.way = RotaryScaling::Way::Llama3, .factor = 8, .original = 8192, .low = 1, .high = 4};
  }
  void set_scaling(bool stretches, const RotaryScaling& scaling) {
    const bool has_scaling = sizes_.latent || settings_.text("model.name").value_or("llama3") == "llama3";
    sizes_.rotary_scaling.reset();
    if (has_scaling && stretches) sizes_.rotary_scaling = scaling;
  }

  void read_batch() {
    if (file_.main) {
      read_batch_of_main();
    } else {
      read_batch_of_toml();
    }
  }

  void read_batch_of_toml() {
    Recipe& r = recipe();
    constexpr std::int64_t kUsual = 8;
    const std::int64_t local = settings_.count("training.local_batch_size").value_or(kUsual);
    r.microbatch =
        r.pipeline > 1 ? settings_.count("parallelism.pipeline_parallel_microbatch_size").value_or(1) : local;
    if (local % r.microbatch != 0)
      settings_.fail(
          "training.local_batch_size",
          fmt::format("found {}, allowed: a multiple of parallelism.pipeline_parallel_microbatch_size {}",
                      local, r.microbatch));
    const auto all = settings_.count("training.global_batch_size", -1);
    run_.samples = all && *all > 0 ? *all : local * r.data;
    if (run_.samples % (local * r.data) != 0)
      settings_.fail("training.global_batch_size",
                     fmt::format("found {}, allowed: a multiple of training.local_batch_size {} x dp{}",
                                 run_.samples, local, r.data));
    of_a_pipeline_ = local / r.microbatch;
    tell_pipelines("training.global_batch_size", run_.samples / (local * r.data));
  }

  // A pipeline that runs several times an iteration fills and empties each time.
  void tell_pipelines(const char* path, std::int64_t times) {
    if (recipe().pipeline > 1 && times > 1)
      leave_out(
          path,
          fmt::format("all microbatches go through one pipeline, not through {} one after the other", times));
  }

  void read_batch_of_main() {
    Recipe& r = recipe();
    const std::int64_t context = sizes_.sequence;
    constexpr std::int64_t kUsual = 16384;
    const char* const each = "training.num_tokens_per_microbatch_per_dp_rank";
    const std::int64_t tokens = settings_.count(each).value_or(kUsual);
    if (tokens % context != 0)
      settings_.fail(each, fmt::format("found {}, allowed: a multiple of training.max_context_length {}",
                                       tokens, context));
    r.microbatch = tokens / context;
    of_a_pipeline_ = r.pipeline > 1 ? settings_.count("parallelism.num_pp_microbatches").value_or(1) : 1;
    const std::int64_t of_a_step = tokens * of_a_pipeline_ * r.data;
    const auto all = settings_.count("training.num_tokens_per_train_step", -1);
    const std::int64_t of_an_iteration = all && *all > 0 ? *all : of_a_step;
    if (of_an_iteration % of_a_step != 0)
      settings_.fail("training.num_tokens_per_train_step",
                     fmt::format("found {}, allowed: a multiple of {}, the tokens of all copies",
                                 of_an_iteration, of_a_step));
    run_.samples = of_an_iteration / context;
    tell_pipelines("training.num_tokens_per_train_step", of_an_iteration / of_a_step);
  }

  // FSDP divides over shard x cp copies, and DDP needs no other parallelism.
  void read_sharding() {
    const Recipe& r = recipe();
    StateSharding& s = recipe().state_sharding;
    const std::string reshard =
        settings_.word("parallelism.fsdp_reshard_after_forward", "default", {"default", "always", "never"});
    if (shards_ * r.context <= 1) {
      if (replicas_ > 1 && (r.tensor > 1 || r.pipeline > 1))
        settings_.fail(
            "parallelism.data_parallel_replicate_degree",
            fmt::format("found {}, allowed with tp or pp: data_parallel_shard_degree above 1 as well",
                        replicas_));
      return;
    }
    s.kind = StateSharding::Kind::Weights;
    s.wide_weights = true;
    if (replicas_ > 1) s.group = static_cast<std::int32_t>(shards_ * r.context);
    s.whole_gradients = reshard == "always" && r.pipeline > 1;
    using enum StateSharding::Reshard;
    if (reshard == "never" || (reshard == "default" && r.pipeline > 1))
      s.reshard = r.pipeline > 1 ? Last : Never;
  }

  // Mixed precision comes with FSDP, or by autocast where there is nothing but copies.
  void read_types() {
    const Recipe& r = recipe();
    const std::string type =
        settings_.word("training.mixed_precision_param", "bfloat16", {"bfloat16", "float32"});
    const bool whole = settings_.word("training.dtype", "float32", {"bfloat16", "float32"}) == "bfloat16";
    const bool mixes = r.state_sharding.any() || (r.tensor == 1 && r.pipeline == 1);
    sizes_.type = whole || (mixes && type == "bfloat16") ? DataType::BFloat16 : DataType::Float32;
    if (!mixes && type == "bfloat16" && !whole)
      leave_out("training.mixed_precision_param",
                "bfloat16 comes with FSDP, which needs two copies of a weight: products are in float32");
    if (whole) {
      recipe().state_sharding.wide_weights = false;
      run_.optimizer = Optimizer(Optimizer::Adam, DataType::BFloat16, Optimizer::Main::None);
    }
    for (const std::string& converter : converters()) {
      const bool eight = converter.find("loat8") != std::string::npos;
      const bool scaled =
          converter.find("mx") != std::string::npos || converter.find("MX") != std::string::npos;
      if (eight) sizes_.products = "float8";
      if (scaled) sizes_.products = "mxfp8";
      if (!eight && !scaled) leave_out("model.converters", converter + ": layers stay as they are");
    }
  }

  // By their names, or by their classes on the main branch.
  [[nodiscard]] std::vector<std::string> converters() const {
    const Setting* const setting = settings_.find(file_.main ? "model_spec.converters" : "model.converters");
    std::vector<std::string> names;
    if (setting == nullptr) return names;
    if (setting->kind != Setting::Kind::List) {
      names.push_back(setting->text);
    } else {
      for (const Setting& item : setting->items) names.push_back(item.text);
    }
    std::erase(names, "");
    return names;
  }

  void read_stages() {
    Recipe& r = recipe();
    if (r.pipeline == 1) return;
    const std::string name = settings_.text(kSchedulePath).value_or("1F1B");
    const bool steps = name == "PipelineScheduleSingle" || name == "PipelineScheduleMulti";
    const bool single = name == "1F1B" || name == "GPipe" || name == "PipelineScheduleSingle";
    const std::vector<std::int64_t> stages = stages_of(single);
    const auto number = static_cast<std::int64_t>(stages.size());
    if (number % r.pipeline != 0 || (!steps && (number > r.pipeline) == single))
      settings_.fail(
          "parallelism.module_fqns_per_model_part",
          fmt::format("found {} stages, allowed with {}: {}", number, name,
                      single ? fmt::format("{}", r.pipeline) : fmt::format("a multiple of {}", r.pipeline)));
    r.chunks = number / r.pipeline;
    if (file_.schedule) {
      r.schedule = schedule_of_steps(name == "ZBVZeroBubble");
    } else if (steps) {
      settings_.fail(kSchedulePath,
                     fmt::format("{} has the steps of parallelism.pipeline_parallel_schedule_csv, which "
                                 "is not given, allowed: the script that gives it",
                                 name));
    } else {
      r.schedule = schedule_named(name);
    }
    const std::string usual = r.chunks > 1 ? "interleaved" : "1f1b";
    if (r.schedule == usual) r.schedule.clear();
    const auto taken = take_stage_layers(r, stages);
    const char* const parts = "parallelism.module_fqns_per_model_part";
    if (!taken)
      settings_.fail(
          parts, fmt::format("found stages of {} layers, allowed: on each group of devices, as many in all "
                             "of its stages, or one less in the last ones",
                             fmt::join(stages, ", ")));
    if (*taken != stages)
      leave_out(settings_.given(parts) ? parts : kSchedulePath,
                fmt::format("stages of {} layers are taken as {}", fmt::join(stages, ", "),
                            fmt::join(*taken, ", ")));
  }

  std::string schedule_named(const std::string& name) {
    if (name == "1F1B") return "1f1b";
    if (name == "GPipe") return "gpipe";
    if (name == "Interleaved1F1B") return "interleaved";
    if (name == "ZBVZeroBubble") return "zb-v";
    if (name == "DualPipeV") {
      const bool beside =
          !file_.main && recipe().expert > 1 &&
          settings_.truth("parallelism.pipeline_parallel_expert_parallel_overlap").value_or(true);
      return beside ? "dualpipe-v" : "zb-v";
    }
    if (name == "InterleavedZeroBubble") {
      leave_out(kSchedulePath, name + " is taken as Interleaved1F1B: backward is one step");
      return "interleaved";
    }
    settings_.fail(kSchedulePath, fmt::format("found \"{}\", allowed: 1F1B, GPipe, Interleaved1F1B, "
                                              "InterleavedZeroBubble, ZBVZeroBubble, DualPipeV",
                                              name));
  }

  // The schedule that has the steps of the CSV.
  [[nodiscard]] std::string schedule_of_steps(bool in_v) const {
    PipelineShape shape;
    shape.devices = static_cast<std::int32_t>(recipe().pipeline);
    shape.microbatches = static_cast<std::int32_t>(of_a_pipeline_);
    shape.chunks = static_cast<std::int32_t>(recipe().chunks);
    const auto same = [&](const std::string& name) {
      try {
        return torchtitan_schedule(make_schedule(name, shape)) == *file_.schedule;
      } catch (const InputError&) {  // it has no such shape
        return false;
      }
    };
    constexpr std::int64_t kMostSteps = 1 << 16;
    const bool small =
        shape.devices <= kMostSteps && of_a_pipeline_ * recipe().chunks * shape.devices <= kMostSteps;
    for (const ScheduleKind& kind : schedule_kinds()) {
      if (!small || kind.in_v != in_v || kind.weights != WeightChange::AfterIteration || kind.both_ways)
        continue;
      const std::string name(kind.name);
      if (!kind.takes_number() && same(name)) return name;
      for (std::int32_t number = 1; kind.takes_number() && number <= 4 * shape.devices; ++number) {
        if (same(fmt::format("{}:{}", name, number))) return fmt::format("{}:{}", name, number);
      }
    }
    settings_.fail(
        "parallelism.pipeline_parallel_schedule_csv",
        fmt::format("the steps of {} microbatches on {} devices are those of no schedule that is known",
                    of_a_pipeline_, shape.devices));
  }

  // Layers of each stage: as modules are listed, or evenly, embedding and head counted as layers.
  [[nodiscard]] std::vector<std::int64_t> stages_of(bool single) const {
    const char* const parts = "parallelism.module_fqns_per_model_part";
    std::vector<std::int64_t> stages;
    if (const Setting* list = settings_.find(parts)) {
      std::int64_t all = 0;
      for (const Setting& part : list->items) {
        const auto layers = std::ranges::count_if(
            part.items, [](const Setting& module) { return module.text.starts_with("layers."); });
        stages.push_back(layers);
        all += layers;
      }
      if (all != sizes_.layers)
        settings_.fail(parts,
                       fmt::format("found {} layers, allowed: the {} of the model", all, sizes_.layers));
      return stages;
    }
    const std::int64_t first =
        settings_.count("parallelism.pipeline_parallel_first_stage_less_layers", 0).value_or(1);
    const std::int64_t last =
        settings_.count("parallelism.pipeline_parallel_last_stage_less_layers", 0).value_or(1);
    const std::int64_t places = sizes_.layers + first + last;
    std::int64_t number = recipe().pipeline * (single ? 1 : 2);
    if (const auto each = settings_.count("parallelism.pipeline_parallel_layers_per_stage"))
      number = (places + *each - 1) / *each;
    const std::int64_t least = places / number, more = places % number;
    if (least == 0 || first > least || last > least)
      settings_.fail(
          "parallelism.pipeline_parallel_degree",
          fmt::format("found {} stages, allowed: up to one for each of {} layers", number, sizes_.layers));
    for (std::int64_t s = 0; s < number; ++s)
      stages.push_back(least + (s < more ? 1 : 0) - (s == 0 ? first : 0) - (s == number - 1 ? last : 0));
    return stages;
  }

  void read_recompute() {
    const Setting* const kind = settings_.find("activation_checkpoint");
    const bool none = file_.main && kind == nullptr && set_to_none("activation_checkpoint");
    std::string mode = settings_.word("activation_checkpoint.mode", "selective",
                                      {"selective", "full", "memory_budget", "none"});
    if (none) mode = "none";
    if (kind != nullptr && kind->text.find("FullAC") != std::string::npos) mode = "full";
    if (kind != nullptr && kind->text.find("MemoryBudget") != std::string::npos) mode = "memory_budget";
    if (mode == "full") recipe().recompute = {Recompute::Kind::Full};
    if (mode == "full" || mode == "none") return;
    if (mode == "selective") return read_selective_recompute();
    leave_out(
        file_.main ? "activation_checkpoint" : "activation_checkpoint.mode",
        fmt::format("{}{}: nothing is computed again", mode,
                    settings_.given("activation_checkpoint.mode") || kind != nullptr ? "" : ", the default"));
  }
  // By operator, or every so many layers, which is the default where files are TOML.
  void read_selective_recompute() {
    const std::string option =
        settings_.text("activation_checkpoint.selective_ac_option").value_or(file_.main ? "op" : "2");
    if (option == "op") {
      recipe().recompute = {Recompute::Kind::Operators};
      return;
    }
    std::int64_t layers = 0;
    const auto [stopped, error] = std::from_chars(option.data(), option.data() + option.size(), layers);
    if (error != std::errc() || stopped != option.data() + option.size() || layers < 1)
      settings_.fail("activation_checkpoint.selective_ac_option",
                     fmt::format("found \"{}\", allowed: op, or a number of layers", option));
    if (layers == 1) recipe().recompute = {Recompute::Kind::Full};
    if (layers > 1) recipe().recompute = {.kind = Recompute::Kind::Every, .count = layers};
  }
  [[nodiscard]] bool set_to_none(std::string_view path) const {
    return std::ranges::any_of(
        settings_.all(), [&](const Setting& s) { return s.path == path && s.kind == Setting::Kind::None; });
  }

  void read_optimizer() {
    const std::string name = settings_.text("optimizer.name").value_or("AdamW");
    if (!file_.main && name != "AdamW" && name != "Adam")
      settings_.fail("optimizer.name", fmt::format("found \"{}\", allowed: Adam, AdamW", name));
    const Setting* const made = settings_.find("optimizer");
    const auto is_made_by = [&](const char* part) { return made->text.find(part) != std::string::npos; };
    if (made != nullptr && (is_made_by("muon") || is_made_by("Muon"))) {
      run_.optimizer.kind = Optimizer::Muon;
    } else if (made != nullptr && !is_made_by("adam")) {
      leave_out("optimizer", made->text + " is taken as Adam");
    }
    const Setting* const how = settings_.find("optimizer.implementation");
    if (how != nullptr && how->text == kNarrowMoments) {
      run_.optimizer.first = run_.optimizer.second = DataType::BFloat16;
    } else if (how != nullptr && how->text == "foreach") {
      run_.optimizer_kernel = OptimizerKernel::Foreach;
    } else if (how != nullptr && how->text == "for-loop") {
      run_.optimizer_kernel = OptimizerKernel::Single;
    } else if (how != nullptr && how->text != "fused" && how->text != "false") {
      leave_out("optimizer.implementation", "the update is fused");
    }
  }

  // Plans for torchtitan run compiled kernels.
  void read_compile() {
    bool model = true;
    if (settings_.given("compile.components")) {
      const std::vector<std::string> parts = settings_.texts("compile.components");
      model = std::ranges::find(parts, "model") != parts.end();
    }
    if (!settings_.is_on("compile.enable") || !model)
      leave_out(model ? "compile.enable" : "compile.components", "kernels are fused as the compiler does it");
  }

  const TorchtitanFile& file_;
  const Settings& settings_;
  std::int64_t devices_, replicas_ = 1, shards_ = 1;
  std::int64_t of_a_pipeline_ = 1;  // microbatches
  DecoderSizes sizes_;
  FrameworkRun run_;
};

}  // namespace

FrameworkRun torchtitan_run(const TorchtitanFile& file, std::int64_t devices) {
  return TorchtitanReader(file, devices).read();
}

}  // namespace pipesim
