#include "tools/frameworks/megatron_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace pipesim {
namespace {

class SizesReader {
 public:
  SizesReader(const MegatronFile& file, std::int64_t tensor, std::vector<std::string>& left_out)
      : file_(file), tensor_(tensor), left_out_(left_out) {}

  DecoderSizes read() {
    DecoderSizes& s = sizes_;
    s.layers = file_.required("--num-layers");
    s.hidden = file_.required("--hidden-size");
    s.heads = file_.required("--num-attention-heads");
    s.sequence = file_.required("--seq-length");
    s.gated = given("--swiglu");
    s.type = given("--bf16") ? DataType::BFloat16 : given("--fp16") ? DataType::Float16 : DataType::Float32;
    s.float8 = given("--fp8-format");
    s.head_width = file_.count("--kv-channels").value_or(0);
    if (s.head_width == 0 && s.hidden % s.heads != 0)
      file_.fail("--num-attention-heads",
                 fmt::format("found {}, allowed: a divisor of --hidden-size {}, or --kv-channels as well",
                             s.heads, s.hidden));
    if (s.head_width == 0) s.head_width = s.hidden / s.heads;
    s.kv_heads = given("--group-query-attention") ? file_.count("--num-query-groups").value_or(1) : s.heads;
    // SwiGLU has three products where GELU has two: two thirds of the width, in multiples of 64.
    constexpr std::int64_t kMultiple = 64;
    const std::int64_t usual = s.gated ? 4 * s.hidden * 2 / 3 / kMultiple * kMultiple : 4 * s.hidden;
    s.ffn = file_.count("--ffn-hidden-size").value_or(usual);
    s.head_norm = given("--qk-layernorm");
    constexpr double kUsualEpsilon = 1e-5, kUsualDeviation = 0.02;
    s.norm_epsilon = file_.rate("--norm-epsilon").value_or(kUsualEpsilon);
    s.init_deviation = file_.rate("--init-method-std").value_or(kUsualDeviation);
    s.tied = !given("--untie-embeddings-and-output-weights");
    const std::string backend = file_.text("--attention-backend").value_or("auto");
    s.writes_scores = backend == "unfused" || backend == "local";
    read_positions();
    read_biases();
    read_vocabulary();
    if (file_.count("--num-experts", 0).value_or(0) > 1) read_experts();
    if (given("--multi-latent-attention")) read_latent();
    if (sizes_.positions == 0) read_rotary();
    read_what_the_zoo_fixes();
    return sizes_;
  }

 private:
  [[nodiscard]] bool given(std::string_view flag) const { return file_.given(flag); }
  void leave_out(std::string_view flag, const std::string& what) {
    left_out_.push_back(fmt::format("{}: {}", flag, what));
  }

  void read_positions() {
    const std::string type = given("--use-rotary-position-embeddings")
                                 ? "rope"
                                 : file_.text("--position-embedding-type").value_or("learned_absolute");
    if (type == "learned_absolute") {
      sizes_.positions = file_.count("--max-position-embeddings").value_or(sizes_.sequence);
    } else if (type != "rope" && type != "yarn") {
      file_.fail("--position-embedding-type",
                 fmt::format("found \"{}\", allowed: learned_absolute, rope, yarn", type));
    }
    yarn_ = type == "yarn";
  }

  void read_rotary() {
    using Way = RotaryScaling::Way;
    constexpr double kUsualBase = 10000, kUsualFactor = 8;
    sizes_.rotary_base = file_.factor("--rotary-base").value_or(kUsualBase);
    if (const auto share = file_.factor("--rotary-percent"); share && *share != 1)
      leave_out("--rotary-percent", fmt::format("{}: heads are rotated whole", *share));
    if (sizes_.latent) return read_latent_scaling();
    if (yarn_) {
      read_yarn();
    } else if (given("--use-rope-scaling")) {
      sizes_.rotary_scaling =
          RotaryScaling{.way = Way::Llama3,
                        .factor = file_.factor("--rope-scaling-factor").value_or(kUsualFactor),
                        .original = 8192,
                        .low = 1,
                        .high = 4};
    } else if (const auto factor = file_.count("--rotary-seq-len-interpolation-factor")) {
      sizes_.rotary_scaling = RotaryScaling{.way = Way::Linear, .factor = static_cast<double>(*factor)};
    }
  }

