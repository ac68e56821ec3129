#include "costmodel/runtime/runtime.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <utility>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

constexpr Seconds micro(double us) { return Seconds(us * 1e-6); }

constexpr Seconds kStepOfGraph(50e-6);

std::vector<RuntimePreset> all_presets() {
  const HostTimes megatron{.module = micro(60),
                           .backward = micro(45),
                           .kernel = micro(13),
                           .expert = {},
                           .collective = micro(60),
                           .member = {},
                           .step = micro(900),
                           .weight = {},
                           .slice = {}};
  const HostTimes nanotron{.module = micro(90),
                           .backward = micro(67),
                           .kernel = micro(20),
                           .expert = {},
                           .collective = micro(90),
                           .member = micro(210),
                           .step = micro(1350),
                           .weight = micro(400),
                           .slice = micro(1)};
  HostTimes compiled, graph = times_in_graphs();
  // Compiled block by block: what a compiled region takes beside its kernels, spread over its operators.
  compiled.module = micro(60), compiled.backward = micro(60), compiled.kernel = micro(8);
  compiled.collective = micro(60), compiled.step = micro(500);
  graph.step = kStepOfGraph;
  constexpr double kUpdate = 1.3;
  const std::string on_a100 = "host: fitted to 721 runs of Megatron-DeepSpeed on A100 (VIA-Research/vTrain)";
  using enum ReductionOverlap;
  // A product beside a collective goes on at half its rate: 1,001 mixtures on A100 (Dazz993/Mist).
  const auto of_torch = [](const char* name, const HostTimes& host, bool separate_kernels, double update) {
    Runtime runtime{name, host, separate_kernels, 2, update, Always};
    runtime.interference = 0.5;
    runtime.messages = MessageOverlap::UnlessPlain;
    return runtime;
  };
  // Transformer Engine's GroupedLinear calls cuBLAS for each expert: at least 9 us on B200, however small the
  // product is (MooreThreads/SimuMax, configs/system/b200_bf16_ceperm.json).
  HostTimes with_experts = megatron;
  with_experts.expert = micro(9);
  // rms_norm of PyTorch 2.x: 0.31 to 0.38 of the peak bandwidth on H200 and 0.25 to 0.28 on GB200, compiled
  // 0.35 and 0.3 (NVIDIA/cudnn-frontend, benchmark/norms), where other kernels reach 0.8.
  constexpr double kNormBackward = 0.42;
  Runtime torch_eager = of_torch("torch-eager", megatron, true, kUpdate);
  torch_eager.norm_backward = kNormBackward;
  torch_eager.optimizer_kernel = OptimizerKernel::Foreach;
  Runtime torch_compile = of_torch("torch-compile", compiled, false, 1);
  torch_compile.norm_backward = kNormBackward;
  const auto of_megatron = [](const char* name, const HostTimes& host) {
    Runtime runtime{name, host, true, 4, kUpdate, Never};
    runtime.casts_weights_once = true;
    runtime.step_gradients = StepGradients::Float32;
    runtime.messages = MessageOverlap::UnlessPlain;
    return runtime;
  };
  // Its float32 gradients stand in one buffer, weight after weight, which can be all-reduced as it is.
  Runtime nanotron_runtime{"nanotron", nanotron, true, 2, kUpdate, UnlessSharded};
  nanotron_runtime.updates_together = nanotron_runtime.sums_whole = true;
  nanotron_runtime.interference = 0.5;
  nanotron_runtime.messages = MessageOverlap::UnlessPlain;
  Runtime internevo = of_torch("internevo", megatron, true, kUpdate);
  internevo.broadcasts_weights = true;
  // deepspeed/runtime/zero/config.py: sub_group_size, reduce_bucket_size and stage3_max_reuse_distance by
  // default. deepspeed/runtime/bf16_optimizer.py: gradients stay, with immediate_grad_update as well.
  Runtime deepspeed = of_torch("deepspeed", megatron, true, kUpdate);
  deepspeed.norm_backward = kNormBackward;
  deepspeed.step_gradients = StepGradients::Flat;
  deepspeed.step_part = 1'000'000'000;
  deepspeed.bucket = 500'000'000;
  deepspeed.copies_buckets = deepspeed.keeps_own_gradients = true;
  deepspeed.reuse_distance = 1'000'000'000;
  Runtime megatron_runtime = of_megatron("megatron", with_experts);
  megatron_runtime.reads_token_counts = true;
  torch_eager.reads_token_counts = torch_compile.reads_token_counts = true;
  Runtime graph_runtime = of_megatron("cuda-graph", graph);
  graph_runtime.graphs.iteration = true;
  return {
      {Runtime(), "pipesim's own executor; its host is not modelled", ""},
      {megatron_runtime, "Megatron-LM: PyTorch, kernel by kernel", on_a100},
      {torch_eager, "PyTorch, kernel by kernel, with FlashAttention-2", on_a100},
      {torch_compile, "PyTorch, compiled block by block, with FlashAttention-2",
       "host: 2 runs of small blocks on an H100 (docs/examples/pytorch_h100.csv); collectives: as megatron"},
      {graph_runtime, "Megatron-LM whose steps are CUDA graphs",
       "host: 0.5 us a kernel of a graph, estimated"},
      {nanotron_runtime, "nanotron: PyTorch, kernel by kernel, with FlashAttention-2",
       "host: fitted to runs on H100 of the Ultra-Scale Playbook"},
      {internevo, "InternEvo: PyTorch, kernel by kernel, with FlashAttention-2", on_a100},
      {deepspeed, "DeepSpeed: PyTorch, kernel by kernel, with FlashAttention-2", on_a100},
  };
}

