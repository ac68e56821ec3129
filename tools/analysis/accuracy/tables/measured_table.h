#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// A CSV file whose first line names its columns (RFC 4180: cells may be in double quotes). Cells may be
/// empty. Every error is an InputError `FILE:LINE: what was found, what is allowed`.
class MeasuredTable {
 public:
  /// `source`: the file's name, for messages. Refuses lines with too few or too many cells, an open quote,
  /// columns of the same name, and files without rows.
  static MeasuredTable parse(std::string_view text, const std::string& source);
  static MeasuredTable load(const std::string& path);

  [[nodiscard]] std::size_t rows() const { return rows_.size(); }
  [[nodiscard]] bool has(const std::vector<std::string>& columns) const;
  [[nodiscard]] const std::vector<std::string>& columns() const { return columns_; }

  /// The cell; InternalError where there is no such column.
  [[nodiscard]] const std::string& text(std::size_t row, std::string_view column) const;
  /// Refuses all but whole numbers of 1 or more.
  [[nodiscard]] std::int64_t positive(std::size_t row, std::string_view column) const;
  [[noreturn]] void refuse(std::size_t row, const std::string& message) const;
  /// Refuses the line of the columns' names.
  [[noreturn]] void refuse_columns(const std::string& message) const;

 private:
  struct Row {
    std::size_t line = 0;
    std::vector<std::string> cells;
  };
  [[nodiscard]] std::optional<std::size_t> column_named(std::string_view name) const;

  std::string source_;
  std::vector<std::string> columns_;
  std::vector<Row> rows_;
};

}  // namespace pipesim