  void read_yarn() {
    constexpr std::int64_t kUsualOriginal = 4096;
    constexpr double kUsualSlow = 1, kUsualFast = 32, kUsualScale = 1;
    RotaryScaling scaling{.way = RotaryScaling::Way::Yarn};
    scaling.factor = file_.factor("--rotary-scaling-factor").value_or(1);
    scaling.original = file_.count("--yarn-original-max-position-embeddings").value_or(kUsualOriginal);
    scaling.low = file_.factor("--yarn-beta-slow").value_or(kUsualSlow);
    scaling.high = file_.factor("--yarn-beta-fast").value_or(kUsualFast);
    scaling.mscale = file_.real("--mscale").value_or(kUsualScale);
    scaling.mscale_all = file_.real("--mscale-all-dim").value_or(0);
    sizes_.rotary_scaling = scaling;
  }

  // YaRN unless told otherwise; a factor of 1 changes nothing.
  void read_latent_scaling() {
    if (file_.text("--rope-type").value_or("yarn") != "rope") read_yarn();
    if (sizes_.rotary_scaling && sizes_.rotary_scaling->factor == 1) sizes_.rotary_scaling.reset();
  }

  void read_biases() {
    using Biases = DecoderSizes::Biases;
    if (!given("--disable-bias-linear")) {
      sizes_.biases = Biases::Layers;
    } else if (given("--add-qkv-bias")) {
      sizes_.biases = Biases::Qkv;
    }
  }

  // Filled up to a multiple of what tp divides.
  void read_vocabulary() {
    constexpr std::int64_t kMultiple = 128;
    if (const auto padded = file_.count("--padded-vocab-size")) {
      sizes_.vocabulary = *padded;
      return;
    }
    const std::int64_t step = tensor_ * file_.count("--make-vocab-size-divisible-by").value_or(kMultiple);
    std::int64_t words = 0;
    if (const auto size = file_.count("--vocab-size")) {
      words = *size + (file_.text("--tokenizer-type") == "NullTokenizer" ? 1 : 0);
    } else {
      constexpr std::int64_t kWordsOfGpt2 = 50257;
      words = kWordsOfGpt2;
      leave_out("--vocab-size", fmt::format("missing, as where a tokenizer's files tell it; taken is that "
                                            "of GPT-2, {}",
                                            words));
    }
    sizes_.vocabulary = (words + step - 1) / step * step;
  }

  void read_experts() {
    DecoderExperts e;
    e.count = *file_.count("--num-experts");
    constexpr std::int64_t kUsualTopK = 2;
    e.top_k = file_.count("--moe-router-topk").value_or(kUsualTopK);
    e.ffn = file_.count("--moe-ffn-hidden-size").value_or(sizes_.ffn);
    e.shared_ffn = file_.count("--moe-shared-expert-intermediate-size", 0).value_or(0);
    e.capacity = file_.factor("--moe-expert-capacity-factor").value_or(1);
    read_router(e);
    if (const auto pattern = file_.text("--moe-layer-freq"); pattern && *pattern != "1")
      e.dense_layers = dense_layers_of(*pattern);
    if (!given("--multi-latent-attention")) {
      if (e.dense_layers > 0)
        file_.fail("--moe-layer-freq",
                   "dense layers in front are of --multi-latent-attention alone, "
                   "allowed: 1, experts in every layer");
      sizes_.ffn = e.ffn;
    }
    sizes_.experts = e;
  }

  void read_router(DecoderExperts& e) {
    const bool latent = given("--multi-latent-attention");
    e.gated_shared = !latent && e.shared_ffn > 0;
    if (e.gated_shared && !given("--moe-shared-expert-gate"))
      leave_out("--moe-shared-expert-gate", "missing; shared experts have a gate of their own");
    e.chosen_shares = latent || !given("--moe-router-pre-softmax");
    if (file_.text("--moe-router-load-balancing-type").value_or("aux_loss") != "none")
      e.balance_loss = file_.real("--moe-aux-loss-coeff").value_or(0);
    if (latent) e.groups = file_.count("--moe-router-num-groups").value_or(1);
    if (latent) e.top_groups = file_.count("--moe-router-group-topk").value_or(1);
    if (latent) e.scale = file_.factor("--moe-router-topk-scaling-factor").value_or(1);
    if (sizes_.gated) return;
    if (sizes_.biases == DecoderSizes::Biases::Layers)
      leave_out("--disable-bias-linear", "missing; experts have no biases without --swiglu");
    if (e.chosen_shares)
      leave_out("--moe-router-pre-softmax", "missing; weights of experts are shares of all without --swiglu");
    e.chosen_shares = false;
    e.balance_loss = 0;
  }

