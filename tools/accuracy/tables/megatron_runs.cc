#include "tools/accuracy/tables/megatron_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace pipesim {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

// What a case's name says that neither pipesim nor the table can follow.
struct Unexpressed {
  std::string_view word, reason;
};
constexpr std::array kUnexpressed = std::to_array<Unexpressed>({
    {"fsdp", "FSDP of Megatron-LM"},
    {"zp_z3", "FSDP of Megatron-LM"},
    {"fp8", "8-bit types"},
    {"grpo", "reinforcement learning"},
    {"_mla", "latent attention"},
    {"muon", "the optimizer Muon"},
    {"cudagraph", "CUDA graphs with buffers of their own"},
    {"offloading", "activations moved to the host"},
    {"op_fuser", "fused experts of Transformer Engine"},
    {"experimental", "experimental kernels"},
    {"defer_embedding_wgrad", "deferred weight gradients of the projection"},
    {"cross_entropy_loss_fusion", "the fused loss, whose scratch memory pipesim does not count"},
    {"uneven_pipeline", "stages of different layers"},
    {"account_for_embedding", "stages of different layers"},
    // These cases add shared experts and narrower ones, which only their configuration tells.
    {"gpt3_moe_mcore", "shared experts"},
});

struct Platform {
  std::string_view start, kind, preset;  // of its name in the table; of its devices; of its nodes
  std::int64_t devices;                  // of a node
};
constexpr std::array kPlatforms = std::to_array<Platform>({{"dgx_a100", "A100-80GB", "dgx-a100", 8},
                                                           {"dgx_h100", "H100-SXM5", "dgx-h100", 8},
                                                           {"dgx_gb200", "GB200", "gb200-nvl72", 72}});

// One row, and what its case's name adds.
class MegatronRow {
 public:
  MegatronRow(const MeasuredTable& table, std::size_t row)
      : table_(table), row_(row), case_(table.text(row, "case")), model_(table.text(row, "model")) {}

  [[nodiscard]] MeasuredRun run() const {
    MeasuredRun run;
    run.name = fmt::format("{} {} {}", case_, table_.text(row_, "platform"), table_.text(row_, "env"));
    run.measured_peak = Bytes(count("mem_max_alloc_bytes").value_or(0));
    run.measured_state = Bytes(count("mem_alloc_bytes").value_or(0));
    run.reason = refusal();
    if (!run.reason.empty()) return run;
    run.groups = groups();
    run.run = ExpressedRun{.model = model(),
                           .topology = *topology(),
                           .recipe = recipe(),
                           .batch = count("gbs").value_or(0),
                           .gradient_type = half() ? DataType::Float16 : DataType::Float32,
                           .workspace = workspace(),
                           .update_gradients = half()};
    return run;
  }

 private:
  [[nodiscard]] bool says(std::string_view word) const { return case_.find(word) != std::string::npos; }
  [[nodiscard]] std::optional<std::int64_t> count(std::string_view column) const {
    return table_.count(row_, column);
  }
  [[nodiscard]] std::int64_t degree(std::string_view column) const {
    return table_.text(row_, column).empty() ? 1 : table_.positive(row_, column);
  }
  [[nodiscard]] bool flag(std::string_view column) const { return table_.flag(row_, column); }
  [[nodiscard]] bool half() const { return table_.text(row_, "precision") == "fp16"; }
  [[nodiscard]] bool experts() const { return count("experts").value_or(0) > 1; }

  // Runs of the suite have a node of eight devices unless the table says otherwise.
  [[nodiscard]] std::int64_t devices() const { return count("n_gpus").value_or(8); }
  [[nodiscard]] std::int64_t copies() const {
    return devices() / (degree("tp") * degree("pp") * degree("cp"));
  }

  [[nodiscard]] const Platform* platform() const {
    const auto found = std::ranges::find_if(
        kPlatforms, [&](const Platform& p) { return table_.text(row_, "platform").starts_with(p.start); });
    return found == kPlatforms.end() ? nullptr : found;
  }
  [[nodiscard]] std::optional<std::string> topology() const {
    return part_of_preset(platform()->preset, platform()->devices, devices());
  }
  [[nodiscard]] bool ampere() const { return platform()->kind == "A100-80GB"; }

