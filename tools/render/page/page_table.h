#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace pipesim {

/// A table of a page, which a reader can copy.
struct PageTable {
  struct Column {
    std::string name;
    bool number = false;  ///< aligned right
    bool operator==(const Column&) const = default;
  };
  std::string title;
  std::string note;  ///< a sentence under the title; "": none
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  ///< each as long as `columns`
  bool operator==(const PageTable&) const = default;
};

/// A label and a value: "iteration", "1.02 s".
struct PageFact {
  std::string label, value;
  bool operator==(const PageFact&) const = default;
};

/// An object with title, note, columns ({name, number}) and rows.
nlohmann::ordered_json json_of(const PageTable& table);
/// A list of pairs.
nlohmann::ordered_json json_of(const std::vector<PageFact>& facts);

}  // namespace pipesim
