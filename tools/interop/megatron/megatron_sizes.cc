#include "tools/interop/megatron/megatron_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <string_view>

namespace pipesim {
namespace {

// Words of tokenizers, by a part of their names or those of their models.
struct KnownTokenizer {
  std::string_view name;
  std::int64_t words;
};
constexpr std::array kTokenizers = std::to_array<KnownTokenizer>({
    {"byte-level-bpe-tokenizer-no-norm-250k", 250680},  // BLOOM's
    {"bigscience/bloom", 250680},
    {"bigscience/tokenizer", 250680},
    {"google/mt5", 250100},
    {"t5-small", 32100},
    {"oscar-13-languages", 250000},
    {"mistral", 32000},
    {"mixtral", 32000},
    {"llama-2", 32000},
    {"llama2", 32000},
    {"llama-3", 128256},
    {"llama3", 128256},
    {"qwen", 151936},
    {"deepseek", 129280},
    {"gpt2", 50257},
});
constexpr std::array kTokenizerTypes = std::to_array<KnownTokenizer>({
    {"GPT2BPETokenizer", 50257},
    {"BertWordPieceLowerCase", 30522},
    {"BertWordPieceCase", 28996},
    {"Llama2Tokenizer", 32000},
});

class SizesReader {
 public:
  SizesReader(const MegatronFile& file, std::int64_t tensor, std::vector<std::string>& left_out)
      : file_(file), tensor_(tensor), left_out_(left_out) {}

  DecoderSizes read() {
    DecoderSizes& s = sizes_;
    s.layers = is_t5(file_) && !given("--num-layers") ? file_.required("--encoder-num-layers")
                                                      : file_.required("--num-layers");
    s.hidden = file_.required("--hidden-size");
    s.heads = file_.required("--num-attention-heads");
    s.sequence = given("--seq-length") || !given("--encoder-seq-length")
                     ? file_.required("--seq-length")
                     : file_.required("--encoder-seq-length");
    read_gates();
    s.type = given("--bf16") ? DataType::BFloat16 : given("--fp16") ? DataType::Float16 : DataType::Float32;
    read_products();
    s.head_width = file_.count("--kv-channels").value_or(0);
    if (s.head_width == 0 && s.hidden % s.heads != 0)
      file_.fail("--num-attention-heads",
                 fmt::format("found {}, allowed: a divisor of --hidden-size {}, or --kv-channels as well",
                             s.heads, s.hidden));
    if (s.head_width == 0) s.head_width = s.hidden / s.heads;
    s.kv_heads = given("--group-query-attention") ? file_.count("--num-query-groups").value_or(1) : s.heads;
    // SwiGLU has three products where GELU has two: two thirds of the width, in multiples of 64.
    constexpr std::int64_t kMultiple = 64;
    const bool two_thirds = given("--swiglu") && !given("--deepspeed");
    const std::int64_t usual = two_thirds ? 4 * s.hidden * 2 / 3 / kMultiple * kMultiple : 4 * s.hidden;
    s.ffn = file_.count("--ffn-hidden-size").value_or(usual);
    s.head_norm = given("--qk-layernorm");
    constexpr double kUsualEpsilon = 1e-5, kUsualDeviation = 0.02;
    s.norm_epsilon = file_.rate("--norm-epsilon").value_or(kUsualEpsilon);
    s.init_deviation = file_.rate("--init-method-std").value_or(kUsualDeviation);
    s.tied = !given("--untie-embeddings-and-output-weights");
    read_attention();
    read_positions();
    read_biases();
    read_vocabulary();
    if (file_.count("--num-experts", 0).value_or(0) > 1) read_experts();
    if (given("--multi-latent-attention")) read_latent();
    read_further_tokens();
    if (sizes_.positions == 0) read_rotary();
    read_what_the_zoo_fixes();
    return sizes_;
  }

 private:
  [[nodiscard]] bool given(std::string_view flag) const { return file_.given(flag); }
  void leave_out(std::string_view flag, const std::string& what) {
    left_out_.push_back(fmt::format("{}: {}", flag, what));
  }

