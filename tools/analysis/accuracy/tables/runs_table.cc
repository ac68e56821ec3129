#include "tools/analysis/accuracy/tables/runs_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "costmodel/runtime/runtime.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tools/analysis/inputs/collective_run.h"

namespace pipesim {
namespace {

constexpr unsigned kOfRun = static_cast<unsigned>(RowKind::Run),
                   kOfCollective = static_cast<unsigned>(RowKind::Collective),
                   kOfMixture = static_cast<unsigned>(RowKind::Mixture),
                   kOfAll = kOfRun | kOfCollective | kOfMixture;

using Names = std::vector<std::string>;

// What rows of a kind can't do without.
const Names kNeededByRuns{"model", "devices", "recipe", "batch"},
    kNeededByCollectives{"devices", "collective", "members", "size"},
    kPartsOfMixtures{"product_alone", "collective_alone", "to_device_alone", "to_host_alone"};

std::string_view noun_of(RowKind kind) {
  return kind == RowKind::Run ? "a run" : kind == RowKind::Collective ? "a collective" : "a mixture";
}

// The parts of a cell, divided by semicolons.
Names parts_of(const std::string& text) {
  Names parts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(';', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

class RunsRow {
 public:
  RunsRow(const MeasuredTable& table, std::size_t row) : table_(table), row_(row) {}

  [[nodiscard]] MeasuredRun run() const {
    MeasuredRun run;
    run.name = cell("name");
    run.reason = cell("reason");
    read_figure("time", run.measured_time, parse_duration);
    read_figure("memory", run.measured_peak, parse_bytes);
    read_figure("state", run.measured_state, parse_bytes);
    run.groups = parts_of(cell("group"));
    run.workload = cell("workload");
    run.compared_with = cell("compared_with");
    read_traits(run);
    const std::string status = cell("status");
    if (status == "ok" || status == "oom") run.fitted = status == "ok";
    if (!run.reason.empty()) {
      if (run.name.empty()) refuse("name", "a name, since the row has a reason in place of a run");
      return run;
    }
    const RowKind kind = this->kind();
    refuse_other_kinds(kind);
    if (kind == RowKind::Mixture) {
      run.mixture = mixture();
    } else if (kind == RowKind::Collective) {
      run.collective = collective();
    } else {
      add_run(status, run);
    }
    if (run.name.empty()) refuse("name", "a name, unless the row is of a run");
    return run;
  }

 private:
  [[nodiscard]] std::string cell(const std::string& column) const {
    return table_.has({column}) ? table_.text(row_, column) : "";
  }
  [[noreturn]] void refuse(const std::string& column, const std::string& allowed) const {
    table_.refuse(row_,
                  fmt::format("column \"{}\": found \"{}\", allowed: {}", column, cell(column), allowed));
  }
  [[nodiscard]] std::string required(const std::string& column) const {
    std::string text = cell(column);
    if (text.empty()) table_.refuse(row_, fmt::format("column \"{}\": is empty", column));
    return text;
  }
  // Whether the cell is that word; refuses all but it, the other one and nothing.
  [[nodiscard]] bool is(const std::string& column, const std::string& word,
                        const std::string& other = "") const {
    const std::string text = cell(column);
    if (text == word) return true;
    if (!text.empty() && text != other)
      refuse(column, fmt::format("{}, {}or nothing", word, other.empty() ? "" : other + ", "));
    return false;
  }

  [[nodiscard]] MemoryFigure memory_figure() const {
    const std::string text = cell("memory_figure");
    if (text.empty() || text == "allocated") return MemoryFigure::Allocated;
    if (text == "reserved") return MemoryFigure::Reserved;
    if (text == "process") return MemoryFigure::Process;
    refuse("memory_figure", "allocated, reserved, process, or nothing");
  }

  // Reads a cell that is not empty; says which column holds what the parser refuses.
  template <class Value>
  [[nodiscard]] Value parsed(const std::string& column, Value (*parse)(std::string_view)) const {
    try {
      return parse(cell(column));
    } catch (const InputError& error) {
      table_.refuse(row_, fmt::format("column \"{}\": {}", column, error.what()));
    }
  }
  template <class Value>
  void read(const std::string& column, Value& value, Value (*parse)(std::string_view)) const {
    if (!cell(column).empty()) value = parsed(column, parse);
  }
  // The same for a figure that was measured: 0 says that it was not.
  template <class Value>
  void read_figure(const std::string& column, Value& value, Value (*parse)(std::string_view)) const {
    read(column, value, parse);
    if (!cell(column).empty() && value.value == 0) refuse(column, "more than 0, or nothing");
  }

  void read_traits(MeasuredRun& run) const {
    for (const std::string& trait : parts_of(cell("traits"))) {
      const std::size_t equals = std::min(trait.rfind('='), trait.size());
      const char* begin = trait.data() + std::min(equals + 1, trait.size());
      const char* end = trait.data() + trait.size();
      double value = 0;
      const auto [stopped, error] = std::from_chars(begin, end, value);
      if (equals == 0 || error != std::errc() || stopped != end || !std::isfinite(value))
        refuse("traits", "names with numbers, such as \"tp=8;sequence=4096\", or nothing");
      run.traits.emplace_back(trait.substr(0, equals), value);
    }
  }

  [[nodiscard]] RowKind kind() const {
    if (std::ranges::any_of(kPartsOfMixtures, [&](const std::string& c) { return !cell(c).empty(); }))
      return RowKind::Mixture;
    return cell("collective").empty() ? RowKind::Run : RowKind::Collective;
  }

  void refuse_other_kinds(RowKind kind) const {
    for (const RunsColumn& column : runs_columns()) {
      if ((column.kinds & static_cast<unsigned>(kind)) == 0 && !cell(column.name).empty())
        refuse(column.name, fmt::format("nothing in the row of {}", noun_of(kind)));
    }
  }

  [[nodiscard]] ExpressedMixture mixture() const {
    ExpressedMixture mixture;
    read("product_alone", mixture.product, parse_duration);
    read("collective_alone", mixture.collective, parse_duration);
    read("to_device_alone", mixture.to_device, parse_duration);
    read("to_host_alone", mixture.to_host, parse_duration);
    return mixture;
  }

  [[nodiscard]] ExpressedCollective collective() const {
    ExpressedCollective collective;
    collective.topology = required("devices");
    collective.kind = parsed("collective", parse_collective);
    collective.devices = table_.positive(row_, "members");
    (void)required("size");
    read_figure("size", collective.size, parse_bytes);
    DataType type = DataType::Float16;
    read("type", type, parse_data_type);
    collective.in_switch = type != DataType::UInt8;
    return collective;
  }

  void add_run(const std::string& status, MeasuredRun& run) const {
    const std::string model = required("model"), devices = required("devices"), recipe = required("recipe"),
                      batch = required("batch");
    if (run.name.empty()) run.name = fmt::format("{} on {}: {} batch {}", model, devices, recipe, batch);
    if (!table_.has({"workload"})) run.workload = fmt::format("{} on {}, batch {}", model, devices, batch);
    if (status.empty()) run.fitted = true;
    if (!run.fitted) {
      run.reason = "a run that failed: " + status;
      return;
    }
    ExpressedRun expressed{
        .model = model, .topology = devices, .recipe = recipe, .batch = table_.positive(row_, "batch")};
    read("gradient_type", expressed.gradient_type, parse_data_type);
    read("optimizer", expressed.optimizer, parse_optimizer);
    read("workspace", expressed.workspace, parse_bytes);
    if (!cell("runtime").empty()) expressed.runtime = parsed("runtime", parse_runtime).name;
    expressed.post_validation = is("time_of", "device", "iteration");
    expressed.fullest_peak = !is("memory_of", "last", "fullest");
    expressed.memory_figure = memory_figure();
    run.run = std::move(expressed);
  }

  const MeasuredTable& table_;
  std::size_t row_;
};

Names lacking(const MeasuredTable& table, const Names& needed) {
  Names names;
  for (const std::string& name : needed) {
    if (!table.has({name})) names.push_back(name);
  }
  return names;
}

}  // namespace

const std::vector<RunsColumn>& runs_columns() {
  static const std::vector<RunsColumn> columns{
      {"name", kOfAll, "what to call the row"},
      {"model", kOfRun, "as --model takes it"},
      {"devices", kOfRun | kOfCollective, "as --topology takes them"},
      {"recipe", kOfRun, "as --recipe takes it"},
      {"batch", kOfRun, "samples of an iteration"},
      {"runtime", kOfRun, "as --runtime takes it; left out, megatron"},
      {"time", kOfAll, "of an iteration, a collective or a mixture, \"372 ms\""},
      {"time_of", kOfRun,
       "iteration; or device, where devices begin the next iteration without waiting for others: the longest "
       "time from a device's first task to its last"},
      {"memory", kOfRun, "the peak, \"59 GB\""},
      {"memory_of", kOfRun, "the device that has this peak: fullest, or last; left out, fullest"},
      {"memory_figure", kOfRun,
       "what the peak counts: allocated, tensors alone; reserved, what the allocator holds; or process, as "
       "nvidia-smi shows it; left out, allocated"},
      {"state", kOfRun, "memory of the last device at an iteration's end: weights, gradients, optimizer"},
      {"status", kOfRun,
       "ok, or oom where memory was short; all else is a run that failed for another reason; left out, ok"},
      {"reason", kOfAll, "why pipesim can't express the row, which is then counted and not predicted"},
      {"group", kOfAll, "groups that errors are reported for, divided by semicolons"},
      {"workload", kOfRun,
       "what runs that could replace each other have in common; left out, model, devices and batch"},
      {"compared_with", kOfAll, "the name of the row over which the speedup of this one is judged"},
      {"traits", kOfAll, "figures that the error may go with, \"tp=8;sequence=4096\""},
      {"gradient_type", kOfRun, "as --gradient-type takes it; left out, float32"},
      {"optimizer", kOfRun, "as --optimizer takes it; left out, adam"},
      {"workspace", kOfRun, "memory that libraries hold beside the model"},
      {"collective", kOfCollective, "as --kind of the command collective takes it"},
      {"members", kOfCollective, "how many of the devices take part, the first ones"},
      {"size", kOfCollective, "of the buffer, \"4 MiB\""},
      {"type", kOfCollective, "of the elements; left out, float16. Switches can't add uint8"},
      {"product_alone", kOfMixture, "time of the product, if it ran alone"},
      {"collective_alone", kOfMixture, "time of the collective beside it"},
      {"to_device_alone", kOfMixture, "time of the copy from the host"},
      {"to_host_alone", kOfMixture, "time of the copy to the host"},
      {"source", kOfAll, "where the figures are published; for readers only"}};
  return columns;
}

std::string no_runs_table(const MeasuredTable& table) {
  const Names lacks = lacking(table, kNeededByRuns);
  if (lacks.empty() || lacking(table, kNeededByCollectives).empty() ||
      lacking(table, kPartsOfMixtures).size() < kPartsOfMixtures.size())
    return "";
  return fmt::format(
      "is no table of measured runs: has no {} {}, allowed: {} and what \"pipesim help accuracy --all\" "
      "names; scripts in data/measured/convert write such tables from published ones",
      lacks.size() == 1 ? "column" : "columns", list_names(lacks), list_names(kNeededByRuns));
}

std::vector<MeasuredRun> runs_of_table(const MeasuredTable& table) {
  if (const std::string reason = no_runs_table(table); !reason.empty()) table.refuse_columns(reason);
  Names known;
  for (const RunsColumn& column : runs_columns()) known.push_back(column.name);
  for (const std::string& column : table.columns()) {
    if (std::ranges::find(known, column) == known.end())
      table.refuse_columns(fmt::format("found the column \"{}\"{}, allowed: {}", column,
                                       did_you_mean(column, known), list_names(known, known.size())));
  }
  std::vector<MeasuredRun> runs;
  std::set<std::string> names;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    runs.push_back(RunsRow(table, row).run());
    names.insert(runs.back().name);
  }
  for (std::size_t row = 0; row < runs.size(); ++row) {
    const std::string& other = runs[row].compared_with;
    if (!other.empty() && !names.contains(other))
      table.refuse(row,
                   fmt::format("column \"compared_with\": found \"{}\", allowed: the name of a row", other));
  }
  return runs;
}

}  // namespace pipesim
