#include "tools/interop/megatron/megatron_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string_view>

#include "search/recipes/recipe_model.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tools/interop/deepspeed/deepspeed_config.h"
#include "tools/interop/framework/decoder_sizes.h"
#include "tools/interop/framework/stage_layers.h"
#include "tools/interop/megatron/megatron_flags.h"
#include "tools/interop/megatron/megatron_layout.h"
#include "tools/interop/megatron/megatron_optimizer.h"
#include "tools/interop/megatron/megatron_runtime.h"
#include "tools/interop/megatron/megatron_sizes.h"
#include "tools/interop/shell/launch_devices.h"

namespace pipesim {
namespace {

class RunReader {
 public:
  RunReader(const MegatronFile& file, std::int64_t devices) : file_(file), devices_(devices) {}

  FrameworkRun read() {
    run_.framework = "megatron";
    run_.left_out = file_.notes();
    run_.launched = launched_devices([&](std::string_view flag) { return file_.launch_text(flag); });
    read_program();
    read_flags();
    read_deepspeed();
    read_degrees();
    sizes_ = megatron_sizes(file_, recipe().tensor, run_.left_out);
    read_deepspeed_types();
    read_batch();
    read_stages();
    read_interleaving();
    read_sharding();
    read_reduction();
    read_recompute();
    read_optimizer();
    run_.model = text_of_model();
    constexpr double kUsualDropout = 0.1;
    run_.score_dropout = file_.rate("--attention-dropout").value_or(kUsualDropout);
    if (sizes_.experts && sizes_.experts->dense_layers < sizes_.layers &&
        recipe().context * sequence_parts() > 1)
      run_.model += fmt::format("{}token_groups={}", run_.model.find(':') == std::string::npos ? ":" : ",",
                                recipe().context * sequence_parts());
    return std::move(run_);
  }

 private:
  [[nodiscard]] bool given(std::string_view flag) const { return file_.given(flag); }
  Recipe& recipe() { return run_.recipe; }
  void leave_out(std::string_view flag, const std::string& what) {
    run_.left_out.push_back(fmt::format("{}: {}", flag, what));
  }
  [[nodiscard]] std::int64_t sequence_parts() const {
    return run_.recipe.sequence_parallel ? run_.recipe.tensor : 1;
  }

  // Programs that train something else are known by name. For an unknown program, most arguments must be
  // Megatron-LM's.
  void read_program() {
    const std::string& name = file_.program();
    if (name.empty()) return;
    if (const auto task = file_.text("--task"); task && name == "main.py") return read_task(*task);
    const MegatronProgram* const program = megatron_program(name);
    if (program != nullptr) {
      if (!program->what.empty())
        throw InputError(fmt::format("{}: {}: {} can't be expressed", file_.source(), name, program->what));
      if (name.find("prefix_lm") != std::string::npos)
        leave_out(name, "attention is causal within prefixes, too");
      return;
    }
    const std::vector<std::string> flags = file_.flags();
    const auto known = std::ranges::count_if(
        flags, [](const std::string& flag) { return megatron_flag(MegatronFile::modern(flag)) != nullptr; });
    if (static_cast<std::size_t>(known) * 2 < flags.size())
      throw InputError(
          fmt::format("{}: starts {}, which is no program of Megatron-LM, allowed: a script that "
                      "trains with Megatron-LM",
                      file_.source(), name));
    leave_out(name, "is taken as pretrain_gpt.py");
  }

  // Tasks of BERT are trained with a head for classes.
  void read_task(const std::string& task) {
    if (!is_bert(file_)) file_.fail("--task", fmt::format("{} is no training of a model alone", task));
    leave_out("--task", task + ": a head for masked words is taken in place of one for classes");
  }

  void read_flags() {
    for (const std::string& flag : file_.flags()) {
      const std::string modern = MegatronFile::modern(flag);
      if (!given(modern)) continue;
      const MegatronFlag* const known = megatron_flag(modern);
      if (known == nullptr) {
        leave_out(flag, fmt::format("no version of Megatron-LM has it, so it is left out{}",
                                    did_you_mean(flag, megatron_flag_names())));
        continue;
      }
      if (known->effect != FlagEffect::NotModelled && known->effect != FlagEffect::Refused) continue;
      if (!asks_for(*known, *file_.text(modern))) continue;
      if (known->effect == FlagEffect::Refused)
        file_.fail(modern, fmt::format("{} can't be expressed", known->what));
      leave_out(flag, std::string(known->what));
    }
    read_megatron_runtime(file_, run_);
  }