  [[nodiscard]] std::string refusal() const {
    if (model_ == "bert" || model_ == "t5")
      return "Megatron-LM's own form of " + std::string(model_ == "t5" ? "T5" : "BERT");
    if (model_ != "gpt" && model_ != "moe" && model_ != "mixtral")
      return "a model other than GPT, such as hybrids";
    if (flag("fsdp")) return "FSDP of Megatron-LM";
    if (!table_.text(row_, "fp8").empty()) return "8-bit types";
    for (const Unexpressed& u : kUnexpressed) {
      if (says(u.word)) return std::string(u.reason);
    }
    const std::string& precision = table_.text(row_, "precision");
    if (precision != "bf16" && precision != "fp16") return "precision " + precision;
    if (model_ == "mixtral" || says("release")) {
      if (!count("n_gpus")) return "a release run that does not tell its number of devices";
    }
    if (!count("mem_max_alloc_bytes")) return "no peak memory measured";
    if (platform() == nullptr) return "a platform that pipesim does not know";
    if (!topology()) return "nodes that are not whole";
    for (const char* column : {"layers", "hidden", "heads", "seq", "mbs", "gbs"}) {
      if (!count(column)) return fmt::format("no {} in the table", column);
    }
    const std::int64_t groups = degree("pp");
    if (copies() == 0 || devices() % (degree("tp") * groups * degree("cp")) != 0)
      return "fewer devices than the degrees need";
    const std::int64_t samples = copies() * *count("mbs");
    if (samples == 0 || *count("gbs") % samples != 0) return "a batch that microbatches do not divide";
    if (count("vpp_layers_per_stage") && *count("gbs") / samples % groups != 0)
      return "interleaved stages with microbatches that do not fill their groups";
    return "";
  }

  // Transformer Engine, by the names of the cases; it alone divides the sequence of attention.
  [[nodiscard]] bool transformer_engine() const {
    return case_.starts_with("gpt3_mcore_te_") || case_.starts_with("gpt3_7b") || degree("cp") > 1 ||
           says("release");
  }

  // Before resumed runs were let choose, all cases but those with context parallelism asked for unfused
  // attention; runs of that time are the ones on Oracle's cloud, and of cases that are gone.
  [[nodiscard]] bool fused_attention() const {
    const std::string& platform = table_.text(row_, "platform");
    if (degree("cp") > 1 || says("release") || says("memory_speed")) return true;
    return transformer_engine() && says("resume") && !platform.ends_with("dracooci");
  }

  [[nodiscard]] std::string model() const {
    const std::int64_t tp = degree("tp"), cut = 128 * tp;
    const std::int64_t words = count("vocab").value_or(says("release") ? 256000 : 50257);
    std::string text = fmt::format(
        "gpt:dtype={},sequence={},layers={},hidden={},heads={},vocab={},attention={},kept=megatron",
        half() ? "float16" : "bfloat16", *count("seq"), *count("layers"), *count("hidden"), *count("heads"),
        (words + cut - 1) / cut * cut, fused_attention() ? "fused" : "scores");
    if (degree("cp") > 1 || says("release")) text += ",dropout=0";
    if (says("rope") || says("release")) text += ",position=rotary";
    if (says("disable_bias") || says("release") || experts()) text += ",bias=no";
    if (says("untie") || says("release") || says("memory_speed")) text += ",projection=untied";
    if (const auto groups = count("kv_groups")) text += fmt::format(",kv_heads={}", *groups);
    if (const auto ffn = count("ffn")) text += fmt::format(",ffn={}", *ffn);
    if (experts())
      text += fmt::format(",experts={},top_k={},token_groups={}", *count("experts"),
                          count("topk").value_or(2), degree("cp") * (flag("seq_par") ? tp : 1));
    return text;
  }

