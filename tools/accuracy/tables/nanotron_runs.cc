#include "tools/accuracy/tables/nanotron_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tools/accuracy/tables/measured_row.h"

namespace pipesim {
namespace {

// PlaybookSizes of the playbook's models. Every head has keys and values of its own, of width 128; the
// embedding is tied.
struct PlaybookSizes {
  std::string_view name;
  std::int64_t layers, hidden, ffn;
};
constexpr std::array kPlaybookModels = std::to_array<PlaybookSizes>(
    {{"1B", 16, 2048, 8192}, {"3B", 28, 3072, 8192}, {"8B", 32, 4096, 14336}, {"80B", 80, 8192, 28672}});
constexpr std::int64_t kSequence = 4096, kPlaybookWords = 131072, kHeadWidth = 128;
constexpr double kLeastUse = 10;  // % of the peak rate

class NanotronRow : MeasuredRow {
 public:
  using MeasuredRow::MeasuredRow;

  [[nodiscard]] MeasuredRun run() const {
    const std::string& name = text("model");
    MeasuredRun run;
    run.name = fmt::format("{} on {}: tp{} pp{} dp{} mbs{} zero{}", name, count("n_gpus"), count("tp"),
                           count("pp"), count("dp"), count("mbs"), zero());
    run.reason = refusal();
    if (!run.reason.empty()) return run;
    run.fitted = true;
    run.measured_time =
        Seconds(static_cast<double>(count("gbs") * kSequence) / number_or_none("tokens_per_s"));
    run.measured_peak = Bytes(static_cast<std::int64_t>(number_or_none("gpu_mem_GB") * 1e9));
    run.groups = {name,
                  fmt::format("zero {}", zero()),
                  fmt::format("tp {}", count("tp")),
                  fmt::format("pp {}", count("pp")),
                  fmt::format("mbs {}", count("mbs")),
                  fmt::format("{} GPUs", count("n_gpus"))};
    run.workload = fmt::format("{} on {} GPUs, batch {}", name, count("n_gpus"), count("gbs"));
    add_traits({"n_gpus", "mbs", "grad_acc", "dp", "pp", "tp"}, run);
    run.run = ExpressedRun{.model = model(),
                           .topology = *topology(),
                           .recipe = recipe(),
                           .batch = count("gbs"),
                           .runtime = "nanotron"};
    return run;
  }

 private:
  [[nodiscard]] std::int64_t zero() const { return count_or_none("zero"); }
  [[nodiscard]] std::optional<std::string> topology() const { return gpus_of("dgx-h100"); }
  [[nodiscard]] const PlaybookSizes* sizes() const {
    const auto found = std::ranges::find(kPlaybookModels, text("model"), &PlaybookSizes::name);
    return found == kPlaybookModels.end() ? nullptr : found;
  }

  [[nodiscard]] std::string refusal() const {
    if (text("status") != "ok") return "a run that failed: the table does not tell why";
    if (sizes() == nullptr) return "a model whose sizes pipesim does not know";
    if (!topology()) return "nodes that are not whole";
    if (zero() > 1) return fmt::format("ZeRO-{}", zero());
    if (number_or_none("tokens_per_s") == 0) return "no rate measured";
    if (number_or_none("mfu_pct") < kLeastUse) return "less than 10 % of the peak rate";
    if (count("tp") * count("pp") * count("dp") != count("n_gpus"))
      return "degrees that do not multiply to the number of GPUs";
    if (count("dp") * count("mbs") * count("grad_acc") != count("gbs"))
      return "a batch that microbatches do not divide";
    return "";
  }

  [[nodiscard]] std::string model() const {
    const PlaybookSizes& s = *sizes();
    return fmt::format(
        "llama:dtype=bfloat16,sequence={},layers={},hidden={},ffn={},heads={},kv_heads={},vocab={},"
        "projection=tied,kept=megatron",
        kSequence, s.layers, s.hidden, s.ffn, s.hidden / kHeadWidth, s.hidden / kHeadWidth, kPlaybookWords);
  }

  // Tensor parallelism scatters the sequence (tp_mode REDUCE_SCATTER of the playbook's configurations).
  [[nodiscard]] std::string recipe() const {
    std::string recipe =
        fmt::format("tp{},pp{},dp{},mbs{}", count("tp"), count("pp"), count("dp"), count("mbs"));
    if (count("tp") > 1) recipe += ",sp";
    if (zero() == 1) recipe += ",zero1";
    if (count("pp") > 1) recipe += fmt::format(",layers={}", fmt::join(layers_of_groups(), "-"));
    return recipe;
  }

  // Cuts the pipeline as nanotron does (PipelineModel.build_model): by the parameters of layers' products and
  // of the head. Each group ends before its share of them is exceeded.
  [[nodiscard]] std::vector<std::int64_t> layers_of_groups() const {
    const PlaybookSizes& s = *sizes();
    const std::int64_t layer = 4 * s.hidden * s.hidden + 3 * s.ffn * s.hidden, pp = count("pp"),
                       all = s.layers * layer + kPlaybookWords * s.hidden;
    std::vector<std::int64_t> groups(static_cast<std::size_t>(pp), 0);
    std::int64_t group = 0;
    for (std::int64_t done = 1; done <= s.layers; ++done) {
      if (group + 1 < pp && done * layer * pp > all * (group + 1)) ++group;
      ++groups[static_cast<std::size_t>(group)];
    }
    return groups;
  }
};

}  // namespace

std::vector<MeasuredRun> nanotron_runs(const MeasuredTable& table) {
  table.require({"model", "n_gpus", "mbs", "grad_acc", "gbs", "dp", "pp", "tp", "zero", "status", "mfu_pct",
                 "tokens_per_s", "gpu_mem_GB"});
  return runs_of_rows<NanotronRow>(table);
}

}  // namespace pipesim
