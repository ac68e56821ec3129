#include "tools/accuracy/tables/foundry_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tools/accuracy/tables/measured_row.h"

namespace pipesim {
namespace {

// llm-foundry, scripts/train/yamls/pretrain/mpt-*.yaml; the numbers of parameters in the table agree.
struct MptSizes {
  std::string_view name;
  std::int64_t layers, hidden, heads;
};
constexpr std::array kMptModels = std::to_array<MptSizes>({{"125m", 12, 768, 12},
                                                           {"350m", 24, 1024, 16},
                                                           {"760m", 24, 1536, 12},
                                                           {"1b", 24, 2048, 16},
                                                           {"3b", 32, 2560, 20},
                                                           {"7b", 32, 4096, 32},
                                                           {"13b", 40, 5120, 40},
                                                           {"30b", 48, 7168, 56},
                                                           {"70b", 80, 8192, 64}});
constexpr std::int64_t kMptWords = 50368;
constexpr std::array kMptNodes = std::to_array<std::pair<std::string_view, std::string_view>>(
    {{"a100_80gb", "dgx-a100"}, {"h100_80gb", "dgx-h100"}});

class FoundryRow : MeasuredRow {
 public:
  using MeasuredRow::MeasuredRow;

  [[nodiscard]] MeasuredRun run() const {
    MeasuredRun run;
    const std::string &model = text("Model"), &gpu = text("GPU");
    run.name =
        fmt::format("{} of {} tokens on {} {}: mbs{} x {}{}", model, text("SeqLen (T)"), count("# GPUs"), gpu,
                    count("MicroBatchSize"), count("GradAccum"), recomputes() ? ", recompute" : "");
    run.reason = refusal();
    if (!run.reason.empty()) return run;
    run.fitted = true;
    run.measured_time =
        Seconds(static_cast<double>(count("GlobalBatchSize") * count("SeqLen (T)")) / tokens_per_second());
    run.groups = {gpu, model, fmt::format("{} GPUs", count("# GPUs")),
                  fmt::format("{} tokens", count("SeqLen (T)")), recomputes() ? "recompute" : "no recompute"};
    run.workload = fmt::format("{} of {} tokens on {} {}, batch {}", model, count("SeqLen (T)"),
                               count("# GPUs"), gpu, count("GlobalBatchSize"));
    add_traits({"SeqLen (T)", "# GPUs", "MicroBatchSize", "GradAccum"}, run);
    run.traits.emplace_back("hidden", static_cast<double>(sizes()->hidden));
    run.run =
        ExpressedRun{.model = expressed_model(),
                     .topology = *topology(),
                     .recipe = fmt::format("dp{},mbs{},zero3{}", count("# GPUs"), count("MicroBatchSize"),
                                           recomputes() ? ",recompute=full" : ""),
                     .batch = count("GlobalBatchSize"),
                     .runtime = "torch-eager:flash=1"};
    return run;
  }

 private:
  // The table has samples a second, too, without their fractions.
  [[nodiscard]] double tokens_per_second() const { return number_or_none("Throughput (T/s)"); }
  [[nodiscard]] bool recomputes() const { return flag("Activation Checkpointing"); }
  [[nodiscard]] const MptSizes* sizes() const {
    const auto found = std::ranges::find(kMptModels, text("Model"), &MptSizes::name);
    return found == kMptModels.end() ? nullptr : found;
  }
  [[nodiscard]] std::optional<std::string> topology() const {
    const auto node =
        std::ranges::find(kMptNodes, text("GPU"), &std::pair<std::string_view, std::string_view>::first);
    return node == kMptNodes.end() ? std::nullopt : part_of_preset(node->second, 8, count("# GPUs"));
  }

  [[nodiscard]] std::string refusal() const {
    if (text("Precision").find("fp8") != std::string::npos) return "8-bit types";
    if (sizes() == nullptr) return "a model whose sizes pipesim does not know";
    if (text("GPU") == "a100_40gb") return "nodes of A100 with 40 GB";
    if (!topology()) return "other nodes than whole ones of A100 or H100";
    if (text("Sharding Strategy") != "FULL_SHARD") return "sharding strategy " + text("Sharding Strategy");
    if (count("# GPUs") * count("MicroBatchSize") * count("GradAccum") != count("GlobalBatchSize"))
      return "a batch that microbatches do not divide";
    if (tokens_per_second() == 0) return "no rate measured";
    return "";
  }

  [[nodiscard]] std::string expressed_model() const {
    const MptSizes& s = *sizes();
    return fmt::format(
        "gpt:dtype=bfloat16,sequence={0},positions={0},layers={1},hidden={2},heads={3},vocab={4},dropout=0",
        count("SeqLen (T)"), s.layers, s.hidden, s.heads, kMptWords);
  }
};

}  // namespace

std::vector<MeasuredRun> foundry_runs(const MeasuredTable& table) {
  table.require({"Model", "SeqLen (T)", "# GPUs", "GPU", "MicroBatchSize", "GradAccum", "GlobalBatchSize",
                 "Throughput (T/s)", "Precision", "Sharding Strategy", "Activation Checkpointing"});
  return runs_of_rows<FoundryRow>(table);
}

}  // namespace pipesim
