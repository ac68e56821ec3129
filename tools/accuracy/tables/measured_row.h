#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/accuracy/tables/measured_run.h"
#include "tools/accuracy/tables/measured_table.h"

namespace pipesim {

/// A row of a table, for the classes that turn rows of one form into runs.
class MeasuredRow {
 public:
  MeasuredRow(const MeasuredTable& table, std::size_t row) : table_(table), row_(row) {}

 protected:
  [[nodiscard]] const std::string& text(std::string_view column) const { return table_.text(row_, column); }
  [[nodiscard]] bool says(std::string_view column, std::string_view word) const {
    return text(column).find(word) != std::string::npos;
  }
  /// 1 or more, else InputError.
  [[nodiscard]] std::int64_t count(std::string_view column) const { return table_.positive(row_, column); }
  /// 0 where the cell is empty.
  [[nodiscard]] std::int64_t count_or_none(std::string_view column) const {
    return table_.count(row_, column).value_or(0);
  }
  [[nodiscard]] double number_or_none(std::string_view column) const {
    return table_.number(row_, column).value_or(0);
  }
  [[nodiscard]] bool flag(std::string_view column) const { return table_.flag(row_, column); }
  /// Column n_gpus, of a preset with eight a node; see part_of_preset().
  [[nodiscard]] std::optional<std::string> gpus_of(std::string_view preset) const {
    return part_of_preset(preset, 8, count("n_gpus"));
  }
  void add_traits(std::initializer_list<const char*> columns, MeasuredRun& run) const {
    for (const char* column : columns) run.traits.emplace_back(column, static_cast<double>(count(column)));
  }

 private:
  const MeasuredTable& table_;
  std::size_t row_;
};

/// `Row` has MeasuredRun run() const.
template <class Row>
std::vector<MeasuredRun> runs_of_rows(const MeasuredTable& table) {
  std::vector<MeasuredRun> runs;
  for (std::size_t row = 0; row < table.rows(); ++row) runs.push_back(Row(table, row).run());
  return runs;
}

}  // namespace pipesim