  // Reads DeepSpeed's own configuration; arguments of the program take precedence.
  void read_deepspeed() {
    if (!given("--deepspeed")) return;
    const std::string name = file_.text("--deepspeed-config").value_or("");
    const std::optional<std::string> text = file_.file_named(name);
    if (text) {
      if (auto config = read_deepspeed_config(*text, name)) {
        deepspeed_ = std::move(*config);
        run_.left_out.insert(run_.left_out.end(), deepspeed_.left_out.begin(), deepspeed_.left_out.end());
      } else {
        leave_out("--deepspeed-config", "holds variables or is no JSON, so it is not read");
      }
    } else if (!given("--zero-stage")) {
      leave_out("--deepspeed-config", name.empty() ? "is missing, so no state is sharded"
                                                   : name + " is not there, so no state is sharded");
    }
    if (const auto stage = file_.count("--zero-stage", 0)) deepspeed_.zero_stage = stage;
  }

  void read_deepspeed_types() {
    if (!deepspeed_.type || *deepspeed_.type == sizes_.type) return;
    if (sizes_.type != DataType::Float32)
      leave_out("--deepspeed-config", fmt::format("{} is enabled, and {} is taken of the arguments",
                                                  name_of(*deepspeed_.type), name_of(sizes_.type)));
    if (sizes_.type == DataType::Float32) sizes_.type = *deepspeed_.type;
  }

  // BERT and T5 are networks of their own.
  std::string text_of_model() {
    const bool bert = is_bert(file_), t5 = is_t5(file_);
    if (!bert && !t5) return zoo_text(sizes_);
    EncoderSizes e{.type = sizes_.type, .sequence = sizes_.sequence, .layers = sizes_.layers};
    e.hidden = sizes_.hidden;
    e.heads = sizes_.heads;
    e.head_width = sizes_.head_width;
    e.ffn = sizes_.ffn;
    e.vocabulary = sizes_.vocabulary;
    e.positions = std::max(sizes_.positions, sizes_.sequence);
    e.writes_scores = sizes_.writes_scores;
    e.dropout = sizes_.dropout;
    if (sizes_.gated || sizes_.experts || sizes_.latent || sizes_.alibi || sizes_.kv_heads != sizes_.heads)
      throw InputError(
          fmt::format("{}: {} with gated parts, experts, ALiBi or grouped heads can't be expressed",
                      file_.source(), bert ? "BERT" : "T5"));
    if (t5) {
      e.target = file_.count("--decoder-seq-length").value_or(e.sequence);
      if (file_.count("--decoder-num-layers").value_or(e.layers) != e.layers)
        file_.fail("--decoder-num-layers",
                   fmt::format("found {}, allowed: as many as the encoder's layers, {}",
                               *file_.count("--decoder-num-layers"), e.layers));
      if (recipe().pipeline > 1)
        file_.fail("--pipeline-model-parallel-size",
                   "pipelines of an encoder and a decoder can't be expressed");
      leave_out("--position-embedding-type", "positions are biases by distance, as in T5");
    }
    if (bert)
      leave_out(file_.program().empty() ? "--tokenizer-type" : file_.program(),
                "norms stand behind sums as in BERT's paper, and words alone are predicted");
    return zoo_text(e);
  }

  // Returns the program's argument, else what DeepSpeed's configuration says, else `otherwise`.
  static std::int64_t first_of(std::optional<std::int64_t> argument, std::optional<std::int64_t> configured,
                               std::int64_t otherwise) {
    return std::max(argument ? *argument : configured.value_or(otherwise), std::int64_t{1});
  }