// Graphs of a whole iteration leave nothing to the host; their buffers have fixed sizes.
void set_graphs(const std::string& text, Runtime& runtime) {
  runtime.graphs = parse_cuda_graphs(text);
  if (!runtime.graphs.iteration) return;
  runtime.host = times_in_graphs();
  runtime.host.step = kStepOfGraph;
  runtime.reads_token_counts = false;
}

// A figure that a text may change.
struct RuntimeKey {
  std::string_view name;
  std::string allowed;
  std::function<void(const std::string&, Runtime&)> set;
};

RuntimeKey duration_key(std::string_view name, Seconds HostTimes::*member) {
  return {name, "a time such as 60us",
          [member](const std::string& text, Runtime& r) { r.host.*member = parse_duration(text); }};
}

double number_between(const std::string& text, double least, double most) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != 0 || !(number >= least && number <= most))
    throw InputError(fmt::format("\"{}\", allowed: a number from {} to {}", text, least, most));
  return number;
}

// One of several words.
template <class Value>
RuntimeKey word_key(std::string_view name, std::vector<std::pair<std::string, Value>> words,
                    Value Runtime::*member) {
  std::vector<std::string> names;
  for (const auto& [word, value] : words) names.push_back(word);
  const std::string allowed =
      fmt::format("{} or {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
  const auto set = [words = std::move(words), names, member](const std::string& text, Runtime& r) {
    const auto found = std::ranges::find(names, text);
    if (found == names.end())
      throw InputError(fmt::format("\"{}\", allowed: {}", text, fmt::join(names, ", ")));
    r.*member = words[static_cast<std::size_t>(found - names.begin())].second;
  };
  return {name, allowed, set};
}

RuntimeKey elements_key(std::string_view name, std::int64_t Runtime::*member) {
  return {name, "a number of elements such as 5e8, or 0", [member](const std::string& text, Runtime& r) {
            constexpr double kMost = 1e12;
            r.*member = static_cast<std::int64_t>(number_between(text, 0, kMost));
          }};
}

// The first of two words is false.
RuntimeKey either_key(std::string_view name, const char* no, const char* yes, bool Runtime::*member) {
  return word_key<bool>(name, {{no, false}, {yes, true}}, member);
}

const std::vector<RuntimeKey>& runtime_keys() {
  static const std::vector<RuntimeKey> keys{
      duration_key("module", &HostTimes::module),
      duration_key("backward", &HostTimes::backward),
      duration_key("kernel", &HostTimes::kernel),
      duration_key("expert", &HostTimes::expert),
      duration_key("collective", &HostTimes::collective),
      duration_key("member", &HostTimes::member),
      duration_key("step", &HostTimes::step),
      duration_key("weight", &HostTimes::weight),
      duration_key("slice", &HostTimes::slice),
      {"flash", "1 to 4",
       [](const std::string& text, Runtime& r) {
         const double version = number_between(text, 1, 4);
         if (version != std::floor(version))
           throw InputError(fmt::format("\"{}\", allowed: 1, 2, 3 or 4", text));
         r.flash_attention = static_cast<std::int32_t>(version);
       }},
      word_key<ReductionOverlap>("overlap",
                                 {{"always", ReductionOverlap::Always},
                                  {"unless-sharded", ReductionOverlap::UnlessSharded},
                                  {"never", ReductionOverlap::Never}},
                                 &Runtime::overlap),
      either_key("tensor-overlap", "never", "always", &Runtime::tensor_overlap),
      either_key("cast-weights", "each", "once", &Runtime::casts_weights_once),
      either_key("gradient-sums", "apart", "in-products", &Runtime::products_sum_gradients),
      word_key<MessageOverlap>("messages",
                               {{"beside", MessageOverlap::Always},
                                {"blocking-in-1f1b", MessageOverlap::UnlessPlain},
                                {"blocking", MessageOverlap::Never}},
                               &Runtime::messages),
      {"interference", "0 to 1",
       [](const std::string& text, Runtime& r) { r.interference = number_between(text, 0, 1); }},
      either_key("updates", "each", "together", &Runtime::updates_together),
      either_key("sharded-sums", "scattered", "whole", &Runtime::sums_whole),
      either_key("sharded-weights", "gathered", "broadcast", &Runtime::broadcasts_weights),
      word_key<StepGradients>(
          "step-gradients",
          {{"own", StepGradients::Own}, {"float32", StepGradients::Float32}, {"flat", StepGradients::Flat}},
          &Runtime::step_gradients),
      elements_key("step-part", &Runtime::step_part),
      word_key<OptimizerKernel>("optimizer-kernel",
                                {{"fused", OptimizerKernel::Fused},
                                 {"foreach", OptimizerKernel::Foreach},
                                 {"single", OptimizerKernel::Single}},
                                &Runtime::optimizer_kernel),
      elements_key("buckets", &Runtime::bucket),
      either_key("bucket-sums", "in-place", "copied", &Runtime::copies_buckets),
      either_key("own-gradients", "freed", "kept", &Runtime::keeps_own_gradients),
      elements_key("reuse-distance", &Runtime::reuse_distance),
      either_key("segments", "fixed", "expandable", &Runtime::expandable_segments),
      {"norm-backward", "0.05 to 1",
       [](const std::string& text, Runtime& r) { r.norm_backward = number_between(text, 0.05, 1); }},
      word_key<Dispatcher>("dispatcher",
                           {{"as-model", Dispatcher::AsModel},
                            {"alltoall", Dispatcher::AllToAll},
                            {"deepep", Dispatcher::DeepEp},
                            {"hybridep", Dispatcher::HybridEp}},
                           &Runtime::dispatcher),
      {"dispatcher-multiprocessors", "1 to 64, or 0 for as many as it takes unasked",
       [](const std::string& text, Runtime& r) {
         constexpr double kMost = 64;
         r.dispatcher_multiprocessors = static_cast<std::int32_t>(number_between(text, 0, kMost));
       }},
      {"graphs", "none, iteration, layer, or parts of layers such as attn+moe_router", set_graphs},
      either_key("token-counts", "on-device", "read", &Runtime::reads_token_counts),
      {"update", "1 to 10",
       [](const std::string& text, Runtime& r) { r.update = number_between(text, 1, 10); }},
  };
  return keys;
}

void change(std::string_view part, Runtime& runtime) {
  const std::size_t equals = part.find('=');
  const std::string_view name = part.substr(0, equals);
  const auto key = std::ranges::find(runtime_keys(), name, &RuntimeKey::name);
  if (equals == std::string_view::npos || key == runtime_keys().end()) {
    throw InputError(fmt::format("runtime \"{}\": \"{}\", allowed: KEY=VALUE with {}", runtime.name, part,
                                 runtime_keys_text()));
  }
  try {
    key->set(std::string(part.substr(equals + 1)), runtime);
  } catch (const InputError& error) {
    throw InputError(fmt::format("runtime \"{}\": {}: {}", runtime.name, name, error.what()));
  }
}

}  // namespace

