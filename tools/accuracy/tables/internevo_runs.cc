#include <fmt/format.h>

#include <array>
#include <charconv>
#include <set>
#include <utility>

#include "tools/accuracy/tables/measured_row.h"
#include "tools/accuracy/tables/published_runs.h"

namespace pipesim {
namespace {

constexpr std::array kEvoColumns =
    std::to_array<std::pair<std::string_view, std::int64_t>>({{"8 GPUs", 8},
                                                              {"16 GPUs", 16},
                                                              {"32 GPUs", 32},
                                                              {"64 GPUs", 64},
                                                              {"128 GPUs", 128},
                                                              {"256 GPUs", 256},
                                                              {"512 GPUs", 512},
                                                              {"1024 GPUs", 1024}});

struct EvoRun {
  std::int64_t gpus = 0, tp = 1, shard = 0;  // 0: all copies divide the optimizer's state
  std::int64_t sequence = 2048, microbatch = 1, microbatches = 1;
  bool recomputes = false;
  double rate = 0;  // tokens a second and GPU
  [[nodiscard]] std::int64_t copies() const { return gpus / tp; }
  [[nodiscard]] std::string named(std::int64_t divided) const {
    return fmt::format("7B on {}: tp{} mbs{} x {}{}, state over {}", gpus, tp, microbatch, microbatches,
                       recomputes ? " recompute" : "", divided == 0 ? "all" : std::to_string(divided));
  }
};

// InternLM-7B (InternEvo, configs/7B_sft.py): 32 layers of width 4096, ffn 8/3 of it in steps of 256, 103,168
// words, biases in attention. Gradients and weights travel beside compute (overlap_sync_grad,
// overlap_sync_param). Gradients are summed in the type of weights.
MeasuredRun evo_run_of(const EvoRun& evo) {
  MeasuredRun run;
  run.name = evo.named(evo.shard);
  if (!part_of_preset("roce-a100", 8, evo.gpus) || evo.gpus % evo.tp != 0 ||
      (evo.shard > 0 && evo.copies() % evo.shard != 0)) {
    run.reason = "degrees that do not divide the number of GPUs";
    return run;
  }
  const std::int64_t samples = evo.copies() * evo.microbatch * evo.microbatches;
  run.fitted = true;
  run.measured_time =
      Seconds(static_cast<double>(samples * evo.sequence) / (evo.rate * static_cast<double>(evo.gpus)));
  run.groups = {fmt::format("{} GPUs", evo.gpus), fmt::format("tp {}", evo.tp),
                evo.shard > 0 ? "state over a node" : "state over all",
                evo.recomputes ? "recompute" : "no recompute"};
  run.workload = fmt::format("7B on {} GPUs, batch {}", evo.gpus, samples);
  // Both divide alike where a node is all there is.
  if (evo.shard == 0) run.compared_with = evo.named(8 / evo.tp);
  run.traits = {{"gpus", static_cast<double>(evo.gpus)}};
  run.run = ExpressedRun{
      .model = fmt::format("llama:dtype=bfloat16,sequence={},layers=32,hidden=4096,heads=32,kv_heads=32,"
                           "ffn=11008,vocab=103168,attention_bias=all",
                           evo.sequence),
      .topology = *part_of_preset("roce-a100", 8, evo.gpus),
      .recipe =
          fmt::format("tp{},dp{},mbs{},zero1{}{}{}", evo.tp, evo.copies(), evo.microbatch,
                      evo.shard > 0 ? fmt::format(",shard={}", evo.shard) : "",
                      evo.copies() > 1 ? ",overlap=gather" : "", evo.recomputes ? ",recompute=full" : ""),
      .batch = samples,
      .gradient_type = DataType::BFloat16,
      .runtime = "internevo"};
  return run;
}

class EvoRow : MeasuredRow {
 public:
  using MeasuredRow::MeasuredRow;

  [[nodiscard]] std::vector<MeasuredRun> runs() const {
    if (!text("Parallel Configuration").empty()) return scaling_runs();
    if (!text("TGS").empty()) return {flops_run()};
    MeasuredRun run;
    run.name = fmt::format("{} {} {}", text("section"), text("model"), text("Number of GPU"));
    run.reason = !text("GPU Memory (GB)").empty() ? "memory of a kind that is not told"
                 : !text("GPU Number").empty()    ? "the best of other rows"
                                                  : "a row that tells of the setting, not of a run";
    return {run};
  }

 private:
  // The number behind a word of "(tp=1, zero1=-1)".
  [[nodiscard]] std::int64_t set_to(std::string_view word) const {
    const std::string& cell = text("Parallel Configuration");
    std::int64_t number = 0;
    if (const std::size_t at = cell.find(word); at != std::string::npos)
      std::from_chars(cell.data() + at + word.size(), cell.data() + cell.size(), number);
    return number;
  }

  // Four microbatches, of two samples with tp1 and of four with tp2 (doc/en/train_performance.md).
  [[nodiscard]] std::vector<MeasuredRun> scaling_runs() const {
    std::vector<MeasuredRun> found;
    const std::int64_t tp = set_to("tp="), shard = set_to("zero1=");
    for (const auto& [column, gpus] : kEvoColumns) {
      EvoRun run{.gpus = gpus, .tp = tp, .shard = shard < 0 ? 0 : shard};
      run.microbatch = 2 * tp;
      run.microbatches = 4;
      run.rate = number_or_none(column);
      if (tp < 1 || run.rate == 0) continue;
      found.push_back(evo_run_of(run));
    }
    return found;
  }

  [[nodiscard]] MeasuredRun flops_run() const {
    return evo_run_of({.gpus = count("GPU Num"),
                       .tp = count("TP"),
                       .shard = count("Zero1"),
                       .sequence = count("Seq Len"),
                       .microbatch = count("Micro Bsz"),
                       .microbatches = count("Micro Num"),
                       .recomputes = text("Activation Ckpt") == "TRUE",
                       .rate = number_or_none("TGS")});
  }
};

}  // namespace

std::vector<MeasuredRun> internevo_runs(const MeasuredTable& table) {
  table.require({"section", "GPU Number", "Parallel Configuration", "TP", "Zero1", "Activation Ckpt",
                 "GPU Num", "Seq Len", "Micro Bsz", "Micro Num", "TGS", "model", "Number of GPU",
                 "GPU Memory (GB)"});
  for (const auto& [column, gpus] : kEvoColumns) table.require({std::string(column)});
  std::vector<MeasuredRun> runs;
  std::set<std::string> known;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    for (MeasuredRun& run : EvoRow(table, row).runs()) {
      if (run.run && !known.insert(run.name).second) {
        run.run.reset();
        run.reason = "a run that a row before tells, too";
      }
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

}  // namespace pipesim
