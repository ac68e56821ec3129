#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "executor/cpu/cpu_backend.h"
#include "executor/run/emulation.h"
#include "executor/run/training.h"
#include "models/zoo/decoder/decoder_layers.h"
#include "models/zoo/zoo.h"
#include "tests/executor/unsplit_reference.h"
#include "tests/slow_test.h"
#include "tests/taskgraph/random_strategies.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// Options of zoo models that say how wide a model is, and a small value of each. An image is as small as its
// model allows.
const std::map<std::string, std::string> narrow{
    {"batch", "2"},        {"dtype", "float32"}, {"image", ""},         {"classes", "10"},
    {"features", "12"},    {"hidden", "16"},     {"embedded", "8"},     {"vocab", "24"},
    {"heads", "4"},        {"kv_heads", "2"},    {"head_width", "4"},   {"ffn", "24"},
    {"sequence", "4"},     {"target", "4"},      {"positions", "4"},    {"channels", "4"},
    {"width", "1"},        {"filters", "16"},    {"rotary_width", "4"}, {"value_width", "6"},
    {"query_latent", "8"}, {"key_latent", "8"},  {"expert_ffn", "8"},   {"latent", "8"},
    {"tokens", "4"},       {"window", "1"},      {"rows", "50"},        {"states", "4"},
    {"frames", "8"},       {"mels", "4"}};

// Those that say how many operators it has, or what they compute, keep their default.
const std::set<std::string> deep{
    "layers", "decoder_layers", "tables", "steps", "experts", "top_k", "auxiliary", "objective", "dropout",
    "capacity_factor", "widened", "attention", "token_groups", "batch_norm", "projection", "dense_layers",
    "shared_experts", "zigzag", "document_length", "loss_chunks", "attention_bias", "shared_ffn", "bias",
    "position", "kept", "swiglu", "swiglu_inputs", "dispatch", "token_nodes", "products", "own_at_start",
    "own_at_end", "patch", "blocks", "bag", "expand", "kernel", "anchors", "stitch",
    // The definition of a decoder, which costs nothing.
    "rotary_base", "rotary_scaling", "rotary_factor", "rotary_original", "rotary_low", "rotary_high",
    "rotary_mscale", "rotary_mscale_all", "norm_epsilon", "init_deviation", "expert_shares", "balance_loss",
    "router_groups", "router_top_groups", "router_scale", "further_tokens", "partial", "lora", "lora_targets",
    "lora_dropout", "attention_dropout", "qkv", "base", "base_inputs",
    // Layers of the decoder, which at first has one kind; equal_decoders_test.cc trains the others.
    "mixers", "ffns", "further_ffns", "norm", "norms", "residual", "embedding_norm", "head_norm",
    "attention_gate", "sinks", "score_cap", "logit_cap", "values", "window_heads", "window_kv_heads",
    "window_head_width", "window_value_width", "window_rotary_width", "chunk", "latent_of_keys",
    "latent_of_queries", "latent_rotary_width", "index_heads", "index_width", "index_keys", "index_block",
    "index_by_head", "delta_key_heads", "delta_value_heads", "delta_key_width", "delta_value_width",
    "delta_kernel", "delta_decay", "delta_decay_latent", "delta_gate_latent", "ssm_heads", "ssm_head_width",
    "ssm_groups", "ssm_states", "ssm_kernel", "ssm_chunk", "ssm_rank", "ssm_norms", "activation", "gated",
    "ffn_bias", "expert_bias", "expert_latent", "shared_gate", "router", "projection_bias", "vision_words",
    "vision_layers", "vision_hidden", "vision_heads", "vision_head_width", "vision_ffn",
    "vision_patch_values", "vision_positions", "vision_merged", "vision_pooled", "vision_gated",
    "vision_mergers"};

std::string narrowed(const ZooModel& model) {
  std::string text = model.name;
  for (const ZooOption& option : model.options) {
    if (model.name == "decoder" && !layers_use(option.key, "F", "D")) continue;
    const auto found = narrow.find(option.key);
    if (found == narrow.end()) {
      EXPECT_TRUE(deep.contains(option.key))
          << model.name << " has a new option \"" << option.key << "\": is it a width?";
      continue;
    }
    const auto lowest = static_cast<std::int64_t>(option.lowest);
    const bool narrower = !found->second.empty() && option.kind == ZooOption::Kind::Integer &&
                          std::stoll(found->second) >= lowest;
    const std::string value =
        narrower || option.kind != ZooOption::Kind::Integer ? found->second : fmt::format("{}", lowest);
    text += fmt::format("{}{}={}", text == model.name ? ":" : ",", option.key, value);
  }
  return text;
}

struct ModelName {
  std::string operator()(const testing::TestParamInfo<ZooModel>& instance) const {
    std::string name = instance.param.name;
    std::ranges::replace_if(
        name, [](char c) { return c == '-' || c == '.'; }, '_');
    return name;
  }
};

class EveryModel : public testing::TestWithParam<ZooModel> {};

TEST_P(EveryModel, IsTrainedAStepAtFullDepth) {
  if (is_slow_network(GetParam().name)) GTEST_SKIP() << "a network this large is run without sanitizers";
  const OperatorGraph graph = make_zoo_model(narrowed(GetParam()));
  const Topology topology = make_topology("cpu:1");
  const CostModel costs(topology);
  const ThreadWorld world(1);
  const SyntheticSource source(graph);
  CpuBackend backend(graph, 1, Optimizer::Momentum, unpinned());
  Training training(graph, costs, {}, data_parallel(graph, 1),
                    {backend, source, world.worlds(), world.devices(), 7},
                    [](const TaskDag&, std::span<const TaskId>) { return std::make_unique<RealPace>(); });
  training.keep_values(Training::Keep::Outputs);
  training.step();
  const std::map<TensorId, std::vector<float>>& losses = training.values().outputs;
  EXPECT_FALSE(losses.empty());
  for (const auto& [tensor, values] : losses) {
    ASSERT_EQ(values.size(), 1U) << graph.tensor(tensor).name;
    EXPECT_TRUE(std::isfinite(values[0]) && values[0] > 0) << graph.tensor(tensor).name << " " << values[0];
  }
}

TEST_P(EveryModel, IsEmulatedAsItIsSimulatedAtFullDepth) {
  if (is_slow_network(GetParam().name)) GTEST_SKIP() << "a network this large is run without sanitizers";
  const OperatorGraph graph = make_zoo_model(narrowed(GetParam()));
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  const ThreadWorld world(topology.num_devices());
  const SyntheticSource source(graph);
  EmulatedBackend backend;
  Training training(graph, costs, {}, data_parallel(graph, 2),
                    {backend, source, world.worlds(), world.devices(), 7},
                    [](const TaskDag& dag, std::span<const TaskId> order) {
                      return std::make_unique<EmulatedPace>(dag, order, std::vector<double>(8, 1.0),
                                                            EmulatedPace::Sleep::Never);
                    });
  const StepRecord record = training.step();
  EXPECT_EQ(record.timeline(training.tasks().dag.num_tasks()), training.simulated());
}

INSTANTIATE_TEST_SUITE_P(Zoo, EveryModel, testing::ValuesIn(zoo_models().begin(), zoo_models().end()),
                         ModelName());

}  // namespace
}  // namespace pipesim
