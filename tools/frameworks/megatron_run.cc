#include "tools/frameworks/megatron_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <string_view>

#include "search/recipes/recipe_model.h"
#include "sim/base/errors.h"
#include "tools/frameworks/decoder_sizes.h"
#include "tools/frameworks/megatron_sizes.h"

namespace pipesim {
namespace {

// Arguments for what pipesim has no model of.
struct MegatronFlag {
  std::string_view flag, what;
};
constexpr std::array kMegatronUnexpressed = std::to_array<MegatronFlag>({
    {"--fp4-format", "4-bit types"},
    {"--mtp-num-layers", "prediction of further tokens"},
    {"--hybrid-override-pattern", "hybrid models"},
    {"--heterogeneous-layers-config-path", "layers that differ"},
    {"--encoder-num-layers", "encoders"},
    {"--window-size", "attention within a window"},
    {"--cpu-offloading-num-layers", "activations moved to the host"},
    {"--optimizer-cpu-offload", "optimizer state moved to the host"},
    {"--use-torch-fsdp2", "PyTorch's FSDP within Megatron-LM"},
    {"--squared-relu", "feed-forward parts with a squared relu"},
    {"--quick-geglu", "feed-forward parts gated by GELU"},
});

// What a run does that is not simulated: it is told, and the plan goes without.
constexpr std::array kMegatronLeftOut = std::to_array<MegatronFlag>({
    {"--overlap-moe-expert-parallel-comm", "tokens on their way to experts wait for no other batch"},
    {"--delay-wgrad-compute", "gradients of weights are made with those of inputs"},
    {"--defer-embedding-wgrad-compute", "gradients of the projection are made with the others"},
    {"--moe-shared-expert-overlap", "shared experts are computed in turn"},
    {"--cross-entropy-loss-fusion", "the loss is a kernel of its own"},
    {"--use-precision-aware-optimizer", "the optimizer's state is in float32"},
});

class RunReader {
 public:
  RunReader(const MegatronFile& file, std::int64_t devices) : file_(file), devices_(devices) {}

