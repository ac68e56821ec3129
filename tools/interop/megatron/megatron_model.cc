#include "tools/interop/megatron/megatron_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tools/interop/megatron/megatron_runtime.h"
#include "tools/interop/megatron/megatron_sizes.h"

namespace pipesim {
namespace {

// The minor numbers of Megatron core with which arguments came.
constexpr int kLatentFusion = 13, kBlockScales = 13, kFourBits = 15, kPaddedVocabulary = 14, kRopeType = 14,
              kSharedGate = 16, kYarn = 19;
// From then on experts are grouped in all types, and tp may be a multiple of the heads of keys and values.
constexpr int kAnyGroups = 16;

// Fixed in megatron/core/models/common/embeddings: Llama 3's scaling in rotary_pos_embedding.py, YaRN of
// latent attention as transformer_config.py has it, for which no argument exists.
constexpr std::int64_t kLlama3Original = 8192, kYarnOriginal = 4096;
constexpr double kLlama3Low = 1, kLlama3High = 4, kYarnSlow = 1, kYarnFast = 32;

using Way = RotaryScaling::Way;

bool is_whole(double value) {
  return std::floor(value) == value && value <= static_cast<double>(std::numeric_limits<std::int32_t>::max());
}

void refuse_latent_scaling(const DecoderSizes& s, RuleCheck& check) {
  if (!s.rotary_scaling) return;
  const RotaryScaling& r = *s.rotary_scaling;
  if (r.way != Way::Yarn) {
    check.refuse([&] {
      return Refusal{fmt::format("rotary_scaling={}", r.way == Way::Linear ? "linear" : "llama3"),
                     "--multi-latent-attention stretches positions by YaRN or not at all",
                     {}};
    });
  } else if (r.original != kYarnOriginal || r.low != kYarnSlow || r.high != kYarnFast) {
    check.refuse([&] {
      return Refusal{
          fmt::format("rotary_original={},rotary_low={},rotary_high={}", r.original, r.low, r.high),
          fmt::format("--multi-latent-attention stretches {} positions, from {} to {} turns", kYarnOriginal,
                      kYarnSlow, kYarnFast),
          {}};
    });
  }
}

void refuse_plain_scaling(const FrameworkPlan& plan, RuleCheck& check) {
  if (!plan.sizes.rotary_scaling) return;
  const RotaryScaling& r = *plan.sizes.rotary_scaling;
  if (r.way == Way::Yarn && megatron_version(plan).number < kYarn)
    check.refuse([&] {
      return Refusal{"rotary_scaling=yarn", "--position-embedding-type yarn came with core 0.19", {}};
    });
  if (r.way == Way::Linear && !is_whole(r.factor))
    check.refuse([&] {
      return Refusal{fmt::format("rotary_factor={}", r.factor),
                     "--rotary-seq-len-interpolation-factor is a whole number",
                     {}};
    });
  if (r.way == Way::Llama3 && (r.original != kLlama3Original || r.low != kLlama3Low || r.high != kLlama3High))
    check.refuse([&] {
      return Refusal{
          fmt::format("rotary_original={},rotary_low={},rotary_high={}", r.original, r.low, r.high),
          fmt::format("--use-rope-scaling stretches {} positions, with factors {} and {}", kLlama3Original,
                      kLlama3Low, kLlama3High),
          {}};
    });
}

void refuse_router(const FrameworkPlan& plan, RuleCheck& check) {
  const DecoderExperts& e = *plan.sizes.experts;
  if (plan.sizes.biases == DecoderSizes::Biases::Layers)
    check.refuse([&] {
      return Refusal{"bias=yes with experts", "experts have biases wherever other products have them", {}};
    });
  if (e.gated_shared && megatron_version(plan).number < kSharedGate)
    check.refuse([&] {
      return Refusal{fmt::format("shared_ffn={}", e.shared_ffn),
                     "--moe-shared-expert-gate, for shared experts with a gate, came with core 0.16",
                     {}};
    });
  if (plan.dispatcher == Dispatcher::HybridEp && megatron_version(plan).number < kMegatronBackends)
    check.refuse([&] {
      return Refusal{"dispatcher=hybridep", "--moe-flex-dispatcher-backend came with core 0.16",
                     [](FrameworkPlan& p) { p.dispatcher = Dispatcher::DeepEp; }};
    });
  if (e.groups > 1 && (e.count % e.groups != 0 || e.top_groups > e.groups || e.top_k % e.top_groups != 0))
    check.refuse([&] {
      return Refusal{
          fmt::format("router_groups={},router_top_groups={}", e.groups, e.top_groups),
          fmt::format(
              "--moe-router-num-groups divides {} experts, and --moe-router-group-topk the {} of a token",
              e.count, e.top_k),
          {}};
    });
  if (e.chosen_shares && !plan.sizes.latent && e.top_k == 1)
    check.refuse([&] {
      return Refusal{"expert_shares=chosen with top_k=1",
                     "a single expert's weight is its share of all, by --moe-router-pre-softmax",
                     {}};
    });
}

// Multi-latent attention has YaRN unless told otherwise; before --rope-type, a factor of 1 switches it off.
void write_latent_positions(const FrameworkPlan& plan, MegatronWriter& w) {
  const DecoderSizes& s = plan.sizes;
  if (!s.rotary_scaling && megatron_version(plan).number >= kRopeType) {
    w.add("--rope-type", "rope");
    w.flag("--no-rope-fusion");  // which is for YaRN alone
    return;
  }
  if (megatron_version(plan).number < kLatentFusion) w.flag("--no-rope-fusion");
  if (megatron_version(plan).number >= kRopeType) w.add("--rope-type", "yarn");
  w.add("--rotary-scaling-factor", s.rotary_scaling ? s.rotary_scaling->factor : 1);
  w.add("--mscale", s.rotary_scaling ? s.rotary_scaling->mscale : 1);
  w.add("--mscale-all-dim", s.rotary_scaling ? s.rotary_scaling->mscale_all : 0);
}

void write_plain_scaling(const RotaryScaling& r, MegatronWriter& w) {
  if (r.way == Way::Linear)
    w.add("--rotary-seq-len-interpolation-factor", static_cast<std::int64_t>(r.factor));
  if (r.way == Way::Llama3) {
    w.flag("--use-rope-scaling");
    w.add("--rope-scaling-factor", r.factor);
  }
  if (r.way != Way::Yarn) return;
  w.add("--rotary-scaling-factor", r.factor);
  w.add("--yarn-original-max-position-embeddings", r.original);
  w.add("--yarn-beta-slow", r.low);
  w.add("--yarn-beta-fast", r.high);
  w.add("--mscale", r.mscale);
  w.add("--mscale-all-dim", r.mscale_all);
}

void write_positions(const FrameworkPlan& plan, MegatronWriter& w) {
  const DecoderSizes& s = plan.sizes;
  w.add("--max-position-embeddings", std::max(s.sequence, s.positions));
  if (s.positions > 0) return w.add("--position-embedding-type", "learned_absolute");
  const bool yarn = !s.latent && s.rotary_scaling && s.rotary_scaling->way == Way::Yarn;
  w.add("--position-embedding-type", yarn ? "yarn" : "rope");
  w.add("--rotary-base", static_cast<std::int64_t>(s.rotary_base));
  w.add("--rotary-percent", 1);
  if (s.latent) return write_latent_positions(plan, w);
  if (s.rotary_scaling) write_plain_scaling(*s.rotary_scaling, w);
}

void write_attention(const DecoderSizes& s, MegatronWriter& w) {
  w.add("--num-attention-heads", s.heads);
  if (s.writes_scores) w.add("--attention-backend", "unfused");
  if (s.latent) {
    w.flag("--multi-latent-attention");
    if (s.latent->query_rank > 0) w.add("--q-lora-rank", s.latent->query_rank);
    w.add("--kv-lora-rank", s.latent->key_rank);
    w.add("--qk-head-dim", s.head_width);
    w.add("--qk-pos-emb-head-dim", s.latent->rotary_width);
    w.add("--v-head-dim", s.latent->value_width);
    w.flag("--qk-layernorm");  // of the latents
    return;
  }
  if (s.head_width * s.heads != s.hidden) w.add("--kv-channels", s.head_width);
  if (s.kv_heads != s.heads) {
    w.flag("--group-query-attention");
    w.add("--num-query-groups", s.kv_heads);
  }
  if (s.head_norm) w.flag("--qk-layernorm");
}

// DeepSeek-V3's: sigmoids in float32, and a bias of each expert that balances the load beside the loss.
void write_sigmoid_router(const DecoderExperts& e, MegatronWriter& w) {
  w.add("--moe-router-score-function", "sigmoid");
  w.add("--moe-router-dtype", "fp32");
  w.flag("--moe-router-enable-expert-bias");
  w.add("--moe-router-bias-update-rate", 0.001);
  if (e.groups > 1) {
    w.add("--moe-router-num-groups", e.groups);
    w.add("--moe-router-group-topk", e.top_groups);
  }
  w.add("--moe-router-topk-scaling-factor", e.scale);
}

void write_router(const DecoderSizes& s, MegatronWriter& w) {
  const DecoderExperts& e = *s.experts;
  w.add("--moe-router-topk", e.top_k);
  if (s.latent) {
    write_sigmoid_router(e, w);
  } else {
    w.add("--moe-router-score-function", "softmax");
    if (!e.chosen_shares) w.flag("--moe-router-pre-softmax");
  }
  const char* const balanced = s.latent ? "seq_aux_loss" : "aux_loss";
  w.add("--moe-router-load-balancing-type", e.balance_loss > 0 ? balanced : "none");
  w.add("--moe-aux-loss-coeff", e.balance_loss);
}

void write_experts(const FrameworkPlan& plan, MegatronWriter& w) {
  const DecoderSizes& s = plan.sizes;
  const DecoderExperts& e = *s.experts;
  w.add("--num-experts", e.count);
  write_router(s, w);
  w.add("--moe-ffn-hidden-size", e.ffn);
  if (e.shared_ffn > 0) w.add("--moe-shared-expert-intermediate-size", e.shared_ffn);
  if (e.gated_shared) w.flag("--moe-shared-expert-gate");
  if (e.dense_layers > 0)
    w.add("--moe-layer-freq", fmt::format("([0]*{}+[1]*{})", e.dense_layers, s.layers - e.dense_layers));
  if (e.capacity != 1) {
    w.add("--moe-expert-capacity-factor", e.capacity);
    w.flag("--moe-pad-expert-input-to-capacity");
  }
  write_megatron_dispatcher(plan, w);
  if (s.type == DataType::BFloat16 || megatron_version(plan).number >= kAnyGroups)
    w.flag("--moe-grouped-gemm");
}

// Filled up to what tp divides, and no further: the default is a multiple of 128 tp.
void write_vocabulary(const FrameworkPlan& plan, MegatronWriter& w) {
  const std::int64_t tp = plan.recipe.tensor;
  if (megatron_version(plan).number >= kPaddedVocabulary) {
    w.add("--padded-vocab-size", (plan.sizes.vocabulary + tp - 1) / tp * tp);
  } else {
    w.add("--make-vocab-size-divisible-by", 1);
  }
}

void write_products(const DecoderSizes& s, MegatronWriter& w) {
  if (s.products == "own") return;
  if (s.products == "nvfp4") {
    w.add("--fp4-format", "e2m1");
  } else {
    w.add("--fp8-format", "hybrid");
    if (const auto* known = std::ranges::find(kMegatronRecipes, s.products, &MegatronPrecision::products);
        known != kMegatronRecipes.begin())
      w.add("--fp8-recipe", std::string(known->recipe));
  }
  if (s.own_at_start + s.own_at_end == 0) return;
  w.flag("--first-last-layers-bf16");
  w.add("--num-layers-at-start-in-bf16", s.own_at_start);
  w.add("--num-layers-at-end-in-bf16", s.own_at_end);
}

void refuse_products(const FrameworkPlan& plan, RuleCheck& check) {
  const DecoderSizes& s = plan.sizes;
  const int version = megatron_version(plan).number;
  const auto refuse = [&](const std::string& reason) {
    check.refuse([&] { return Refusal{"products=" + s.products, reason, {}}; });
  };
  if (s.products == "fp8-block" && version < kBlockScales)
    refuse(fmt::format("--fp8-recipe blockwise came with core 0.{}", kBlockScales));
  if (s.products == "nvfp4" && version < kFourBits)
    refuse(fmt::format("--fp4-format came with core 0.{}", kFourBits));
  if (s.products == "fp8-delayed" && s.own_at_start + s.own_at_end > 0)
    refuse("--first-last-layers-bf16 needs scales of the same iteration");
}

}  // namespace

std::string MegatronWriter::text(double value) { return fmt::format("{}", value); }

void write_megatron_model(const FrameworkPlan& plan, MegatronWriter& w) {
  const DecoderSizes& s = plan.sizes;
  w.add("--num-layers", s.layers);
  w.add("--hidden-size", s.hidden);
  w.add("--ffn-hidden-size", s.ffn);
  write_attention(s, w);
  w.add("--seq-length", s.sequence);
  write_positions(plan, w);
  w.add("--normalization", s.gated ? "RMSNorm" : "LayerNorm");
  w.add("--norm-epsilon", s.norm_epsilon);
  if (s.gated) w.flag("--swiglu");
  if (s.separate_gate) w.flag("--no-bias-swiglu-fusion");
  if (s.biases != DecoderSizes::Biases::Layers) w.flag("--disable-bias-linear");
  if (s.biases == DecoderSizes::Biases::Qkv) w.flag("--add-qkv-bias");
  if (!s.tied) w.flag("--untie-embeddings-and-output-weights");
  w.add("--hidden-dropout", s.dropout);
  w.add("--attention-dropout", 0);
  w.add("--init-method-std", s.init_deviation);
  write_vocabulary(plan, w);
  if (s.further_tokens > 0) w.add("--mtp-num-layers", s.further_tokens);
  if (s.experts) write_experts(plan, w);
  if (s.type == DataType::BFloat16) w.flag("--bf16");
  if (s.type == DataType::Float16) w.flag("--fp16");
  write_products(s, w);
}

void refuse_megatron_groups(const FrameworkPlan& plan, RuleCheck& check) {
  const DecoderSizes& s = plan.sizes;
  if (megatron_version(plan).number < kAnyGroups && !s.latent && s.kv_heads % plan.recipe.tensor != 0)
    check.refuse([&] {
      return Refusal{fmt::format("tp{} with kv_heads={}", plan.recipe.tensor, s.kv_heads),
                     "before core 0.16, --num-query-groups is a multiple of tp",
                     amend_recipe([heads = s.kv_heads](Recipe& recipe) {
                       const std::int64_t tensor = std::gcd(recipe.tensor, heads);
                       recipe.data *= recipe.tensor / tensor;
                       recipe.tensor = tensor;
                       recipe.sequence_parallel = recipe.sequence_parallel && tensor > 1;
                     })};
    });
}

void refuse_megatron_definition(const FrameworkPlan& plan, RuleCheck& check) {
  const DecoderSizes& s = plan.sizes;
  if (const auto refusal = partial_model(plan)) check.refuse([&] { return *refusal; });
  if (const auto refusal = adapted_model(plan)) check.refuse([&] { return *refusal; });
  if (!is_whole(s.rotary_base))
    check.refuse([&] {
      return Refusal{fmt::format("rotary_base={}", s.rotary_base),
                     "--rotary-base is a whole number up to 2147483647",
                     {}};
    });
  if (s.latent) refuse_latent_scaling(s, check);
  if (!s.latent) refuse_plain_scaling(plan, check);
  if (s.experts) refuse_router(plan, check);
  refuse_products(plan, check);
  refuse_megatron_graphs(plan, check);
}

}  // namespace pipesim