  void read_gates() {
    sizes_.gated = given("--swiglu") || given("--glu-activation") || given("--quick-geglu") ||
                   given("--gated-linear-unit");
    sizes_.separate_gate = sizes_.gated && given("--no-bias-swiglu-fusion");
    const std::string activation = file_.text("--glu-activation").value_or("swiglu");
    if (activation != "swiglu") leave_out("--glu-activation", activation + " is taken as swiglu");
    if (given("--quick-geglu")) leave_out("--quick-geglu", "gates are taken with SiLU");
  }

  // Without a recipe, scales are of earlier iterations; with layers in bfloat16, these are the first and the
  // last one (megatron/core/transformer/transformer_config.py).
  void read_products() {
    DecoderSizes& s = sizes_;
    if (given("--fp4-format")) {
      s.products = "nvfp4";
    } else if (given("--fp8-format")) {
      const std::string recipe = file_.text("--fp8-recipe").value_or(std::string(kMegatronRecipes[0].recipe));
      const auto* known = std::ranges::find(kMegatronRecipes, recipe, &MegatronPrecision::recipe);
      if (known == kMegatronRecipes.end())
        file_.fail("--fp8-recipe",
                   fmt::format("found \"{}\", allowed: delayed, tensorwise, blockwise, mxfp8", recipe));
      s.products = known->products;
    }
    if (s.products == "own" || !given("--first-last-layers-bf16")) return;
    s.own_at_start = file_.count("--num-layers-at-start-in-bf16", 0).value_or(1);
    s.own_at_end = file_.count("--num-layers-at-end-in-bf16", 0).value_or(1);
  }

  // Versions before fused attention write scores, unless a flag asks for fused attention.
  void read_attention() {
    constexpr std::string_view kAnyBackend = "auto";
    const std::string backend = file_.text("--attention-backend").value_or(std::string(kAnyBackend));
    const std::vector<std::string> flags = file_.flags();
    const bool asks = std::ranges::any_of(
        flags, [](const std::string& flag) { return flag.starts_with("--use-flash-attn"); });
    const bool old = given("--deepspeed") || given("--DDP-impl") ||
                     std::ranges::find(flags, "--checkpoint-activations") != flags.end() ||
                     file_.text("--transformer-impl") == "local";
    sizes_.writes_scores =
        backend == "unfused" || backend == "local" || (backend == kAnyBackend && old && !asks);
  }

  void read_positions() {
    std::string type = file_.text("--position-embedding-type").value_or("learned_absolute");
    if (given("--use-rotary-position-embeddings")) type = "rope";
    if (given("--no-position-embedding") && type == "learned_absolute") type = "none";
    if (type == "learned_absolute" || type == "absolute") {
      sizes_.positions = std::max(file_.count("--max-position-embeddings").value_or(0), sizes_.sequence);
    } else if (type == "alibi") {
      sizes_.alibi = true;
    } else if (type == "none" || type == "mrope" || type == "relative") {
      if (!is_t5(file_)) leave_out("--position-embedding-type", type + " is taken as rope");
    } else if (type != "rope" && type != "rotary" && type != "yarn") {
      file_.fail("--position-embedding-type",
                 fmt::format("found \"{}\", allowed: learned_absolute, rope, yarn, alibi, none", type));
    }
    if (given("--embed-layernorm") && !sizes_.alibi)
      leave_out("--embed-layernorm", "the embedding has no norm without ALiBi");
    yarn_ = type == "yarn";
  }

