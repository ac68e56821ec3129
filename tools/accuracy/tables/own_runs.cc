#include "tools/accuracy/tables/own_runs.h"

#include <fmt/format.h>

#include "costmodel/runtime/runtime.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

class OwnRow {
 public:
  OwnRow(const MeasuredTable& table, std::size_t row) : table_(table), row_(row) {}

  [[nodiscard]] MeasuredRun run() const {
    const std::string &model = required("model"), &devices = required("devices"),
                      &recipe = required("recipe");
    MeasuredRun run;
    run.name = optional("name");
    if (run.name.empty())
      run.name = fmt::format("{} on {}: {} batch {}", model, devices, recipe, required("batch"));
    run.workload = fmt::format("{} on {}, batch {}", model, devices, required("batch"));
    read("time", run.measured_time, parse_duration);
    read("memory", run.measured_peak, parse_bytes);
    add_groups(run.groups);
    const std::string status = optional("status");
    const bool ran = status.empty() || status == "ok";
    if (ran || status == "oom") run.fitted = ran;
    if (!run.fitted) {
      run.reason = "a run that failed: " + status;
      return run;
    }
    run.run = ExpressedRun{
        .model = model, .topology = devices, .recipe = recipe, .batch = table_.positive(row_, "batch")};
    if (const std::string runtime = optional("runtime"); !runtime.empty())
      run.run->runtime = checked(runtime);
    return run;
  }

 private:
  [[nodiscard]] const std::string& required(const char* column) const {
    const std::string& text = table_.text(row_, column);
    if (text.empty()) table_.refuse(row_, fmt::format("column \"{}\": is empty", column));
    return text;
  }
  [[nodiscard]] std::string optional(const char* column) const {
    return table_.has({column}) ? table_.text(row_, column) : "";
  }

  [[nodiscard]] std::string checked(const std::string& runtime) const {
    try {
      return parse_runtime(runtime).name;
    } catch (const InputError& error) {
      table_.refuse(row_, fmt::format("column \"runtime\": {}", error.what()));
    }
  }

  template <class Value>
  void read(const char* column, Value& value, Value (*parse)(std::string_view)) const {
    const std::string text = optional(column);
    if (text.empty()) return;
    try {
      value = parse(text);
    } catch (const InputError& error) {
      table_.refuse(row_, fmt::format("column \"{}\": {}", column, error.what()));
    }
  }

  void add_groups(std::vector<std::string>& groups) const {
    const std::string text = optional("group");
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find(';', begin), text.size());
      if (end > begin) groups.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }

  const MeasuredTable& table_;
  std::size_t row_;
};

}  // namespace

std::vector<MeasuredRun> own_runs(const MeasuredTable& table) {
  table.require(kColumnsOfOwnRuns);
  std::vector<MeasuredRun> runs;
  for (std::size_t row = 0; row < table.rows(); ++row) runs.push_back(OwnRow(table, row).run());
  return runs;
}

}  // namespace pipesim
