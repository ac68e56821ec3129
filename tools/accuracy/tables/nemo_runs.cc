#include "tools/accuracy/tables/nemo_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tools/accuracy/tables/measured_row.h"

namespace pipesim {
namespace {

struct NamedModel {
  std::string_view name, model;  // text of open_model() but for the sequence
};
// GPT3: NeMo's configurations of 5b, 20b and 175b. Nemotron: arXiv:2402.16819, table 1, and 2406.11704, table
// 1; Nemotron-8B: its config.json. Squared ReLU costs what GELU does.
constexpr std::array kModels = std::to_array<NamedModel>({
    {"GPT3-5B", "gpt:layers=24,hidden=4096,heads=32,vocab=51200,dropout=0"},
    {"GPT3-20B", "gpt:layers=44,hidden=6144,heads=48,vocab=51200,dropout=0"},
    {"GPT3-175B", "gpt:layers=96,hidden=12288,heads=96,vocab=51200,dropout=0"},
    {"Nemotron-8B",
     "gpt:layers=32,hidden=4096,heads=32,vocab=256000,dropout=0,bias=no,position=rotary,projection=untied"},
    {"Nemotron-22B",
     "gpt:layers=40,hidden=6144,heads=48,vocab=256000,dropout=0,bias=no,position=rotary,projection=untied"},
    {"Nemotron-340B",
     "gpt:layers=96,hidden=18432,heads=96,kv_heads=8,vocab=256000,dropout=0,bias=no,position=rotary,"
     "projection=untied"},
    {"LLAMA2-7B", "llama:layers=32,hidden=4096,heads=32,kv_heads=32,ffn=11008,vocab=32000"},
    {"LLAMA2-13B", "llama:layers=40,hidden=5120,heads=40,kv_heads=40,ffn=13824,vocab=32000"},
    {"LLAMA2-70B", "llama:layers=80,hidden=8192,heads=64,kv_heads=8,ffn=28672,vocab=32000"},
    {"LLAMA3-8B", "llama3-8b:"},
    {"LLAMA3-70B", "llama3-70b:"},
    {"LLAMA3.1-405B", "llama3-405b:"},
    {"DeepSeekV3", "deepseek-v3:"},
    {"Qwen3-30B-a3B", "qwen3-235b:layers=48,hidden=2048,heads=32,kv_heads=4,ffn=768"},
    {"Qwen3-235B-a22B", "qwen3-235b:"},
});

std::string without_remark(std::string name) {
  name = name.substr(0, name.find(" ("));
  std::ranges::replace(name, '_', '-');
  return name;
}

const NamedModel* find_model(const std::string& name) {
  const auto found = std::ranges::find(kModels, name, &NamedModel::name);
  return found == kModels.end() ? nullptr : found;
}

// Returns the model's text for open_model().
std::string model_text(const NamedModel& named, std::int64_t sequence, bool float8) {
  std::string text(named.model);
  if (!text.ends_with(':')) text += ',';
  text += fmt::format("dtype=bfloat16,sequence={}", sequence);
  if (named.model.starts_with("gpt:")) text += fmt::format(",positions={}", sequence);
  return text + (float8 ? ",products=float8" : "");
}

struct Degrees {
  std::int64_t gpus = 1, tp = 1, pp = 1, cp = 1, ep = 1, vpp = 1, mbs = 1, batch = 1;
  [[nodiscard]] std::int64_t copies() const { return gpus / (tp * pp * cp); }
};

// The recipe follows the configurations of NeMo, Megatron-Bridge and MLPerf: sequence parallelism with tensor
// parallelism, the distributed optimizer, and communication of data parallelism beside compute.
std::string recipe_of(const Degrees& d) {
  std::string recipe = fmt::format("tp{},pp{},cp{},dp{},mbs{},zero1", d.tp, d.pp, d.cp, d.copies(), d.mbs);
  if (d.tp > 1) recipe += ",sp";
  if (d.ep > 1) recipe += fmt::format(",ep{},etp1", d.ep);
  if (d.vpp > 1) recipe += fmt::format(",vpp{}", d.vpp);
  if (d.copies() * d.cp > 1) recipe += ",overlap=gather";
  if (d.pp > 1) recipe += ",reduce=overlapped";
  return recipe;
}
// Communication of tensor parallelism, too, runs beside compute with NeMo and Megatron-Bridge
// (tp_comm_overlap), and where MLPerf's configurations say so.
std::string runtime_of(bool tensor_overlap) {
  return fmt::format("megatron:overlap=always,tensor-overlap={}", tensor_overlap ? "always" : "never");
}

// Why degrees can't be those of a run; "": they can.
std::string refusal_of(const Degrees& d) {
  if (d.gpus % (d.tp * d.pp * d.cp) != 0) return "degrees that do not divide the number of GPUs";
  if (d.batch % (d.copies() * d.mbs) != 0) return "a batch that microbatches do not divide";
  return "";
}

class NemoRow : MeasuredRow {
 public:
  NemoRow(const MeasuredTable& table, std::size_t row)
      : MeasuredRow(table, row), bridge_(table.has({"Precision"})) {}