  void read_rotary() {
    constexpr double kUsualBase = 10000, kUsualFactor = 8;
    sizes_.rotary_base = file_.factor("--rotary-base").value_or(kUsualBase);
    if (const auto share = file_.factor("--rotary-percent"); share && *share != 1)
      leave_out("--rotary-percent", fmt::format("{}: heads are rotated whole", *share));
    if (sizes_.latent) return read_latent_scaling();
    if (yarn_) {
      read_yarn();
    } else if (given("--use-rope-scaling")) {
      sizes_.rotary_scaling =
          RotaryScaling{.way = RotaryScaling::Way::Llama3,
                        .factor = file_.factor("--rope-scaling-factor").value_or(kUsualFactor),
                        .original = 8192,
                        .low = 1,
                        .high = 4};
    } else if (const auto factor = file_.count("--rotary-seq-len-interpolation-factor")) {
      sizes_.rotary_scaling =
          RotaryScaling{.way = RotaryScaling::Way::Linear, .factor = static_cast<double>(*factor)};
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

  // Latent attention has YaRN unless told otherwise; a factor of 1 changes nothing.
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

  // The vocabulary is filled up to a multiple of what tp divides.
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
    } else if (const auto known = words_of_tokenizer()) {
      words = *known;
    } else {
      constexpr std::int64_t kWordsOfGpt2 = 50257;
      words = kWordsOfGpt2;
      leave_out("--vocab-size", fmt::format("missing, as where a tokenizer's files tell it; taken is that "
                                            "of GPT-2, {}",
                                            words));
    }
    sizes_.vocabulary = (words + step - 1) / step * step;
  }

  [[nodiscard]] std::optional<std::int64_t> words_of_tokenizer() const {
    for (const char* flag : {"--tokenizer-name-or-path", "--tokenizer-model"}) {
      std::string name = file_.text(flag).value_or("");
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      for (const KnownTokenizer& known : kTokenizers) {
        if (name.find(known.name) != std::string::npos) return known.words;
      }
    }
    // Programs for BERT and T5 have a tokenizer of their own, and merges are of GPT-2's.
    const std::string usual = is_bert(file_) || is_t5(file_) ? "BertWordPieceLowerCase"
                              : given("--merge-file")        ? "GPT2BPETokenizer"
                                                             : "";
    const std::string type = file_.text("--tokenizer-type").value_or(usual);
    for (const KnownTokenizer& known : kTokenizerTypes) {
      if (type == known.name) return known.words;
    }
    return std::nullopt;
  }

