#include "tools/accuracy/published_runs.h"

#include <fmt/format.h>

#include <utility>

namespace pipesim {
namespace {

class PublishedRow {
 public:
  PublishedRow(const MeasuredTable& table, std::size_t row) : table_(table), row_(row) {}

  [[nodiscard]] MeasuredRun run() const {
    MeasuredRun run;
    run.name =
        fmt::format("{} on {}: tp{} pp{} dp{}{}", text("model"), count("n_gpus"), count("tp"), count("pp"),
                    count("dp"), text("recompute").empty() ? "" : " " + text("recompute"));
    run.reason = refusal();
    if (!run.reason.empty()) return run;
    run.fitted = true;
    run.measured_time = Seconds(*table_.number(row_, "iter_time_s"));
    run.groups = {fmt::format("pp {}", count("pp"))};
    run.workload = fmt::format("{} on {} GPUs, batch {}", text("model"), count("n_gpus"), count("gbs"));
    for (const char* trait : {"n_gpus", "pp", "dp", "hidden"})
      run.traits.emplace_back(trait, static_cast<double>(count(trait)));
    run.run = ExpressedRun{.model = model(),
                           .topology = *topology(),
                           .recipe = recipe(),
                           .batch = count("gbs"),
                           .gradient_type = DataType::Float32,
                           .workspace = {},
                           .update_gradients = false};
    return run;
  }

 private:
  [[nodiscard]] const std::string& text(std::string_view column) const { return table_.text(row_, column); }
  [[nodiscard]] std::int64_t count(std::string_view column) const { return table_.positive(row_, column); }
  [[nodiscard]] bool says(std::string_view column, std::string_view word) const {
    return text(column).find(word) != std::string::npos;
  }
  [[nodiscard]] std::optional<std::string> topology() const {
    return part_of_preset("dgx-a100", 8, count("n_gpus"));
  }

  [[nodiscard]] std::string refusal() const {
    if (!text("gpu").starts_with("A100-80GB")) return "a GPU that pipesim does not know";
    if (!says("model", "GPT") && !says("model", "22B")) return "a model other than GPT";
    if (!topology()) return "nodes that are not whole";
    if (text("mbs").empty()) return "a microbatch that is not told";
    if (says("schedule", "not given")) return "a number of stages that is not told";
    if (const std::string& what = text("recompute"); what != "full" && what != "selective" && !what.empty())
      return "recompute " + what;
    if (table_.number(row_, "iter_time_s").value_or(0) == 0) return "no time measured";
    return "";
  }

  // Before FlashAttention (arXiv:2205.14135), attention wrote its scores.
  [[nodiscard]] std::string model() const {
    const bool scores = says("source", "arXiv:2104.") || says("source", "arXiv:2205.");
    return fmt::format(
        "gpt:dtype=float16,sequence={0},positions={0},layers={1},hidden={2},ffn={3},heads={4},vocab={5},"
        "attention={6},kept=megatron",
        count("seq"), count("layers"), count("hidden"), count("ffn"), count("heads"), count("vocab"),
        scores ? "scores" : "fused");
  }

  [[nodiscard]] std::string recipe() const {
    std::string recipe =
        fmt::format("tp{},pp{},dp{},mbs{}", count("tp"), count("pp"), count("dp"), count("mbs"));
    if (const std::int64_t chunks = table_.count(row_, "vpp").value_or(1); chunks > 1)
      recipe += fmt::format(",vpp{}", chunks);
    if (table_.count(row_, "seq_par").value_or(0) > 0) recipe += ",sp";
    if (!text("recompute").empty()) recipe += ",recompute=" + text("recompute");
    return recipe;
  }

  const MeasuredTable& table_;
  std::size_t row_;
};

}  // namespace

std::vector<MeasuredRun> published_runs(const MeasuredTable& table) {
  table.require({"source",   "model",     "hidden",  "ffn", "heads", "layers",     "vocab",
                 "seq",      "gpu",       "n_gpus",  "tp",  "pp",    "dp",         "vpp",
                 "schedule", "recompute", "seq_par", "gbs", "mbs",   "iter_time_s"});
  std::vector<MeasuredRun> runs;
  for (std::size_t row = 0; row < table.rows(); ++row) runs.push_back(PublishedRow(table, row).run());
  return runs;
}

}  // namespace pipesim
