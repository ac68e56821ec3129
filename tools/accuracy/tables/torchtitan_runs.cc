#include "tools/accuracy/tables/torchtitan_runs.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "tools/accuracy/tables/measured_row.h"

namespace pipesim {
namespace {

// torchtitan's H100s have 96 GB at 500 W (benchmarks/llama3_h100_202412_torchtitan.md).
constexpr const char* kTitanNode = "grand-teton";

// Activation checkpointing works by whole layers (full), by every second layer, or operator by operator.
enum class Checkpointing : std::uint8_t { Full, SecondLayers, Operators };

struct TitanRun {
  std::string model, technique;  // "8B"; what to call the way it ran
  std::string node = kTitanNode;
  std::int64_t gpus = 0, samples = 0, sequence = 8192;  // samples of an iteration
  std::int64_t tp = 1, cp = 1, pp = 1, chunks = 1, microbatch = 0;
  bool compiled = true, float8 = false, async = false;
  Checkpointing checkpointing = Checkpointing::Operators;
  double rate = 0;        // tokens a second and GPU
  std::string reference;  // the technique that it is compared with
  [[nodiscard]] std::int64_t copies() const { return gpus / (tp * cp * pp); }
  [[nodiscard]] std::string named(const std::string& by) const {
    return fmt::format("{} of {} tokens on {} GPUs: {}", model, sequence, gpus, by);
  }
};

// torchtitan/models/llama3/parallelize_llama.py: every second aten.mm of a layer is computed again, and all
// but attention (wk, wo, w3 of wq, wk, wv, wo, w1, w3, w2). Products in float8 are not aten.mm, so all of
// them are computed again.
std::vector<std::string> recomputed_operators(const TitanRun& run) {
  if (run.checkpointing == Checkpointing::Full) return {};
  std::vector<std::string> operators{"attention_norm", "key",      "query_rotary", "key_rotary", "output",
                                     "attention_add",  "ffn_norm", "up",           "gated"};
  if (run.float8 || run.checkpointing == Checkpointing::SecondLayers)
    operators.insert(operators.end(), {"query", "value", "gate"});
  if (run.checkpointing == Checkpointing::SecondLayers)
    operators.insert(operators.end(), {"attention", "down", "ffn_add"});
  return operators;
}

MeasuredRun titan_run_of(const TitanRun& titan) {
  MeasuredRun run;
  run.name = titan.named(titan.technique);
  run.fitted = true;
  run.measured_time = Seconds(static_cast<double>(titan.samples * titan.sequence) /
                              (titan.rate * static_cast<double>(titan.gpus)));
  run.groups = {titan.model, titan.node, titan.compiled ? "compiled" : "eager",
                titan.float8 ? "float8" : "bfloat16"};
  run.groups.push_back(titan.pp > 1   ? "pp"
                       : titan.cp > 1 ? "cp"
                       : titan.tp > 1 ? (titan.async ? "tp beside products" : "tp")
                                      : "fsdp");
  run.workload = fmt::format("{} of {} tokens on {} GPUs, batch {}", titan.model, titan.sequence, titan.gpus,
                             titan.samples);
  if (!titan.reference.empty()) run.compared_with = titan.named(titan.reference);
  for (const auto& [trait, value] :
       {std::pair("gpus", titan.gpus), {"tp", titan.tp}, {"cp", titan.cp}, {"sequence", titan.sequence}})
    run.traits.emplace_back(trait, static_cast<double>(value));
  std::string recipe = fmt::format("tp{},cp{},pp{},dp{},mbs{}", titan.tp, titan.cp, titan.pp, titan.copies(),
                                   titan.microbatch);
  if (titan.tp > 1) recipe += ",sp";
  if (titan.chunks > 1) recipe += fmt::format(",vpp{}", titan.chunks);
  // With pipelines, weights stay gathered from forward to backward.
  recipe += titan.copies() * titan.cp == 1 ? "" : titan.pp > 1 ? ",fsdp,reshard=never" : ",fsdp";
  if (titan.checkpointing == Checkpointing::Full) recipe += ",recompute=full";
  const char* runtime = !titan.compiled ? "torch-eager"
                        : titan.async   ? "torch-compile:tensor-overlap=always"
                                        : "torch-compile";
  std::string model = titan.model;
  model.back() = 'b';
  run.run = ExpressedRun{.model = fmt::format("llama3-{}:dtype=bfloat16,sequence={}{}", model, titan.sequence,
                                              titan.float8 ? ",products=float8" : ""),
                         .topology = *part_of_preset(titan.node, 8, titan.gpus),
                         .recipe = recipe,
                         .batch = titan.samples,
                         .runtime = runtime,
                         .recomputed = recomputed_operators(titan),
                         .recomputed_every = titan.checkpointing == Checkpointing::SecondLayers ? 2 : 1};
  return run;
}

// Counts how often each cell has come in a document, since nothing else tells its tables apart.
using Occurrences = std::map<std::string, std::int64_t>;

class TitanRow : MeasuredRow {
 public:
  TitanRow(const MeasuredTable& table, std::size_t row, Occurrences& seen)
      : MeasuredRow(table, row), table_(table), row_(row), seen_(seen) {}