  // "([0]*3+[1]*58)".
  [[nodiscard]] std::int64_t dense_layers_of(const std::string& pattern) const {
    for (std::int64_t dense = 1; dense < sizes_.layers; ++dense) {
      const std::string inside = fmt::format("[0]*{}+[1]*{}", dense, sizes_.layers - dense);
      if (pattern == inside || pattern == "(" + inside + ")") return dense;
    }
    file_.fail("--moe-layer-freq",
               fmt::format("found \"{}\", allowed: 1, or ([0]*D+[1]*E) with D dense layers in front of E "
                           "others",
                           pattern));
  }

  void read_latent() {
    constexpr std::int64_t kRank = 32, kWidth = 128, kRotary = 64;  // the arguments' defaults
    if (!given("--q-lora-rank")) file_.fail("--q-lora-rank", "is missing, and the zoo's model has one");
    sizes_.latent = LatentAttention{
        file_.required("--q-lora-rank"), file_.count("--kv-lora-rank").value_or(kRank),
        file_.count("--qk-pos-emb-head-dim").value_or(kRotary), file_.count("--v-head-dim").value_or(kWidth)};
    sizes_.head_width = file_.count("--qk-head-dim").value_or(kWidth);
    sizes_.kv_heads = sizes_.heads;
    if (!sizes_.head_norm) leave_out("--qk-layernorm", "missing; latents have norms");
    sizes_.head_norm = false;
    if (!sizes_.experts || !sizes_.gated)
      file_.fail("--multi-latent-attention", "goes with --num-experts and --swiglu, as in DeepSeek-V3");
    if (sizes_.experts->shared_ffn % sizes_.experts->ffn != 0)
      file_.fail("--moe-shared-expert-intermediate-size",
                 fmt::format("found {}, allowed: a multiple of --moe-ffn-hidden-size {}",
                             sizes_.experts->shared_ffn, sizes_.experts->ffn));
  }

  // The zoo's networks come whole: what a run combines otherwise is told.
  void read_what_the_zoo_fixes() {
    DecoderSizes& s = sizes_;
    constexpr double kUsualDropout = 0.1;
    const double dropout = file_.rate("--hidden-dropout").value_or(kUsualDropout);
    if (const auto scores = file_.rate("--attention-dropout"); scores && *scores > 0)
      leave_out("--attention-dropout", "no scores are dropped");
    const std::string norm = file_.text("--normalization").value_or("LayerNorm");
    if (!s.gated) {
      s.dropout = dropout;
      if (norm != "LayerNorm") leave_out("--normalization", norm + " is taken as LayerNorm without --swiglu");
      if (s.head_norm) leave_out("--qk-layernorm", "queries and keys have no norms without --swiglu");
      if (s.head_width * s.heads != s.hidden)
        file_.fail("--kv-channels", "without --swiglu, heads are as wide as --hidden-size by their number");
      if (s.biases == DecoderSizes::Biases::Qkv)
        leave_out("--add-qkv-bias", "products have no biases without --swiglu");
      if (s.biases == DecoderSizes::Biases::Qkv) s.biases = DecoderSizes::Biases::None;
      s.head_norm = false;
      return;
    }
    if (dropout > 0)
      leave_out("--hidden-dropout", fmt::format("{}: nothing is dropped with --swiglu", dropout));
    if (norm != "RMSNorm") leave_out("--normalization", norm + " is taken as RMSNorm with --swiglu");
    if (s.positions > 0)
      leave_out("--position-embedding-type", "learned positions are taken as rotary with --swiglu");
    if (s.positions > 0) s.positions = 0, read_rotary();
    if (s.biases == DecoderSizes::Biases::Layers) {
      leave_out("--disable-bias-linear",
                "missing; products have no biases with --swiglu, but for queries, "
                "keys and values");
      s.biases = DecoderSizes::Biases::Qkv;
    }
    if (s.latent && s.tied) {
      leave_out("--untie-embeddings-and-output-weights", "missing; the projection has its own weight");
      s.tied = false;
    }
    if (s.latent) s.biases = DecoderSizes::Biases::None;
  }

  const MegatronFile& file_;
  std::int64_t tensor_;
  std::vector<std::string>& left_out_;
  DecoderSizes sizes_;
  bool yarn_ = false;  // --position-embedding-type
};

}  // namespace

DecoderSizes megatron_sizes(const MegatronFile& file, std::int64_t tensor,
                            std::vector<std::string>& left_out) {
  return SizesReader(file, tensor, left_out).read();
}

}  // namespace pipesim
