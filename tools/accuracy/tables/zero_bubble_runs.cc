#include <fmt/format.h>

#include "tools/accuracy/tables/measured_row.h"
#include "tools/accuracy/tables/published_runs.h"

namespace pipesim {
namespace {

// The words of the tokenizer of the authors' sample data (sail-sg/zero-bubble-pipeline-parallelism,
// GPTSentencePieceTokenizer). Head and loss then take about as long as the layer that the last stage has
// less.
constexpr std::int64_t kZeroBubbleWords = 32000;

class ZeroBubbleRow : MeasuredRow {
 public:
  using MeasuredRow::MeasuredRow;

  [[nodiscard]] MeasuredRun run() const {
    MeasuredRun run;
    run.name = named(schedule());
    run.reason = refusal();
    if (!run.reason.empty()) return run;
    const double samples = static_cast<double>(batch());
    run.fitted = true;
    run.measured_time =
        Seconds(samples / (number_or_none("samples_per_gpu_per_s") * static_cast<double>(stages())));
    constexpr double kGigabyte = 1e9;
    run.measured_peak = Bytes(static_cast<std::int64_t>(number_or_none("peak_mem_GB") * kGigabyte));
    run.groups = {text("model"), schedule(), fmt::format("{} microbatches", count("n_microbatches"))};
    run.workload = fmt::format("{} on {} GPUs, batch {}", text("model"), stages(), batch());
    if (schedule() != "1F1B") run.compared_with = named("1F1B");
    add_traits({"n_microbatches"}, run);
    run.run = ExpressedRun{.model = model(),
                           .topology = *part_of_preset("dgx-a100", 8, stages()),
                           .recipe = recipe(),
                           .batch = batch(),
                           .runtime = runtime(),
                           .post_validation = zero_bubble(),
                           .fullest_peak = true};
    return run;
  }

 private:
  [[nodiscard]] const std::string& schedule() const { return text("schedule"); }
  [[nodiscard]] bool zero_bubble() const { return schedule().starts_with("ZB"); }
  [[nodiscard]] std::int64_t stages() const { return count("n_gpus(=pp stages)"); }
  [[nodiscard]] std::int64_t batch() const { return count("n_microbatches") * count("microbatch_size"); }
  // Embedding and head take the place of a layer each.
  [[nodiscard]] std::int64_t layers_a_stage() const { return (count("layers") + 2) / stages(); }
  [[nodiscard]] std::string named(const std::string& schedule) const {
    return fmt::format("{} on {} with {} microbatches: {}", text("model"), stages(), count("n_microbatches"),
                       schedule);
  }

  [[nodiscard]] std::string refusal() const {
    if (!text("gpu").starts_with("A100-80GB")) return "a GPU that pipesim does not know";
    if (!part_of_preset("dgx-a100", 8, stages())) return "nodes that are not whole";
    if (schedule() != "1F1B" && schedule() != "1F1B-I" && schedule() != "ZB-1p" && schedule() != "ZB-2p")
      return "schedule " + schedule();
    if ((count("layers") + 2) % stages() != 0 || layers_a_stage() < 2)
      return "layers that stages do not divide";
    if (number_or_none("samples_per_gpu_per_s") == 0) return "no rate measured";
    return "";
  }

  // Neither FlashAttention nor recomputation.
  [[nodiscard]] std::string model() const {
    return fmt::format(
        "gpt:dtype=float16,sequence={0},positions={0},layers={1},hidden={2},heads={3},vocab={4},"
        "projection=untied,attention=scores,kept=megatron",
        count("seq"), count("layers"), count("hidden"), count("heads"), kZeroBubbleWords);
  }

  [[nodiscard]] std::string recipe() const {
    std::string recipe = fmt::format("pp{},mbs{}", stages(), count("microbatch_size"));
    if (schedule() == "1F1B-I") return recipe + fmt::format(",vpp{}", layers_a_stage());  // a layer each
    recipe += fmt::format(",first={0},last={0}", layers_a_stage() - 1);
    if (zero_bubble())
      recipe += fmt::format(",schedule=zb-auto:{}", (schedule() == "ZB-1p" ? 1 : 2) * stages());
    return recipe;
  }

  // Products add to the gradients' sums, as Megatron-LM does by default and the authors' steps of weight
  // gradients do. The authors' runtime runs messages beside compute; that of 1F1B waits for each batch of
  // messages (torch.cuda.synchronize() behind batch_isend_irecv).
  [[nodiscard]] std::string runtime() const {
    return fmt::format("megatron:gradient-sums=in-products,messages={}",
                       zero_bubble() ? "beside" : "blocking");
  }
};

}  // namespace

std::vector<MeasuredRun> zero_bubble_runs(const MeasuredTable& table) {
  table.require({"model", "layers", "heads", "hidden", "seq", "gpu", "n_gpus(=pp stages)", "microbatch_size",
                 "n_microbatches", "schedule", "samples_per_gpu_per_s", "peak_mem_GB"});
  return runs_of_rows<ZeroBubbleRow>(table);
}

}  // namespace pipesim
