#include "tools/analysis/accuracy/tables/measured_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "sim/base/errors.h"
#include "sim/base/files.h"

namespace pipesim {
namespace {

// Cells of one line after the other; quoted cells may hold line breaks.
class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  [[nodiscard]] bool at_end() const { return at_ >= text_.size(); }
  [[nodiscard]] std::size_t line() const { return line_; }

  std::vector<std::string> next() {
    std::vector<std::string> cells;
    do cells.push_back(cell());
    while (taken(','));
    taken('\r');
    if (!at_end() && !taken('\n'))
      throw InputError(
          fmt::format("{}:{}: found \"{}\" behind a quoted cell, allowed: a comma or the line's end", source_,
                      line_, text_[at_]));
    ++line_;
    return cells;
  }

 private:
  bool taken(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string cell() {
    if (taken('"')) return quoted();
    const std::size_t end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
    std::string cell(text_.substr(at_, end - at_));
    at_ = end;
    return cell;
  }

  std::string quoted() {
    std::string cell;
    const std::size_t opened = line_;
    while (!at_end()) {
      const char c = text_[at_++];
      if (c == '"' && !taken('"')) return cell;
      if (c == '\n') ++line_;
      cell += c;
    }
    throw InputError(fmt::format("{}:{}: a quote is opened and never closed", source_, opened));
  }

  std::string_view text_;
  const std::string& source_;
  std::size_t at_ = 0, line_ = 1;
};

}  // namespace

MeasuredTable MeasuredTable::load(const std::string& path) { return parse(read_file(path), path); }

MeasuredTable MeasuredTable::parse(std::string_view text, const std::string& source) {
  MeasuredTable table;
  table.source_ = source;
  CsvReader reader(text, source);
  if (reader.at_end())
    throw InputError(fmt::format("{}: is empty, allowed: a line of column names, then rows", source));
  table.columns_ = reader.next();
  for (auto name = table.columns_.begin(); name != table.columns_.end(); ++name) {
    if (std::find(table.columns_.begin(), name, *name) != name)
      throw InputError(fmt::format("{}:1: two columns are named \"{}\"", source, *name));
  }
  while (!reader.at_end()) {
    const std::size_t line = reader.line();
    std::vector<std::string> cells = reader.next();
    if (cells.size() != table.columns_.size())
      throw InputError(fmt::format("{}:{}: found {} cells, allowed: {}, one for each column", source, line,
                                   cells.size(), table.columns_.size()));
    table.rows_.push_back({line, std::move(cells)});
  }
  if (table.rows_.empty()) throw InputError(fmt::format("{}: has no rows below its column names", source));
  return table;
}

std::optional<std::size_t> MeasuredTable::column_named(std::string_view name) const {
  const auto found = std::find(columns_.begin(), columns_.end(), name);
  if (found == columns_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns_.begin());
}

bool MeasuredTable::has(const std::vector<std::string>& columns) const {
  return std::ranges::all_of(columns, [&](const std::string& c) { return column_named(c).has_value(); });
}

const std::string& MeasuredTable::text(std::size_t row, std::string_view column) const {
  const auto index = column_named(column);
  if (!index) throw InternalError(fmt::format("the table has no column \"{}\"", column));
  return rows_.at(row).cells[*index];
}

std::int64_t MeasuredTable::positive(std::size_t row, std::string_view column) const {
  const std::string& cell = text(row, column);
  std::int64_t value = 0;
  const auto [stopped, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || stopped != cell.data() + cell.size() || value < 1)
    refuse(row,
           fmt::format("column \"{}\": found \"{}\", allowed: a whole number of 1 or more", column, cell));
  return value;
}

void MeasuredTable::refuse(std::size_t row, const std::string& message) const {
  throw InputError(fmt::format("{}:{}: {}", source_, rows_.at(row).line, message));
}

void MeasuredTable::refuse_columns(const std::string& message) const {
  throw InputError(fmt::format("{}:1: {}", source_, message));
}

}  // namespace pipesim