const std::vector<RuntimePreset>& runtime_presets() {
  static const std::vector<RuntimePreset> all = all_presets();
  return all;
}

std::string runtime_keys_text() {
  std::string text;
  for (const RuntimeKey& key : runtime_keys())
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", key.name, key.allowed);
  return text;
}

Runtime parse_runtime(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string name(text.substr(0, colon));
  const auto has_name = [&](const RuntimePreset& preset) { return preset.runtime.name == name; };
  const auto found = std::ranges::find_if(runtime_presets(), has_name);
  if (found == runtime_presets().end()) {
    std::vector<std::string> names;
    for (const RuntimePreset& preset : runtime_presets()) names.push_back(preset.runtime.name);
    throw InputError(fmt::format("unknown runtime \"{}\"{}; allowed: {}", name, did_you_mean(name, names),
                                 list_names(names)));
  }
  Runtime runtime = found->runtime;
  if (colon == std::string_view::npos) return runtime;
  for (std::size_t begin = colon + 1; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    change(text.substr(begin, end - begin), runtime);
    begin = end + 1;
  }
  runtime.name = text;
  return runtime;
}

std::string_view name_of(OptimizerKernel kernel) {
  constexpr std::array<std::string_view, 3> kWords{"fused", "foreach", "single"};
  return kWords[static_cast<std::size_t>(kernel)];
}

