#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pipesim {

enum class Align : std::uint8_t { Left, Right };

/// A table of text for a terminal: columns as wide as their widest cell, two spaces between them.
///
///     operator  parameters
///     conv1          9.4 k
///
/// Without any title there is no head line. Lines have no trailing spaces.
class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::Left;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One cell per column; InternalError otherwise.
  void add(std::vector<std::string> cells);

  [[nodiscard]] std::size_t rows() const { return rows_.size(); }
  /// Each line is indented by `indent` spaces and ends in "\n".
  [[nodiscard]] std::string str(std::size_t indent = 0) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Columns that UTF-8 text takes on a terminal: combining marks take none, East Asian wide characters two.
std::size_t display_width(std::string_view utf8);

}  // namespace pipesim