  [[nodiscard]] std::vector<MeasuredRun> runs() const {
    if (says("section", "H100s with FSDP=")) return async_runs();
    if (!text("NUM_NODES").empty()) return {h200_run()};
    if (!text("WPS").empty()) return {a100_run()};
    if (!text("Techniques").empty() || !text("Parallelism").empty() || !text("Schedule").empty())
      return {h100_run()};
    return {refused("a form of row that pipesim does not know")};
  }

 private:
  [[nodiscard]] MeasuredRun refused(const std::string& reason) const {
    MeasuredRun run;
    run.name = fmt::format("{} {} {} {} {}", text("Model size"), text("Techniques"), text("Parallelism"),
                           text("Schedule"), text("TPS/GPU"));
    run.reason = reason;
    return run;
  }

  // Reads a number such as "5,762".
  [[nodiscard]] double rate(std::string_view column) const {
    std::string digits;
    for (const char c : text(column)) {
      if (c != ',') digits += c;
    }
    double value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || !(value > 0))
      table_.refuse(
          row_, fmt::format("column \"{}\": found \"{}\", allowed: a number above 0", column, text(column)));
    return value;
  }

  // Returns how often the cell has come by now, from 1 on.
  [[nodiscard]] std::int64_t occurrence(std::string_view column) const {
    return ++seen_[fmt::format("{} {} {}={} {}", text("commit"), text("path"), column, text(column),
                               text("Sequence Length"))];
  }

  // The number behind a word of "FSDP 8, CP 1"; 0: it has none.
  [[nodiscard]] std::int64_t degree(std::string_view word) const {
    const std::string& cell = text("Parallelism");
    std::size_t at = cell.find(word);
    std::int64_t number = 0;
    if (at == std::string::npos) return number;
    at += word.size();
    std::from_chars(cell.data() + at, cell.data() + cell.size(), number);
    return number;
  }

  // Llama 3.1 8B on 64 GPUs or 70B on 256, all with tp 8: asyncTP_llama3_h100_2025-06_torchtitan.md.
  [[nodiscard]] std::vector<MeasuredRun> async_runs() const {
    std::vector<MeasuredRun> found;
    const auto add = [&](bool async, std::string_view column) {
      const bool small = says("section", "8b on 64");
      if (!small && !says("section", "70b on 256"))
        return found.push_back(refused("devices that are not told"));
      if (says("Quantization", "rowwise"))
        return found.push_back(refused("float8 with a scale for each row"));
      TitanRun run;
      run.model = small ? "8B" : "70B";
      run.gpus = small ? 64 : 256;
      run.tp = 8;
      run.microbatch = small ? 12 : 16;
      run.samples = run.microbatch * run.copies();
      run.float8 = says("Quantization", "float8");
      run.async = async;
      run.checkpointing = small ? Checkpointing::Operators : Checkpointing::Full;
      run.rate = rate(column);
      const std::string type = run.float8 ? "float8" : "bfloat16";
      run.technique = (async ? "async TP, " : "TP, ") + type;
      if (async) run.reference = "TP, " + type;
      found.push_back(titan_run_of(run));
    };
    if (!text("TP type").empty()) {
      add(says("TP type", "Async"), "Average TPS");
    } else {
      add(false, "Vanilla TP tokens/sec");
      add(true, "Async TP tokens/sec");
    }
    return found;
  }

  // Llama 3.1 8B, compiled, in float8: llama3-8b_h200_202506_trainy-whitefiber.md.
  [[nodiscard]] MeasuredRun h200_run() const {
    TitanRun run;
    run.model = "8B";
    run.node = "hgx-h200";
    run.gpus = 8 * count("NUM_NODES");
    run.microbatch = 2;
    run.samples = run.microbatch * run.gpus;
    run.float8 = true;
    run.rate = rate("TPS/GPU");
    run.technique = "FSDP + torch.compile + Float8";
    return titan_run_of(run);
  }

