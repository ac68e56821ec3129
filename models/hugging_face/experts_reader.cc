#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "models/hugging_face/decoder_reader.h"
#include "models/zoo/decoder/decoder_layers.h"

namespace pipesim {
namespace {

constexpr double kLargestWeight = 1e3;

struct ActivationName {
  std::string_view written, taken;
};
// Names in Transformers' ACT2FN and those of models that have their own.
constexpr std::array kActivations{
    ActivationName{"silu", "silu"},        ActivationName{"swish", "silu"},
    ActivationName{"gelu", "gelu"},        ActivationName{"gelu_new", "gelu"},
    ActivationName{"gelu_fast", "gelu"},   ActivationName{"gelu_pytorch_tanh", "gelu"},
    ActivationName{"gelu_python", "gelu"}, ActivationName{"relu", "relu"},
    ActivationName{"relu2", "relu2"},      ActivationName{"squared_relu", "relu2"}};

std::int64_t width_of_shared(const ConfigReader& c, const DecoderFamily& family, std::int64_t expert) {
  const std::int64_t count =
      c.size_or({"n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert"}, 0);
  if (const auto width = c.value({"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
                                  "shared_intermediate_size", "share_expert_dim"}))
    return width->integer(0, std::int64_t{1} << 19);
  if (family.type == "llama4_text") return expert;
  return count * expert;
}

std::string router_of(const ConfigReader& c, const DecoderFamily& family, DecoderFeatures& f) {
  const auto function =
      c.word({"scoring_func", "moe_router_activation_func", "router_score_function", "score_function"});
  if (!function) return std::string(family.router);
  if (*function == "softmax" || *function == "sigmoid") return *function;
  f.left_out.push_back(
      fmt::format("scoring_func = \"{}\": sigmoid is taken, known are softmax and sigmoid", *function));
  return "sigmoid";
}

}  // namespace

std::string activation_of(const ConfigReader& c, const DecoderFamily& family, DecoderFeatures& f) {
  const auto given =
      c.value({"hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act", "activation"});
  if (!given) return std::string(family.activation);
  const std::string name = given->string();
  const auto known = std::ranges::find(kActivations, name, &ActivationName::written);
  if (known != kActivations.end()) return std::string(known->taken);
  f.left_out.push_back(fmt::format("{} = \"{}\": {} is taken", key_of(*given), name, family.activation));
  return std::string(family.activation);
}

void read_experts(const ConfigReader& c, const DecoderFamily& family, DecoderFeatures& f) {
  c.pass_over({"topk_method", "moe_router_dtype", "use_routing_bias", "use_moe_router_bias", "norm_topk_prob",
               "moe_shared_expert_overlap", "router_jitter_noise", "use_grouped_topk", "moe_renormalize",
               "router_aux_loss_coef", "aux_loss_alpha", "n_group", "topk_group", "num_expert_group",
               "expert_dtype", "routed_scaling_factor", "moe_router_scaling_factor", "router_z_loss_coef"});
  c.pass_over({"moe_layer_freq", "decoder_sparse_step", "mlp_only_layers", "first_k_dense_replace",
               "moe_layer_end_index", "moe_layers", "num_dense_layers"});
  const ConfigReader::Names counts{"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"};
  const ConfigReader::Names chosen{
      "num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_top_k", "moe_topk", "moe_k",
      "experts_per_token"};
  const bool routed = f.ffns.find_first_of("EB") != std::string::npos;
  if (!routed) {
    if (const auto count = c.value(chosen); count && !says_nothing(*count) && !c.value(counts))
      f.left_out.push_back(fmt::format("{} = {}: the config names no experts, so layers are dense",
                                       key_of(*count), count->text()));
    c.pass_over(counts);
    c.pass_over(chosen);
    c.pass_over({"moe_intermediate_size", "moe_layer_freq", "decoder_sparse_step"});
    return;
  }
  ExpertFeatures e;
  e.count = c.size(counts);
  e.top_k = c.size(chosen);
  if (e.top_k > e.count)
    c.value(chosen)->fail(fmt::format("found {}, allowed: up to \"{}\", which is {}", e.top_k,
                                      key_of(*c.value(counts)), e.count));
  // Models that name the width of dense parts call that of experts intermediate_size.
  e.ffn = c.size_or({"moe_intermediate_size", "expert_intermediate_size", "moe_ffn_hidden_size"},
                    c.size_or({"intermediate_size"}, f.ffn));
  if (e.ffn == f.ffn && c.value("first_k_dense_replace") && !c.value("moe_intermediate_size"))
    f.left_out.push_back(
        fmt::format("moe_intermediate_size is missing: experts are as wide as dense parts, {}", e.ffn));
  e.latent = c.size_or({"moe_latent_size", "routed_expert_hidden_size"}, 0);
  e.shared_ffn = width_of_shared(c, family, e.ffn);
  e.shared_gate = family.shared_gate && e.shared_ffn > 0;
  e.bias = family.expert_bias;
  e.router = router_of(c, family, f);
  e.chosen_shares = c.flag_or({"norm_topk_prob", "moe_renormalize"}, family.chosen_shares);
  e.balance_loss =
      c.number_or({"router_aux_loss_coef", "aux_loss_alpha"}, 0, kLargestWeight, family.balance_loss);
  e.scale = c.number_or({"routed_scaling_factor", "moe_router_scaling_factor"}, 0, kLargestWeight, 1);
  e.groups = std::max<std::int64_t>(c.size_or({"n_group", "num_expert_group"}, 1), 1);
  e.top_groups = std::max<std::int64_t>(c.size_or({"topk_group"}, 1), 1);
  if (e.count % e.groups != 0)
    c.value({"n_group", "num_expert_group"})
        ->fail(fmt::format("found {}, allowed: a divisor of the {} experts", e.groups, e.count));
  if (e.top_groups > e.groups)
    c.value("topk_group")
        ->fail(fmt::format("found {}, allowed: up to the {} groups", e.top_groups, e.groups));
  if (e.groups > 1)
    f.overruled.emplace_back(
        "token_nodes",
        fmt::format("n_group = {}: tokens go to experts of all groups; token_nodes={} says that "
                    "those of a token are on so many nodes",
                    e.groups, e.top_groups));
  f.experts = e;
}

}  // namespace pipesim
