#include "tools/accuracy/tables/gpt_runs.h"

#include <fmt/format.h>

#include <utility>

#include "tools/accuracy/tables/measured_row.h"

namespace pipesim {
namespace {

class GptRow : MeasuredRow {
 public:
  using MeasuredRow::MeasuredRow;

  [[nodiscard]] MeasuredRun run() const {
    MeasuredRun run;
    run.name =
        fmt::format("{} x {} on {}: tp{} pp{} dp{} mbs{} batch {}", count("layers"), count("hidden"),
                    count("n_gpus"), count("tp"), count("pp"), count("dp"), count("mbs"), count("gbs"));
    run.measured_time = Seconds(number_or_none("iter_time_ms") / 1e3);
    run.fitted = true;
    run.reason = refusal();
    if (!run.reason.empty()) return run;
    run.groups = {fmt::format("hidden {}", count("hidden")), fmt::format("tp {}", count("tp")),
                  fmt::format("pp {}", count("pp")), fmt::format("mbs {}", count("mbs"))};
    run.workload = fmt::format("{} layers of width {} on {} GPUs, batch {}", count("layers"), count("hidden"),
                               count("n_gpus"), count("gbs"));
    add_traits({"n_gpus", "gbs", "mbs", "hidden", "layers", "tp", "dp", "pp"}, run);
    run.run = ExpressedRun{.model = model(),
                           .topology = *topology(),
                           .recipe = recipe(),
                           .batch = count("gbs"),
                           .gradient_type = DataType::Float16};
    return run;
  }

 private:
  [[nodiscard]] std::optional<std::string> topology() const { return gpus_of("dgx-a100"); }

  [[nodiscard]] std::string refusal() const {
    if (!text("gpu").starts_with("A100-80GB")) return "a GPU that pipesim does not know";
    if (!topology()) return "nodes that are not whole";
    if (text("schedule") != "1F1B") return "schedule " + text("schedule");
    if (const std::string& what = text("recompute"); what != "full" && what != "none")
      return "recompute " + what;
    if (count("tp") * count("pp") * count("dp") != count("n_gpus"))
      return "degrees that do not multiply to the number of GPUs";
    if (count("gbs") % (count("mbs") * count("dp")) != 0) return "a batch that microbatches do not divide";
    return "";
  }

  // Words of GPT-2's vocabulary, padded as Megatron-LM does, so that each rank has a multiple of 128.
  [[nodiscard]] std::string model() const {
    constexpr std::int64_t kWords = 50257;
    const std::int64_t cut = 128 * count("tp");
    return fmt::format(
        "gpt:dtype=float16,sequence={0},positions={0},layers={1},hidden={2},heads={3},vocab={4},"
        "attention=scores,kept=megatron",
        count("seq"), count("layers"), count("hidden"), count("heads"), (kWords + cut - 1) / cut * cut);
  }

  [[nodiscard]] std::string recipe() const {
    std::string recipe =
        fmt::format("tp{},pp{},dp{},mbs{}", count("tp"), count("pp"), count("dp"), count("mbs"));
    if (text("recompute") == "full") recipe += ",recompute=full";
    return recipe;
  }
};

}  // namespace

std::vector<MeasuredRun> gpt_runs(const MeasuredTable& table) {
  table.require({"n_gpus", "gbs", "mbs", "hidden", "heads", "layers", "seq", "tp", "dp", "pp", "iter_time_ms",
                 "recompute", "schedule", "gpu"});
  return runs_of_rows<GptRow>(table);
}

}  // namespace pipesim