  // Llama 3 on 64 A100, a sample on each, not compiled: performance.md of 2024.
  [[nodiscard]] MeasuredRun a100_run() const {
    const std::string& kept = text("Activation checkpointing");
    TitanRun run;
    run.model = text("Model size");
    if (run.model != "8B" && run.model != "70B") return refused("devices that are not told");
    run.node = "dgx-a100";
    run.gpus = run.samples = 64;
    run.microbatch = 1;
    run.compiled = false;
    if (kept == "full") run.checkpointing = Checkpointing::Full;
    if (kept == "selective layer") run.checkpointing = Checkpointing::SecondLayers;
    run.rate = rate("WPS");
    run.technique = "FSDP, " + kept;
    return titan_run_of(run);
  }

  // Tables 1 to 6 of llama3_h100_202412_torchtitan.md, in their order.
  [[nodiscard]] MeasuredRun h100_run() const {
    constexpr std::int64_t kLongest = 131072;  // the models' longest sequence
    TitanRun run;
    run.rate = rate("TPS/GPU");
    run.float8 = true;
    if (const std::string& technique = text("Techniques"); !technique.empty()) {
      run.technique = technique;
      const bool again = occurrence("Techniques") > 1;
      if (technique.starts_with("FSDP")) {
        run.model = "8B";
        run.gpus = again ? 128 : 8;
        run.microbatch = 2;
        run.compiled = says("Techniques", "torch.compile");
        run.float8 = says("Techniques", "Float8");
        if (technique != "FSDP") run.reference = "FSDP";
      } else if (technique.starts_with("2D")) {
        run.model = "70B";
        run.gpus = 256;
        run.tp = 8;
        run.microbatch = 16;
        run.checkpointing = Checkpointing::Full;
        run.async = says("Techniques", "AsyncTP");
        if (run.async) run.reference = "2D";
      } else {
        return refused("a technique that pipesim does not know");
      }
      run.samples = run.microbatch * run.copies();
      return titan_run_of(run);
    }
    run.checkpointing = Checkpointing::Full;
    if (!text("Schedule").empty()) {
      run.model = "405B";
      run.gpus = 512;
      run.tp = run.pp = 8;
      run.samples = 256;
      run.chunks = says("Schedule", "Interleaved") ? 2 : 1;
      run.async = true;
      run.technique = text("Schedule");
      if (run.chunks > 1) run.reference = "1F1B";
    } else {
      const bool again = occurrence("Parallelism") > 1;
      run.sequence = count("Sequence Length");
      run.cp = degree("CP ");
      const std::int64_t shards = degree("FSDP ");
      if (run.cp < 1 || shards < 1) return refused("degrees that are not told");
      if (run.sequence > kLongest) return refused("sequences longer than those of pipesim's models");
      run.model = again ? "405B" : "8B";
      run.gpus = again ? 512 : 8;
      if (again) run.tp = run.pp = 8, run.async = true;
      if (run.copies() != shards) return refused("degrees that do not give the number of GPUs");
      run.samples = shards * (again ? 8 : 1);
      run.technique = text("Parallelism");
    }
    // There are as many microbatches as stages, which was torchtitan's default at that time.
    run.microbatch = run.samples / run.copies() / run.pp;
    return titan_run_of(run);
  }

  const MeasuredTable& table_;
  std::size_t row_;
  Occurrences& seen_;
};

}  // namespace

std::vector<MeasuredRun> torchtitan_runs(const MeasuredTable& table) {
  table.require({"commit", "path", "section", "Quantization", "Vanilla TP tokens/sec", "Async TP tokens/sec",
                 "TP type", "Average TPS", "NUM_NODES", "TPS/GPU", "Techniques", "Parallelism",
                 "Sequence Length", "Schedule", "Model size", "Activation checkpointing", "WPS"});
  std::vector<MeasuredRun> runs;
  std::set<std::pair<std::string, double>> known;
  Occurrences seen;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    for (MeasuredRun& run : TitanRow(table, row, seen).runs()) {
      if (run.run && !known.emplace(run.name, run.measured_time.value).second) {
        run.run.reset();
        run.reason = "a repetition of a row before";
      }
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

}  // namespace pipesim