  MegatronRun read() {
    for (const MegatronFlag& u : kMegatronUnexpressed) {
      if (given(u.flag)) file_.fail(u.flag, fmt::format("{} can't be expressed", u.what));
    }
    for (const MegatronFlag& u : kMegatronLeftOut) {
      if (given(u.flag)) leave_out(u.flag, std::string(u.what));
    }
    read_degrees();
    sizes_ = megatron_sizes(file_, recipe().tensor, run_.left_out);
    read_batch();
    read_stages();
    read_sharding();
    read_recompute();
    read_optimizer();
    run_.model = zoo_text(sizes_);
    if (sizes_.experts && recipe().context * sequence_parts() > 1)
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

  void read_degrees() {
    Recipe& r = recipe();
    r.tensor = file_.count("--tensor-model-parallel-size").value_or(1);
    r.context = file_.count("--context-parallel-size").value_or(1);
    r.pipeline = file_.count("--pipeline-model-parallel-size").value_or(1);
    r.expert = file_.count("--expert-model-parallel-size").value_or(1);
    if (const auto features = file_.count("--expert-tensor-parallel-size"); features && *features != r.tensor)
      r.expert_tensor = *features;
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
    if (r.context > 1) read_context();
    if (r.data * r.context > 1 && !given("--use-megatron-fsdp")) read_reduction();
  }

  void read_reduction() {
    if (given("--overlap-grad-reduce")) recipe().reduction = GradientReduction::Overlapped;
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
    r.microbatch = file_.required("--micro-batch-size");
    run_.samples = file_.count("--global-batch-size").value_or(r.microbatch * r.data);
    if (run_.samples % (r.microbatch * r.data) != 0)
      file_.fail("--global-batch-size",
                 fmt::format("found {}, allowed: a multiple of --micro-batch-size {} x dp{}", run_.samples,
                             r.microbatch, r.data));
  }

  void read_stages() {
    Recipe& r = recipe();
    if (const auto layout = file_.text("--pipeline-model-parallel-layout")) return read_layout(*layout);
    if (r.pipeline == 1) return;
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

  // "E|(t|)*3,m|m||L": layers of each stage.
  [[nodiscard]] std::vector<std::int64_t> stages_of(const std::string& layout) const {
    std::string flat;
    for (const char c : layout) {
      if (c != ',') flat += c;
    }
    flat = repeated(repeated(flat, true), false);
    std::vector<std::int64_t> stages{0};
    for (const char c : flat) {
      if (c == '|') {
        stages.push_back(0);
      } else if (c == 't') {
        ++stages.back();
      } else if (c != 'E' && c != 'L') {
        refuse_layout(layout);
      }
    }
    const bool in_order = !flat.empty() && flat.front() == 'E' && flat.back() == 'L' &&
                          std::ranges::count(flat, 'E') == 1 && std::ranges::count(flat, 'L') == 1;
    if (!in_order || std::accumulate(stages.begin(), stages.end(), std::int64_t{0}) != sizes_.layers)
      refuse_layout(layout);
    return stages;
  }
  // With (ab)*3, or with a*3, written out.
  [[nodiscard]] std::string repeated(const std::string& text, bool groups) const {
    std::string result;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t close = groups && text[at] == '(' ? text.find(')', at) : at;
      if (close == std::string::npos) return text;
      const bool group = groups && text[at] == '(';
      const std::string unit = group ? text.substr(at + 1, close - at - 1) : text.substr(at, 1);
      std::size_t next = close + 1, times = 1;
      const bool counts = next + 1 < text.size() && text[next] == '*' && (group || !groups);
      if (counts) {
        const char* const end = text.data() + text.size();
        const auto [stopped, error] = std::from_chars(text.data() + next + 1, end, times);
        constexpr std::size_t kMost = 10'000;
        if (error != std::errc() || times > kMost) return text;
        next = static_cast<std::size_t>(stopped - text.data());
      }
      constexpr std::size_t kLongest = 1 << 20;
      if (result.size() + times * unit.size() > kLongest) return text;
      for (std::size_t i = 0; i < times; ++i) result += unit;
      at = next;
    }
    return result;
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
    if (divide_layers(r, sizes_.layers).layers == stages) return;
    std::int64_t first = 0, last = 0;
    for (std::size_t s = 0; s < stages.size(); s += static_cast<std::size_t>(r.pipeline)) {
      first += stages[s];
      last += stages[s + static_cast<std::size_t>(r.pipeline) - 1];
    }
    Recipe uneven = r;
    uneven.first = first;
    uneven.last = last;
    if (divide_layers(uneven, sizes_.layers).layers == stages) {
      r = uneven;
      return;
    }
    std::vector<std::int64_t> of_group(static_cast<std::size_t>(r.pipeline), 0);
    for (std::size_t s = 0; s < stages.size(); ++s) of_group[s % of_group.size()] += stages[s];
    r.layers = std::move(of_group);
    if (divide_layers(r, sizes_.layers).layers != stages)
      file_.fail(
          "--pipeline-model-parallel-layout",
          fmt::format("found stages of {} layers, allowed: on each group of devices, as many in all of "
                      "its stages, or one less in the last ones",
                      fmt::join(stages, ", ")));
  }

  void read_sharding() {
    StateSharding& s = recipe().state_sharding;
    using Kind = StateSharding::Kind;
    if (given("--use-distributed-optimizer")) s.kind = Kind::Optimizer;
    if (given("--use-megatron-fsdp")) {
      const std::string strategy = file_.text("--data-parallel-sharding-strategy").value_or("no_shard");
      constexpr std::array<std::string_view, 4> kStrategies{"no_shard", "optim", "optim_grads",
                                                            "optim_grads_params"};
      const auto known = std::ranges::find(kStrategies, strategy);
      if (known == kStrategies.end())
        file_.fail("--data-parallel-sharding-strategy",
                   fmt::format("found \"{}\", allowed: {}", strategy, fmt::join(kStrategies, ", ")));
      s.kind = static_cast<Kind>(known - kStrategies.begin());
    }
    if (!s.any()) return;
    s.gathers_in_forward = given("--overlap-param-gather") && !s.gathers_to_use();
    const std::int64_t instances = file_.count("--num-distributed-optimizer-instances").value_or(1);
    const std::int64_t copies = recipe().data * recipe().context;
    if (copies % instances != 0)
      file_.fail("--num-distributed-optimizer-instances",
                 fmt::format("found {}, allowed: a divisor of the {} copies of a weight", instances, copies));
    if (instances > 1) s.group = static_cast<std::int32_t>(copies / instances);
  }

  void read_recompute() {
    const std::string granularity =
        given("--recompute-activations") ? "selective" : file_.text("--recompute-granularity").value_or("");
    if (granularity.empty()) return;
    if (granularity == "selective") {
      recipe().recompute = Recompute::Kind::Selective;
      const std::vector<std::string> modules = file_.texts("--recompute-modules");
      for (const std::string& module : modules) {
        if (module != "core_attn")
          leave_out("--recompute-modules", module + " is kept, only core_attn is computed again");
      }
      if (!modules.empty() && std::ranges::find(modules, "core_attn") == modules.end())
        recipe().recompute = Recompute::Kind::None;
      return;
    }
    if (granularity != "full")
      file_.fail("--recompute-granularity",
                 fmt::format("found \"{}\", allowed: full, selective", granularity));
    recipe().recompute = Recompute::Kind::Full;
    const std::string method = file_.text("--recompute-method").value_or("uniform");
    const std::int64_t number = file_.count("--recompute-num-layers").value_or(1);
    if (method == "block" && number < sizes_.layers / recipe().pipeline)
      leave_out("--recompute-method",
                fmt::format("block: all layers are computed again, not {} of a stage", number));
    if (method == "uniform" && number > 1)
      leave_out("--recompute-num-layers",
                fmt::format("{}: the input of each layer is kept, not of each {}", number, number));
  }

  void read_optimizer() {
    const std::string name = file_.text("--optimizer").value_or("adam");
    constexpr double kUsualMomentum = 0.9;
    if (name == "sgd") {
      const bool momentum = file_.rate("--sgd-momentum").value_or(kUsualMomentum) > 0;
      run_.optimizer = momentum ? Optimizer::Momentum : Optimizer::Sgd;
    } else if (name != "adam") {
      file_.fail("--optimizer", fmt::format("found \"{}\", allowed: adam, sgd", name));
    }
    if (sizes_.type == DataType::BFloat16 && given("--grad-reduce-in-bf16"))
      run_.gradient_type = DataType::BFloat16;
    if (sizes_.type == DataType::Float16 && !given("--accumulate-allreduce-grads-in-fp32"))
      run_.gradient_type = DataType::Float16;
  }

  const MegatronFile& file_;
  std::int64_t devices_;
  DecoderSizes sizes_;
  MegatronRun run_;
};

}  // namespace

MegatronRun megatron_run(const MegatronFile& file, std::int64_t devices) {
  return RunReader(file, devices).read();
}

std::optional<std::int64_t> devices_of_launch(const MegatronFile& file) {
  const auto plain = [&](std::string_view flag) {
    const auto text = file.text(flag);
    return text && !text->empty() && std::ranges::all_of(*text, [](char c) { return c >= '0' && c <= '9'; });
  };
  if (!plain("--nproc-per-node") || (file.given("--nnodes") && !plain("--nnodes"))) return std::nullopt;
  return *file.count("--nproc-per-node") * file.count("--nnodes").value_or(1);
}

}  // namespace pipesim
