#include "tools/render/base/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

std::size_t width_of(char32_t point) {
  const auto within = [point](char32_t first, char32_t last) { return point >= first && point <= last; };
  if (within(0x300, 0x36F) || within(0x200B, 0x200D) || within(0xFE00, 0xFE0F)) return 0;
  const bool wide = within(0x1100, 0x115F) || within(0x2E80, 0xA4CF) || within(0xAC00, 0xD7A3) ||
                    within(0xF900, 0xFAFF) || within(0xFF00, 0xFF60) || within(0x1F300, 0x1F64F) ||
                    within(0x20000, 0x3FFFD);
  return wide ? 2 : 1;
}

std::string padded(const std::string& cell, std::size_t width, Align align) {
  const std::string space(width - display_width(cell), ' ');
  return align == Align::Left ? cell + space : space + cell;
}

}  // namespace

std::size_t display_width(std::string_view utf8) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < utf8.size();) {
    const auto lead = static_cast<unsigned char>(utf8[i++]);
    const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
    char32_t point = more == 0 ? lead : lead & (0x3FU >> more);
    for (int k = 0; k < more && i < utf8.size(); ++k)
      point = point << 6U | (static_cast<unsigned char>(utf8[i++]) & 0x3FU);
    width += width_of(point);
  }
  return width;
}

void Table::add(std::vector<std::string> cells) {
  if (cells.size() != columns_.size()) {
    throw InternalError(
        fmt::format("a table of {} columns was given a row of {} cells", columns_.size(), cells.size()));
  }
  rows_.push_back(std::move(cells));
}

std::string Table::str(std::size_t indent) const {
  std::vector<std::size_t> widths;
  std::vector<std::string> titles;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    titles.push_back(columns_[c].title);
    widths.push_back(display_width(titles[c]));
    for (const auto& row : rows_) widths[c] = std::max(widths[c], display_width(row[c]));
  }
  std::string text;
  const auto write = [&](const std::vector<std::string>& row) {
    std::string line(indent, ' ');
    for (std::size_t c = 0; c < row.size(); ++c)
      line += (c ? "  " : "") + padded(row[c], widths[c], columns_[c].align);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  if (std::any_of(titles.begin(), titles.end(), [](const std::string& title) { return !title.empty(); }))
    write(titles);
  for (const auto& row : rows_) write(row);
  return text;
}

}  // namespace pipesim