  void read_degrees() {
    Recipe& r = recipe();
    r.tensor = first_of(file_.count("--tensor-model-parallel-size"), deepspeed_.tensor, 1);
    r.context = file_.count("--context-parallel-size").value_or(1);
    const auto argument = file_.count("--ds-sequence-parallel-size");
    if (const auto parts = argument ? argument : deepspeed_.sequence; parts && *parts > 1) {
      r.context = *parts;
      r.ulysses = *parts;
    }
    r.pipeline = first_of(file_.count("--pipeline-model-parallel-size"), deepspeed_.pipeline, 1);
    r.expert = first_of(file_.count("--expert-model-parallel-size"), deepspeed_.expert, 1);
    const bool experts = file_.count("--num-experts", 0).value_or(0) > 1;
    const auto features = file_.count("--expert-tensor-parallel-size");
    if (experts && features && *features != r.tensor) r.expert_tensor = *features;
    const std::int64_t of_a_copy = r.tensor * r.context * r.pipeline;
    if (devices_ % of_a_copy != 0)
      throw InputError(
          fmt::format("{}: tp{} x cp{} x pp{} is {} devices, which do not divide the {} of the "
                      "run",
                      file_.source(), r.tensor, r.context, r.pipeline, of_a_copy, devices_));
    r.data = devices_ / of_a_copy;
    r.sequence_parallel = r.tensor > 1 && given("--sequence-parallel");
    if (r.tensor > 1 && given("--tp-comm-overlap")) r.tensor_overlap = true;
    if (given("--use-tp-pp-dp-mapping"))
      r.order = {MeshAxis::Tensor, MeshAxis::Context, MeshAxis::Expert, MeshAxis::Pipeline, MeshAxis::Data};
    if (r.context > 1 && r.ulysses <= 1) read_context();
  }

  // What comes behind forward beside backward matters only where stages are interleaved.
  void read_interleaving() {
    Recipe& r = recipe();
    const bool beside = given("--overlap-moe-expert-parallel-comm") && r.expert > 1;
    if (beside && r.pipeline == 1) r.schedule = "interleaved-beside:1";
    if (beside && r.pipeline > 1 && r.chunks == 1)
      file_.fail("--overlap-moe-expert-parallel-comm",
                 "pipelines need several stages a rank for it, by "
                 "--num-virtual-stages-per-pipeline-rank");
    if (r.pipeline == 1 || r.chunks == 1) return;
    if (given("--no-overlap-p2p-communication")) r.messages = StageMessages::Blocking;
    const auto together = file_.count("--microbatch-group-size-per-virtual-pipeline-stage");
    if (beside) {
      r.schedule = fmt::format("interleaved-beside:{}", together.value_or(r.pipeline));
    } else if (together && *together != r.pipeline) {
      r.schedule = fmt::format("interleaved-groups:{}", *together);
    }
  }

  void read_reduction() {
    if (given("--overlap-grad-reduce") && recipe().reduces_once())
      recipe().reduction = GradientReduction::Overlapped;
  }

  // Keys and values go round in a ring unless the arguments say otherwise.
  void read_context() {
    Recipe& r = recipe();
    const std::vector<std::string> types = file_.texts("--cp-comm-type");
    const std::string type = types.empty() ? "p2p" : types.front();
    if (std::ranges::any_of(types, [&](const std::string& t) { return t != type; }))
      file_.fail("--cp-comm-type", "layers that differ can't be expressed");
    if (type == "a2a") {
      r.ulysses = r.context;
    } else if (type == "a2a+p2p") {
      const auto sizes = file_.texts("--hierarchical-context-parallel-sizes");
      r.ulysses = file_.required("--hierarchical-context-parallel-sizes");
      if (sizes.size() != 2 || r.context % r.ulysses != 0 ||
          sizes[1] != fmt::format("{}", r.context / r.ulysses))
        file_.fail("--hierarchical-context-parallel-sizes",
                   fmt::format("found \"{}\", allowed: two numbers whose product is --context-parallel-size "
                               "{}",
                               fmt::join(sizes, " "), r.context));
      r.ring = r.ulysses < r.context;
    } else if (type == "p2p") {
      r.ring = true;
    } else if (type != "all_gather" && type != "allgather") {
      file_.fail("--cp-comm-type", fmt::format("found \"{}\", allowed: p2p, a2a, all_gather, a2a+p2p", type));
    }
  }

