#include "tools/interop/settings/known_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "sim/base/suggest.h"

namespace pipesim {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) words.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// Numbers are the same however they are written: 5e8, 500000000.
bool is_same(const std::string& text, std::string_view other) {
  if (text == other) return true;
  const std::string others(other);
  char *end = nullptr, *others_end = nullptr;
  const double number = std::strtod(text.c_str(), &end),
               others_number = std::strtod(others.c_str(), &others_end);
  return end != text.c_str() && *end == 0 && others_end != others.c_str() && *others_end == 0 &&
         number == others_number;
}

bool asks_for(const Setting& setting, std::string_view unless) {
  switch (setting.kind) {
    case Setting::Kind::None:
      return false;
    case Setting::Kind::List:
      return !setting.items.empty();
    default:
      return setting.text != "false" && setting.text != "0" && setting.text != "0.0" &&
             !setting.text.empty() && (unless.empty() || !is_same(setting.text, unless));
  }
}

class KnownTable {
 public:
  explicit KnownTable(std::span<const KnownSettings> known) {
    for (const KnownSettings& row : known) {
      for (std::string& path : words_of(row.paths)) {
        const bool all = path.ends_with(".*");
        if (all) path.pop_back();
        (all ? beginnings_ : paths_)[path] = &row;
        if (!all) names_.push_back(path);
      }
    }
  }
  [[nodiscard]] const KnownSettings* find(const std::string& path) const {
    if (const auto row = paths_.find(path); row != paths_.end()) return row->second;
    for (const auto& [beginning, row] : beginnings_) {
      if (path.starts_with(beginning) || path + "." == beginning) return row;
    }
    return nullptr;
  }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

 private:
  std::map<std::string, const KnownSettings*> paths_, beginnings_;
  std::vector<std::string> names_;
};

}  // namespace

void tell_settings(const Settings& settings, std::span<const KnownSettings> known, std::string_view owner,
                   std::vector<std::string>& left_out) {
  const KnownTable table(known);
  for (const Setting& setting : settings.all()) {
    const KnownSettings* const row = table.find(setting.path);
    if (row == nullptr) {
      left_out.push_back(fmt::format("{}: no version of {} has it, so it is left out{}", setting.path, owner,
                                     did_you_mean(setting.path, table.names())));
      continue;
    }
    using Effect = KnownSettings::Effect;
    if (row->effect == Effect::Used || row->effect == Effect::None || !asks_for(setting, row->unless))
      continue;
    if (row->effect == Effect::Refused)
      settings.fail(setting.path, fmt::format("found {}: {} can't be expressed", setting.str(), row->what));
    left_out.push_back(fmt::format("{}: {}", setting.path, row->what));
  }
}

}  // namespace pipesim