  void read_experts() {
    DecoderExperts e;
    e.count = *file_.count("--num-experts");
    // With DeepSpeed's defaults, a token goes to one expert, and every second layer has experts.
    const std::int64_t usual_top_k = given("--deepspeed") ? 1 : 2;
    if (given("--deepspeed") || given("--expert-interval")) {
      const std::int64_t interval = file_.count("--expert-interval").value_or(2);
      if (interval > 1)
        file_.fail("--expert-interval",
                   fmt::format("{}experts in each {} layers alone can't be expressed, allowed: 1",
                               given("--expert-interval") ? "" : "is missing, which means 2: ", interval));
    }
    e.top_k = file_.count("--moe-router-topk").value_or(usual_top_k);
    e.ffn = file_.count("--moe-ffn-hidden-size").value_or(sizes_.ffn);
    e.shared_ffn = file_.count("--moe-shared-expert-intermediate-size", 0).value_or(0);
    e.capacity = file_.factor("--moe-expert-capacity-factor").value_or(1);
    read_router(e);
    if (const auto pattern = file_.text("--moe-layer-freq")) e.dense_layers = dense_layers_of(*pattern);
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

  // Reads "([0]*3+[1]*58)", or a number N for experts in each N-th layer.
  [[nodiscard]] std::int64_t dense_layers_of(const std::string& pattern) const {
    const std::vector<std::int64_t> layers = list_of(pattern);
    const auto first = std::ranges::find(layers, 1);
    const auto refuse = [&](const std::string& what) {
      file_.fail(
          "--moe-layer-freq",
          fmt::format("found \"{}\", {}, allowed: 1, or ([0]*D+[1]*E) with D dense layers in front of E "
                      "others",
                      pattern, what));
    };
    if (std::ssize(layers) != sizes_.layers)
      refuse(fmt::format("which are {} layers and not {}", layers.size(), sizes_.layers));
    if (first == layers.end()) refuse("which has no experts");
    if (std::ranges::any_of(first, layers.end(), [](std::int64_t kind) { return kind != 1; }))
      refuse("dense layers between others can't be expressed");
    return first - layers.begin();
  }

  // Reads Python's lists of 0 and 1, which may be added and multiplied. Returns an empty list for other
  // texts.
  [[nodiscard]] std::vector<std::int64_t> list_of(std::string_view text) const {
    std::int64_t every = 0;
    const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), every);
    std::vector<std::int64_t> list;
    if (error == std::errc() && stopped == text.data() + text.size() && every > 0) {
      for (std::int64_t i = 0; i < sizes_.layers; ++i) list.push_back(i % every == 0 ? 1 : 0);
      return list;
    }
    std::size_t at = 0;
    list = sum_of_lists(text, at, 0);
    return at == text.size() ? list : std::vector<std::int64_t>();
  }
  static void skip_blanks(std::string_view text, std::size_t& at) {
    while (at < text.size() && text[at] == ' ') ++at;
  }
  static std::vector<std::int64_t> sum_of_lists(std::string_view text, std::size_t& at, int depth) {
    std::vector<std::int64_t> list;
    do {
      const std::vector<std::int64_t> next = one_list(text, at, depth);
      constexpr std::size_t kMost = 1 << 20;
      if (list.size() + next.size() > kMost) return {};
      list.insert(list.end(), next.begin(), next.end());
      skip_blanks(text, at);
    } while (at < text.size() && text[at] == '+' && ++at > 0);
    return list;
  }
  static std::vector<std::int64_t> one_list(std::string_view text, std::size_t& at, int depth) {
    constexpr int kDeepest = 20;
    std::vector<std::int64_t> list;
    skip_blanks(text, at);
    if (at >= text.size() || depth > kDeepest) return list;
    const char open = text[at];
    if (open == '(') {
      list = sum_of_lists(text, ++at, depth + 1);
      if (at < text.size() && text[at] == ')') ++at;
    } else if (open == '[') {
      for (++at; at < text.size() && text[at] != ']'; ++at) {
        if (text[at] == '0' || text[at] == '1') list.push_back(text[at] - '0');
      }
      if (at < text.size()) ++at;
    }
    skip_blanks(text, at);
    if (at >= text.size() || text[at] != '*') return list;
    skip_blanks(text, ++at);
    std::size_t times = 0;
    const auto [stopped, error] = std::from_chars(text.data() + at, text.data() + text.size(), times);
    constexpr std::size_t kMost = 1 << 20;
    if (error != std::errc() || times * list.size() > kMost || times > kMost) return {};
    at = static_cast<std::size_t>(stopped - text.data());
    std::vector<std::int64_t> repeated;
    for (std::size_t i = 0; i < times; ++i) repeated.insert(repeated.end(), list.begin(), list.end());
    return repeated;
  }

  void read_latent() {
    constexpr std::int64_t kRank = 32, kWidth = 128, kRotary = 64;             // the arguments' defaults
    const std::int64_t query_rank = file_.count("--q-lora-rank").value_or(0);  // by default there is none
    sizes_.latent = LatentAttention{query_rank, file_.count("--kv-lora-rank").value_or(kRank),
                                    file_.count("--qk-pos-emb-head-dim").value_or(kRotary),
                                    file_.count("--v-head-dim").value_or(kWidth)};
    sizes_.head_width = file_.count("--qk-head-dim").value_or(kWidth);
    sizes_.kv_heads = sizes_.heads;
    if (!sizes_.head_norm) leave_out("--qk-layernorm", "missing; latents have norms");
    sizes_.head_norm = false;
    if (!sizes_.gated) leave_out("--swiglu", "missing; feed-forward parts are gated with latents");
    sizes_.gated = true;
    if (!sizes_.experts) {  // DeepSeek-V3 of dense layers alone
      sizes_.experts = decoder_sizes("deepseek-v3").experts;
      sizes_.experts->dense_layers = sizes_.layers;
      return;
    }
    if (sizes_.experts->shared_ffn % sizes_.experts->ffn != 0)
      file_.fail("--moe-shared-expert-intermediate-size",
                 fmt::format("found {}, allowed: a multiple of --moe-ffn-hidden-size {}",
                             sizes_.experts->shared_ffn, sizes_.experts->ffn));
  }