  [[nodiscard]] MeasuredRun run() const {
    MeasuredRun run;
    run.name =
        fmt::format("{} on {}: tp{} pp{} cp{}", name(), text("#-GPUs"), text("TP"), text("PP"), text("CP"));
    run.reason = refusal();
    if (!run.reason.empty()) return run;
    const Degrees d = degrees();
    run.fitted = true;
    run.measured_time = Seconds(static_cast<double>(d.batch * count("Sequence Length")) /
                                (number_or_none("Tokens / sec / GPU") * static_cast<double>(d.gpus)));
    run.groups = {name(), fmt::format("tp {}", d.tp), fmt::format("pp {}", d.pp),
                  float8() ? "float8" : "bfloat16"};
    run.workload = fmt::format("{} on {} GPUs, batch {}", name(), d.gpus, d.batch);
    add_traits({"#-GPUs", "GBS", "MBS", "TP", "PP"}, run);
    run.run = ExpressedRun{.model = model_text(*find_model(name()), count("Sequence Length"), float8()),
                           .topology = *part_of_preset("dgx-h100", 8, d.gpus),
                           .recipe = recipe(d),
                           .batch = d.batch,
                           .gradient_type = DataType::BFloat16,
                           .runtime = runtime_of(true)};
    return run;
  }

 private:
  [[nodiscard]] std::string name() const { return without_remark(text(bridge_ ? "model" : "Model")); }
  // NeMo's tables state float8 for all of their rows.
  [[nodiscard]] bool float8() const { return !bridge_ || text("Precision").starts_with("FP8"); }

  [[nodiscard]] std::int64_t degree(std::string_view column) const {
    return text(column).empty() || text(column) == "n/a" ? 1 : count(column);
  }

  [[nodiscard]] Degrees degrees() const {
    return {.gpus = count("#-GPUs"),
            .tp = count("TP"),
            .pp = count("PP"),
            .cp = degree("CP"),
            .ep = bridge_ ? degree("EP") : 1,
            .vpp = degree("VP"),
            .mbs = count("MBS"),
            .batch = count("GBS")};
  }

  [[nodiscard]] std::string refusal() const {
    const std::string& task = text(bridge_ ? "task" : "section");
    if (task.find("retraining") == std::string::npos && task.find("Pre-Training") == std::string::npos)
      return task.find("B200") != std::string::npos   ? "no rate measured"
             : task.find("Long") != std::string::npos ? "a model that is not told"
                                                      : "finetuning, some of it of adapters only";
    if (bridge_ && text("Precision").empty()) return "a precision that is not told";
    if (!bridge_ && text("VP").empty() && text("PP") != "1") return "a number of stages that is not told";
    if (text(bridge_ ? "model" : "Model").find("tokendrop") != std::string::npos)
      return "tokens that are dropped";
    if (find_model(name()) == nullptr) return "a model that pipesim does not know: " + name();
    if (!part_of_preset("dgx-h100", 8, count("#-GPUs"))) return "nodes that are not whole";
    if (number_or_none("Tokens / sec / GPU") == 0) return "no rate measured";
    return refusal_of(degrees());
  }

