#include "tools/accuracy/tables/published_runs.h"

#include <fmt/format.h>

#include <utility>

#include "tools/accuracy/tables/measured_row.h"

namespace pipesim {
namespace {

class PublishedRow : MeasuredRow {
 public:
  using MeasuredRow::MeasuredRow;

  [[nodiscard]] MeasuredRun run() const {
    MeasuredRun run;
    run.name =
        fmt::format("{} on {}: tp{} pp{} dp{}{}", text("model"), count("n_gpus"), count("tp"), count("pp"),
                    count("dp"), text("recompute").empty() ? "" : " " + text("recompute"));
    run.reason = refusal();
    if (!run.reason.empty()) return run;
    run.fitted = true;
    run.measured_time = Seconds(number_or_none("iter_time_s"));
    run.groups = {fmt::format("pp {}", count("pp"))};
    run.workload = fmt::format("{} on {} GPUs, batch {}", text("model"), count("n_gpus"), count("gbs"));
    add_traits({"n_gpus", "pp", "dp", "hidden"}, run);
    run.run =
        ExpressedRun{.model = model(), .topology = *topology(), .recipe = recipe(), .batch = count("gbs")};
    return run;
  }

 private:
  [[nodiscard]] std::optional<std::string> topology() const { return gpus_of("dgx-a100"); }

  [[nodiscard]] std::string refusal() const {
    if (!text("gpu").starts_with("A100-80GB")) return "a GPU that pipesim does not know";
    if (!says("model", "GPT") && !says("model", "22B")) return "a model other than GPT";
    if (!topology()) return "nodes that are not whole";
    if (text("mbs").empty()) return "a microbatch that is not told";
    if (says("schedule", "not given")) return "a number of stages that is not told";
    if (const std::string& what = text("recompute"); what != "full" && what != "selective" && !what.empty())
      return "recompute " + what;
    if (number_or_none("iter_time_s") == 0) return "no time measured";
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
    if (const std::int64_t chunks = count_or_none("vpp"); chunks > 1) recipe += fmt::format(",vpp{}", chunks);
    if (count_or_none("seq_par") > 0) recipe += ",sp";
    if (!text("recompute").empty()) recipe += ",recompute=" + text("recompute");
    return recipe;
  }
};

}  // namespace

std::vector<MeasuredRun> published_runs(const MeasuredTable& table) {
  table.require({"source",   "model",     "hidden",  "ffn", "heads", "layers",     "vocab",
                 "seq",      "gpu",       "n_gpus",  "tp",  "pp",    "dp",         "vpp",
                 "schedule", "recompute", "seq_par", "gbs", "mbs",   "iter_time_s"});
  return runs_of_rows<PublishedRow>(table);
}

}  // namespace pipesim
