#include "tools/interop/settings/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

constexpr std::int64_t kMostOfASetting = std::int64_t{1} << 40;

// Digits may be parted by underscores.
std::string without_underscores(std::string text) {
  std::erase(text, '_');
  return text;
}

template <typename Number>
std::optional<Number> number_of(const std::string& written) {
  const std::string text = without_underscores(written);
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return number;
}

}  // namespace

std::string Setting::str() const {
  switch (kind) {
    case Kind::None:
      return "none";
    case Kind::Text:
      return "\"" + text + "\"";
    case Kind::List: {
      std::string list;
      constexpr std::size_t kMostShown = 4;
      for (std::size_t i = 0; i < std::min(items.size(), kMostShown); ++i)
        list += (i == 0 ? "" : ", ") + items[i].str();
      return "[" + list + (items.size() > kMostShown ? ", …]" : "]");
    }
    default:
      return text;
  }
}

void Settings::set(Setting setting) {
  const auto same = std::ranges::find(all_, setting.path, &Setting::path);
  if (same == all_.end()) {
    all_.push_back(std::move(setting));
  } else {
    *same = std::move(setting);
  }
}

void Settings::rename(std::string_view from, const std::string& to) {
  const auto old = std::ranges::find(all_, from, &Setting::path);
  if (old == all_.end()) return;
  Setting renamed = *old;
  all_.erase(old);
  renamed.path = to;
  set(std::move(renamed));
}

const Setting* Settings::find(std::string_view path) const {
  const auto found = std::ranges::find(all_, path, &Setting::path);
  return found == all_.end() || found->kind == Setting::Kind::None ? nullptr : &*found;
}

void Settings::fail_value(const Setting& setting, const std::string& allowed) const {
  const bool of_code = setting.kind == Setting::Kind::Code || setting.kind == Setting::Kind::Object;
  throw InputError(fmt::format("{}: {}: found {}{}, allowed: {}", setting.place, setting.path, setting.str(),
                               of_code ? ", which is no constant" : "", allowed));
}

std::optional<std::string> Settings::text(std::string_view path) const {
  const Setting* const setting = find(path);
  if (setting == nullptr) return std::nullopt;
  const bool plain = setting->kind == Setting::Kind::Text || setting->kind == Setting::Kind::Number;
  if (!plain) fail_value(*setting, "a text");
  return setting->text;
}

std::optional<bool> Settings::truth(std::string_view path) const {
  const Setting* const setting = find(path);
  if (setting == nullptr) return std::nullopt;
  if (setting->kind != Setting::Kind::Truth) fail_value(*setting, "true or false");
  return setting->text == "true";
}

std::optional<std::int64_t> Settings::count(std::string_view path, std::int64_t least) const {
  const Setting* const setting = find(path);
  if (setting == nullptr) return std::nullopt;
  const auto number =
      setting->kind == Setting::Kind::Number ? number_of<std::int64_t>(setting->text) : std::nullopt;
  if (!number || *number < least || *number > kMostOfASetting)
    fail_value(*setting, fmt::format("a whole number from {} to {}", least, kMostOfASetting));
  return number;
}

std::optional<double> Settings::real(std::string_view path) const {
  const Setting* const setting = find(path);
  if (setting == nullptr) return std::nullopt;
  const auto number =
      setting->kind == Setting::Kind::Number ? number_of<double>(setting->text) : std::nullopt;
  if (!number || *number < 0) fail_value(*setting, "a number from 0 on");
  return number;
}

std::int64_t Settings::required(std::string_view path) const {
  const auto number = count(path);
  if (!number) throw InputError(fmt::format("{}: {} is missing", source_, path));
  return *number;
}

std::string Settings::word(std::string_view path, std::string_view otherwise,
                           std::initializer_list<std::string_view> allowed) const {
  const Setting* const setting = find(path);
  if (setting == nullptr) return std::string(otherwise);
  const bool known =
      setting->kind == Setting::Kind::Text && std::ranges::find(allowed, setting->text) != allowed.end();
  if (!known) fail_value(*setting, fmt::format("{}", fmt::join(allowed, ", ")));
  return setting->text;
}

std::vector<std::string> Settings::texts(std::string_view path) const {
  const Setting* const setting = find(path);
  std::vector<std::string> texts;
  if (setting == nullptr) return texts;
  if (setting->kind != Setting::Kind::List) fail_value(*setting, "a list of texts");
  for (const Setting& item : setting->items) {
    if (item.kind != Setting::Kind::Text) fail_value(*setting, "a list of texts");
    texts.push_back(item.text);
  }
  return texts;
}

void Settings::fail(std::string_view path, const std::string& message) const {
  const auto found = std::ranges::find(all_, path, &Setting::path);
  throw InputError(fmt::format("{}: {}: {}", found == all_.end() ? source_ : found->place, path, message));
}

}  // namespace pipesim