  void read_batch() {
    Recipe& r = recipe();
    const auto microbatch = file_.count("--micro-batch-size"), samples = file_.count("--global-batch-size");
    r.microbatch =
        microbatch || !deepspeed_.microbatch ? file_.required("--micro-batch-size") : *deepspeed_.microbatch;
    const std::int64_t steps = first_of(file_.count("--gas"), deepspeed_.accumulation, 1);
    run_.samples = first_of(samples, deepspeed_.samples, r.microbatch * r.data * steps);
    tell_difference("train_micro_batch_size_per_gpu", deepspeed_.microbatch, r.microbatch);
    tell_difference("train_batch_size", deepspeed_.samples, run_.samples);
    if (run_.samples % (r.microbatch * r.data) != 0)
      file_.fail("--global-batch-size",
                 fmt::format("found {}, allowed: a multiple of --micro-batch-size {} x dp{}", run_.samples,
                             r.microbatch, r.data));
  }

  void tell_difference(const char* key, std::optional<std::int64_t> configured, std::int64_t taken) {
    if (configured && *configured != taken)
      leave_out("--deepspeed-config",
                fmt::format("{} is {}, and {} is taken of the arguments", key, *configured, taken));
  }

  void read_stages() {
    Recipe& r = recipe();
    if (const auto layout = file_.text("--pipeline-model-parallel-layout")) return read_layout(*layout);
    if (r.pipeline == 1) return;
    if (given("--deepspeed")) return read_balanced_stages();
    const std::int64_t embedding = given("--account-for-embedding-in-pipeline-split") ? 1 : 0;
    const std::int64_t loss = given("--account-for-loss-in-pipeline-split") ? 1 : 0;
    const std::int64_t places = sizes_.layers + embedding + loss;
    if (const auto chunks = file_.count("--num-virtual-stages-per-pipeline-rank")) {
      r.chunks = *chunks;
    } else if (const auto each = file_.count("--num-layers-per-virtual-pipeline-stage")) {
      if (places % (r.pipeline * *each) != 0)
        file_.fail(
            "--num-layers-per-virtual-pipeline-stage",
            fmt::format("found {}, allowed: a divisor of {} layers by pp{}", *each, places, r.pipeline));
      r.chunks = places / r.pipeline / *each;
    }
    if (r.chunks > sizes_.layers)
      file_.fail("--num-virtual-stages-per-pipeline-rank",
                 fmt::format("found {}, allowed: up to --num-layers {}", r.chunks, sizes_.layers));
    r.first = file_.count("--decoder-first-pipeline-num-layers", 0);
    r.last = file_.count("--decoder-last-pipeline-num-layers", 0);
    if (r.first || r.last || embedding + loss == 0) {
      if (!r.first && !r.last && sizes_.layers % (r.pipeline * r.chunks) != 0)
        file_.fail("--num-layers", fmt::format("found {}, allowed: a multiple of {} stages", sizes_.layers,
                                               r.pipeline * r.chunks));
      return;
    }
    if (places % r.pipeline != 0)
      file_.fail("--num-layers",
                 fmt::format("found {}, allowed: with embedding and loss that count as layers, a multiple of "
                             "pp{}",
                             sizes_.layers, r.pipeline));
    if (embedding > 0) r.first = places / r.pipeline - embedding;
    if (loss > 0) r.last = places / r.pipeline - loss;
  }

  // DeepSpeed fills stage after stage up to the share of the largest. Embeddings count as layers where the
  // method names them.
  void read_balanced_stages() {
    Recipe& r = recipe();
    const std::string method = file_.text("--pp-partition-method").value_or("type:transformer");
    if (method.find("type:") == std::string::npos)
      leave_out("--pp-partition-method", method + ": stages have as many layers each as can be");
    const std::int64_t ends = method.find("embedding") == std::string::npos ? 0 : 1;
    const std::int64_t places = sizes_.layers + 2 * ends, most = (places + r.pipeline - 1) / r.pipeline;
    std::vector<std::int64_t> stages;
    for (std::int64_t begin = 0; std::ssize(stages) < r.pipeline; begin += most) {
      const std::int64_t end = std::min(begin + most, places);
      const std::int64_t layers = std::min(end, ends + sizes_.layers) - std::max(begin, ends);
      stages.push_back(std::max(layers, std::int64_t{0}));
    }
    take_stages(stages, file_.given("--pp-partition-method") ? "--pp-partition-method" : "--num-layers");
  }