  [[nodiscard]] std::string recipe() const {
    const std::int64_t tp = degree("tp"), pp = degree("pp"), cp = degree("cp");
    std::string text = fmt::format("tp{},cp{},dp{},pp{},mbs{}", tp, cp, copies(), pp, *count("mbs"));
    if (const auto each = count("vpp_layers_per_stage"); each && *each > 0)
      text += fmt::format(",vpp{}", *count("layers") / pp / *each);
    if (flag("seq_par") && tp > 1) text += ",sp";
    // The state is divided within a stage; the two copies of a tied embedding have one each.
    if (flag("dist_opt"))
      text += fmt::format(",zero1,shard={}", copies() * cp / (says("multi_dist_optimizer") ? 2 : 1));
    if (const std::string& what = table_.text(row_, "recompute"); !what.empty()) text += ",recompute=" + what;
    if (experts() && (degree("ep") > 1 || count("etp")))  // etp says nothing of dense models
      text += fmt::format(",ep{},etp{}", degree("ep"), count("etp").value_or(tp));
    return text;
  }

  // PyTorch gives each thread that multiplies matrices, forward and autograd's backward, a workspace of
  // cuBLAS; CUBLAS_WORKSPACE_CONFIG of deterministic cases makes it 32 MiB, Hopper's default, above the 8.125
  // MiB of Ampere. Transformer Engine has one more. The local implementation keeps a buffer of one layer's
  // scores.
  [[nodiscard]] Bytes workspace() const {
    const bool told = experts() || (degree("cp") == 1 && !says("nondeterministic") && !says("release"));
    std::int64_t bytes = 2 * (told || !ampere() ? 32 * kMiB : 8 * kMiB + kMiB / 8);
    if (transformer_engine()) return Bytes(bytes + (ampere() ? 4 : 32) * kMiB);
    const std::int64_t scores =
        *count("mbs") * *count("heads") / degree("tp") * *count("seq") * *count("seq");
    return Bytes(bytes + 2 * scores);
  }

  [[nodiscard]] std::vector<std::string> groups() const {
    std::vector<std::string> groups = {experts() ? "experts" : "dense"};
    groups.emplace_back(flag("dist_opt") ? "distributed optimizer" : "whole optimizer");
    if (degree("tp") > 1) groups.emplace_back("tensor parallel");
    if (flag("seq_par") && degree("tp") > 1) groups.emplace_back("sequence parallel");
    if (degree("cp") > 1) groups.emplace_back("context parallel");
    if (degree("pp") > 1) groups.emplace_back(count("vpp_layers_per_stage") ? "interleaved" : "pipeline");
    if (!table_.text(row_, "recompute").empty()) groups.emplace_back("recompute");
    groups.emplace_back(fused_attention() ? "fused attention" : "attention with scores");
    if (half()) groups.emplace_back("float16");
    groups.emplace_back(platform()->kind);
    return groups;
  }

  const MeasuredTable& table_;
  std::size_t row_;
  const std::string& case_;
  const std::string& model_;
};

}  // namespace

std::vector<MeasuredRun> megatron_runs(const MeasuredTable& table) {
  table.require({"model",
                 "case",
                 "platform",
                 "env",
                 "n_gpus",
                 "tp",
                 "pp",
                 "cp",
                 "ep",
                 "etp",
                 "mbs",
                 "gbs",
                 "seq",
                 "layers",
                 "hidden",
                 "ffn",
                 "heads",
                 "kv_groups",
                 "experts",
                 "topk",
                 "vocab",
                 "dist_opt",
                 "fsdp",
                 "recompute",
                 "seq_par",
                 "fp8",
                 "precision",
                 "path",
                 "vpp_layers_per_stage",
                 "mem_alloc_bytes",
                 "mem_max_alloc_bytes"});
  table.require_unique("path");
  std::vector<MeasuredRun> runs;
  for (std::size_t row = 0; row < table.rows(); ++row) runs.push_back(MegatronRow(table, row).run());
  return runs;
}

}  // namespace pipesim