  // DeepSeek-V3 is the only model of the zoo that predicts further tokens.
  void read_further_tokens() {
    const std::int64_t further = file_.count("--mtp-num-layers", 0).value_or(0);
    if (sizes_.latent) {
      sizes_.further_tokens = further;
    } else if (further > 0) {
      leave_out("--mtp-num-layers", "further tokens are not predicted: their layers and losses are missing");
    }
  }

  // The zoo has whole networks only. What a run combines otherwise is listed in `left_out`.
  void read_what_the_zoo_fixes() {
    DecoderSizes& s = sizes_;
    constexpr double kUsualDropout = 0.1;
    const double dropout = file_.rate("--hidden-dropout").value_or(kUsualDropout);
    if (const auto scores = file_.rate("--attention-dropout"); scores && *scores > 0)
      leave_out("--attention-dropout", "no scores are dropped");
    std::string norm = file_.text("--normalization").value_or("LayerNorm");
    if (norm == "rmsnorm") norm = "RMSNorm";  // as DeepSpeed's fork writes it
    if (s.gated && s.alibi) {
      leave_out("--position-embedding-type", "ALiBi is taken as rope with gated parts");
      s.alibi = false;
    }
    if (!s.gated) {
      s.dropout = dropout;
      if (s.alibi) fix_alibi();
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

  // The zoo has ALiBi only as in BLOOM, whose embedding has a norm.
  void fix_alibi() {
    DecoderSizes& s = sizes_;
    if (s.experts || s.kv_heads != s.heads)
      file_.fail("--position-embedding-type", "ALiBi with experts or grouped heads can't be expressed");
    if (!given("--embed-layernorm"))
      leave_out("--embed-layernorm", "missing; with ALiBi the embedding has a norm");
    if (s.biases != DecoderSizes::Biases::Layers)
      leave_out("--disable-bias-linear", "products have biases with ALiBi");
    if (s.products != "own")
      leave_out(given("--fp4-format") ? "--fp4-format" : "--fp8-format",
                "products are in the model's type with ALiBi");
    s.biases = DecoderSizes::Biases::Layers;
    s.products = "own";
    s.own_at_start = s.own_at_end = 0;
  }

  const MegatronFile& file_;
  std::int64_t tensor_;
  std::vector<std::string>& left_out_;
  DecoderSizes sizes_;
  bool yarn_ = false;  // --position-embedding-type
};

bool starts(const MegatronFile& file, std::string_view program) {
  return file.program().find(program) != std::string::npos;
}

}  // namespace

bool is_bert(const MegatronFile& file) {
  static constexpr std::array<std::string_view, 11> kTasks{"MNLI", "QQP",  "RACE",  "CoLA", "STS-B", "QNLI",
                                                           "RTE",  "MRPC", "SST-2", "WNLI", "SNLI"};
  const std::string task = file.text("--task").value_or("");
  if (file.program() == "main.py") return std::ranges::find(kTasks, task) != kTasks.end();
  if (!file.program().empty()) return starts(file, "bert");
  return file.text("--tokenizer-type").value_or("").starts_with("Bert") && !is_t5(file);
}

bool is_t5(const MegatronFile& file) {
  if (!file.program().empty()) return starts(file, "t5");
  return file.given("--encoder-num-layers") || file.given("--decoder-seq-length");
}

DecoderSizes megatron_sizes(const MegatronFile& file, std::int64_t tensor,
                            std::vector<std::string>& left_out) {
  return SizesReader(file, tensor, left_out).read();
}

}  // namespace pipesim