  [[nodiscard]] std::string recipe(const Degrees& d) const {
    if (bridge_ && count_or_none("FSDP") > 1) return fmt::format("dp{},mbs{},zero3", d.copies(), d.mbs);
    std::string recipe = recipe_of(d);
    // Embedding and head count as layers.
    if (name() == "LLAMA3.1-405B") recipe += ",first=15,last=15";
    return recipe;
  }

  bool bridge_;
};

class MlperfRow : MeasuredRow {
 public:
  using MeasuredRow::MeasuredRow;

  [[nodiscard]] MeasuredRun run() const {
    MeasuredRun run;
    run.name = fmt::format("{} {}", text("round"), text("system"));
    run.reason = refusal();
    if (!run.reason.empty()) return run;
    const Degrees d = degrees();
    run.name += fmt::format(": tp{} pp{} dp{}", d.tp, d.pp, d.copies());
    run.fitted = true;
    run.measured_time =
        Seconds(static_cast<double>(d.batch * count("seq")) / number_or_none("throughput_reported"));
    run.groups = {text("round"), preset()};
    add_traits({"n_gpus", "grad_acc", "pp"}, run);
    run.run = ExpressedRun{.model = model_text(*find_model("GPT3-175B"), count("seq"), true),
                           .topology = *gpus_of(preset()),
                           .recipe = recipe_of(d),
                           .batch = d.batch,
                           .gradient_type = DataType::BFloat16,
                           .runtime = runtime_of(says("other_flags", "TP_COMM_OVERLAP=True"))};
    return run;
  }

 private:
  [[nodiscard]] std::string preset() const { return says("system", "b200") ? "dgx-b200" : "dgx-h100"; }

  [[nodiscard]] Degrees degrees() const {
    return {.gpus = count("n_gpus"),
            .tp = count("tp"),
            .pp = count("pp"),
            .cp = std::max<std::int64_t>(1, count_or_none("cp")),
            .vpp = std::max<std::int64_t>(1, count_or_none("vpp")),
            .mbs = count("mbs"),
            .batch = count("gbs")};
  }

  [[nodiscard]] std::string refusal() const {
    constexpr std::int64_t kManyMicrobatches = 16;  // for each of a pipeline's groups
    if (text("config_unique") != "1") return "a configuration that is not told for sure, or not of GPUs";
    if (number_or_none("throughput_reported") == 0) return "no rate measured";
    if (text("vpp").empty() && count("grad_acc") < kManyMicrobatches * count("pp"))
      return "a number of stages that is not told and matters, with few microbatches";
    if (!gpus_of(preset())) return "nodes that are not whole";
    return refusal_of(degrees());
  }
};

}  // namespace

std::vector<MeasuredRun> nemo_runs(const MeasuredTable& table) {
  table.require({"#-GPUs", "GBS", "MBS", "Sequence Length", "TP", "PP", "CP", "VP", "Tokens / sec / GPU"});
  if (table.has({"Precision"}))
    table.require({"task", "model", "EP", "FSDP"});
  else
    table.require({"section", "Model"});
  return runs_of_rows<NemoRow>(table);
}

std::vector<MeasuredRun> mlperf_runs(const MeasuredTable& table) {
  table.require({"round", "system", "n_gpus", "tp", "pp", "vpp", "cp", "mbs", "gbs", "grad_acc", "seq",
                 "throughput_reported", "other_flags", "config_unique"});
  return runs_of_rows<MlperfRow>(table);
}

}  // namespace pipesim