Runtime with_optimizer_kernel(const Runtime& runtime, OptimizerKernel kernel) {
  if (runtime.optimizer_kernel == kernel) return runtime;
  const char mark = runtime.name.find(':') == std::string::npos ? ':' : ',';
  return parse_runtime(fmt::format("{}{}optimizer-kernel={}", runtime.name, mark, name_of(kernel)));
}

Runtime with_expandable_segments(const Runtime& runtime) {
  if (runtime.expandable_segments) return runtime;
  const char mark = runtime.name.find(':') == std::string::npos ? ':' : ',';
  return parse_runtime(fmt::format("{}{}segments=expandable", runtime.name, mark));
}

std::string_view name_of(Dispatcher dispatcher) {
  constexpr std::array<std::string_view, 4> kWords{"as-model", "alltoall", "deepep", "hybridep"};
  return kWords[static_cast<std::size_t>(dispatcher)];
}

Runtime with_dispatcher(const Runtime& runtime, Dispatcher dispatcher, std::int32_t multiprocessors) {
  if (runtime.dispatcher == dispatcher && runtime.dispatcher_multiprocessors == multiprocessors)
    return runtime;
  const char mark = runtime.name.find(':') == std::string::npos ? ':' : ',';
  std::string text = fmt::format("{}{}dispatcher={}", runtime.name, mark, name_of(dispatcher));
  if (multiprocessors > 0) text += fmt::format(",dispatcher-multiprocessors={}", multiprocessors);
  return parse_runtime(text);
}