  [[nodiscard]] std::vector<std::int64_t> stages_of(const std::string& layout) const {
    std::optional<std::vector<std::int64_t>> stages =
        stages_of_megatron_layout(layout, given("--mtp-num-layers"));
    if (!stages || std::accumulate(stages->begin(), stages->end(), std::int64_t{0}) != sizes_.layers)
      refuse_layout(layout);
    return *std::move(stages);
  }
  [[noreturn]] void refuse_layout(const std::string& layout) const {
    file_.fail("--pipeline-model-parallel-layout",
               fmt::format("found \"{}\", allowed: E, {} times t and L, with | between stages, such as "
                           "Et*4|t*4L",
                           layout, sizes_.layers));
  }

  void read_layout(const std::string& layout) {
    Recipe& r = recipe();
    const std::vector<std::int64_t> stages = stages_of(layout);
    const auto number = static_cast<std::int64_t>(stages.size());
    if (number % r.pipeline != 0)
      file_.fail("--pipeline-model-parallel-layout",
                 fmt::format("found {} stages, allowed: a multiple of pp{}", number, r.pipeline));
    r.chunks = number / r.pipeline;
    take_stages(stages, "--pipeline-model-parallel-layout");
  }

  void take_stages(const std::vector<std::int64_t>& stages, std::string_view flag) {
    const auto taken = take_stage_layers(recipe(), stages);
    if (!taken)
      file_.fail(
          flag, fmt::format("found stages of {} layers, allowed: on each group of devices, as many in all of "
                            "its stages, or one less in the last ones",
                            fmt::join(stages, ", ")));
    if (*taken != stages)
      leave_out(flag, fmt::format("stages of {} layers are taken as {}", fmt::join(stages, ", "),
                                  fmt::join(*taken, ", ")));
  }

  void read_sharding() {
    StateSharding& s = recipe().state_sharding;
    using Kind = StateSharding::Kind;
    if (given("--use-distributed-optimizer")) s.kind = Kind::Optimizer;
    if (given("--deepspeed")) s.kind = deepspeed_kind();
    if (given("--use-torch-fsdp2")) {
      s.kind = Kind::Weights;
      leave_out("--use-torch-fsdp2", "weights are gathered as by Megatron-LM's own FSDP");
    }
    if (given("--use-megatron-fsdp")) {
      // Its first name, --use-custom-fsdp, is of versions that sharded nothing unless asked to.
      const std::vector<std::string> flags = file_.flags();
      const bool first = std::ranges::find(flags, "--use-custom-fsdp") != flags.end();
      const std::string strategy =
          file_.text("--data-parallel-sharding-strategy").value_or(first ? "no_shard" : "optim_grads_params");
      constexpr std::array<std::string_view, 4> kStrategies{"no_shard", "optim", "optim_grads",
                                                            "optim_grads_params"};
      const auto known = std::ranges::find(kStrategies, strategy);
      if (known == kStrategies.end())
        file_.fail("--data-parallel-sharding-strategy",
                   fmt::format("found \"{}\", allowed: {}", strategy, fmt::join(kStrategies, ", ")));
      s.kind = static_cast<Kind>(known - kStrategies.begin());
    }
    if (!s.any()) return;
    s.overlaps_gather = given("--overlap-param-gather") && !s.gathers_to_use();
    const std::int64_t instances = file_.count("--num-distributed-optimizer-instances").value_or(1);
    const std::int64_t copies = recipe().data * recipe().context;
    if (copies % instances != 0)
      file_.fail("--num-distributed-optimizer-instances",
                 fmt::format("found {}, allowed: a divisor of the {} copies of a weight", instances, copies));
    if (instances > 1) s.group = static_cast<std::int32_t>(copies / instances);
    if (const auto group = deepspeed_.shard_group;
        group && s.any() && copies % *group == 0 && *group < copies)
      s.group = static_cast<std::int32_t>(*group);
  }