Runtime with_graphs(const Runtime& runtime, CudaGraphs graphs) {
  if (runtime.graphs == graphs) return runtime;
  const char mark = runtime.name.find(':') == std::string::npos ? ':' : ',';
  return parse_runtime(fmt::format("{}{}graphs={}", runtime.name, mark, name_of(graphs)));
}

Runtime with_step_memory_of(const Runtime& runtime, const Runtime& changed) {
  std::vector<std::string> parts;
  if (runtime.step_gradients != changed.step_gradients) {
    constexpr std::array<const char*, 3> kWords{"own", "float32", "flat"};
    parts.push_back(
        fmt::format("step-gradients={}", kWords[static_cast<std::size_t>(runtime.step_gradients)]));
  }
  if (runtime.step_part != changed.step_part) parts.push_back(fmt::format("step-part={}", runtime.step_part));
  if (runtime.optimizer_kernel != changed.optimizer_kernel)
    parts.push_back(fmt::format("optimizer-kernel={}", name_of(runtime.optimizer_kernel)));
  if (runtime.bucket != changed.bucket) parts.push_back(fmt::format("buckets={}", runtime.bucket));
  if (runtime.copies_buckets != changed.copies_buckets)
    parts.push_back(runtime.copies_buckets ? "bucket-sums=copied" : "bucket-sums=in-place");
  if (runtime.keeps_own_gradients != changed.keeps_own_gradients)
    parts.push_back(runtime.keeps_own_gradients ? "own-gradients=kept" : "own-gradients=freed");
  if (runtime.reuse_distance != changed.reuse_distance)
    parts.push_back(fmt::format("reuse-distance={}", runtime.reuse_distance));
  if (runtime.expandable_segments != changed.expandable_segments)
    parts.push_back(runtime.expandable_segments ? "segments=expandable" : "segments=fixed");
  if (parts.empty()) return changed;
  const char mark = changed.name.find(':') == std::string::npos ? ':' : ',';
  return parse_runtime(fmt::format("{}{}{}", changed.name, mark, fmt::join(parts, ",")));
}

HostTimes times_in_graphs() {
  HostTimes times;
  times.kernel = times.expert = Seconds(0.5e-6);
  times.collective = Seconds(1e-6);
  return times;
}

HostTimes HostTimes::scaled(double factor) const {
  HostTimes times = *this;
  for (Seconds* time : {&times.module, &times.backward, &times.kernel, &times.expert, &times.collective,
                        &times.member, &times.step, &times.weight, &times.slice})
    *time = *time * factor;
  return times;
}

Seconds host_time(const Operator& op, Pass pass, const HostTimes& times,
                  std::span<const std::int32_t> degrees) {
  const SeparateKernels& kernels = op.separate;
  const auto length = [&](FactorIndex factor) {
    const auto f = static_cast<std::size_t>(factor);
    return (op.factors[f].size + degrees[f] - 1) / degrees[f];
  };
  Seconds further;
  if (kernels.experts) {
    const double of_each = pass == Pass::Forward          ? kernels.forward
                           : pass == Pass::BackwardWeight ? kernels.backward_weight
                                                          : kernels.backward_input;
    further = times.expert * (static_cast<double>(length(*kernels.experts) - 1) * of_each);
  }
  if (kernels.fused && pass != Pass::BackwardWeight) {
    std::int64_t batches = 1;
    for (const FactorIndex f : kernels.fused->factors) batches *= length(f);
    const Seconds each = (pass == Pass::Forward ? times.module : times.backward) + times.kernel;
    if (batches % kernels.fused->multiple != 0) further = further + each * kernels.fused->more;
  }
  if (pass == Pass::Forward) return times.module + times.kernel * kernels.forward + further;
  if (pass == Pass::BackwardWeight) return times.kernel * kernels.backward_weight + further;
  return times.backward + times.kernel * kernels.backward_input + further;
}

}  // namespace pipesim