  // With bfloat16, DeepSpeed's optimizer shards its state at stage 0 as well.
  [[nodiscard]] StateSharding::Kind deepspeed_kind() const {
    constexpr std::int64_t kStages = 3;
    const std::int64_t stage = deepspeed_.zero_stage.value_or(0);
    if (stage > kStages) file_.fail("--zero-stage", fmt::format("found {}, allowed: 0, 1, 2, 3", stage));
    if (stage == 0 && sizes_.type == DataType::BFloat16) return StateSharding::Kind::Optimizer;
    return static_cast<StateSharding::Kind>(stage);
  }

  void read_recompute() {
    const std::string granularity =
        given("--recompute-activations") ? "selective" : file_.text("--recompute-granularity").value_or("");
    if (granularity.empty()) return read_deepspeed_recompute();
    if (granularity == "selective") {
      return read_recomputed_modules();
    }
    if (granularity != "full")
      file_.fail("--recompute-granularity",
                 fmt::format("found \"{}\", allowed: full, selective", granularity));
    recipe().recompute = {Recompute::Kind::Full};
    const std::string method = file_.text("--recompute-method").value_or("uniform");
    const std::int64_t number = file_.count("--recompute-num-layers").value_or(1);
    if (method == "block") {
      const std::vector<std::int64_t> stages = divide_layers(recipe(), sizes_.layers).layers;
      if (stages.empty() || number < *std::ranges::max_element(stages))
        recipe().recompute = {.kind = Recompute::Kind::First, .count = number};
    }
    if (method == "uniform" && number > 1)
      recipe().recompute = {.kind = Recompute::Kind::Groups, .count = number};
  }

  // Those that the model does not have are without effect.
  void read_recomputed_modules() {
    recipe().recompute = Recompute::selective();
    const std::vector<std::string> modules = file_.texts("--recompute-modules");
    if (modules.empty()) return;
    Recompute recompute{Recompute::Kind::Modules};
    for (const std::string& module : modules) {
      try {
        recompute.modules |= parse_recompute(module == "core_attn" ? "selective" : module).modules;
      } catch (const InputError&) {
        leave_out("--recompute-modules", module + " is kept");
      }
    }
    recipe().recompute = recompute.modules == 0 ? Recompute() : recompute;
  }

  void read_deepspeed_recompute() {
    const std::int64_t layers = deepspeed_.checkpoint_interval;
    if (layers == 1) recipe().recompute = {Recompute::Kind::Full};
    if (layers > 1) recipe().recompute = {.kind = Recompute::Kind::Groups, .count = layers};
    if (layers == 0 && deepspeed_.tunes_recomputation)
      leave_out("--deepspeed-config",
                "activation_checkpointing: nothing is computed again, as no argument asks for it");
  }

  void read_optimizer() {
    run_.optimizer = read_megatron_optimizer(file_, sizes_, run_.left_out);
    if (!given("--optimizer") && deepspeed_.optimizer) run_.optimizer.kind = deepspeed_.optimizer->kind;
    if (!given("--optimizer") && deepspeed_.torch_adam) run_.optimizer_kernel = OptimizerKernel::Foreach;
    if (sizes_.type != DataType::Float32 && deepspeed_.narrow_main)
      run_.optimizer.main = *deepspeed_.narrow_main;
    if (deepspeed_.narrow_moments) run_.optimizer.first = run_.optimizer.second = *deepspeed_.narrow_moments;
    read_gradient_type();
  }

  void read_gradient_type() {
    if (sizes_.type == DataType::BFloat16 &&
        (given("--grad-reduce-in-bf16") || keeps_megatron_gradients_narrow(file_)))
      run_.gradient_type = DataType::BFloat16;
    if (sizes_.type == DataType::Float16 && !given("--accumulate-allreduce-grads-in-fp32"))
      run_.gradient_type = DataType::Float16;
    if (deepspeed_.gradient_type) run_.gradient_type = *deepspeed_.gradient_type;
  }

  const MegatronFile& file_;
  std::int64_t devices_;
  DeepspeedConfig deepspeed_;
  DecoderSizes sizes_;
  FrameworkRun run_;
};

}  // namespace

FrameworkRun megatron_run(const MegatronFile& file, std::int64_t devices) {
  return RunReader(file, devices).read();
}

}  // namespace pipesim
