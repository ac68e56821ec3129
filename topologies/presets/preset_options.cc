#include "topologies/presets/preset_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <vector>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {

namespace {

using Kind = NetworkOptions::Kind;

constexpr std::int64_t kMostNodes = max_devices;
constexpr double kMostOversubscription = 100;

const std::vector<std::string>& keys() {
  static const std::vector<std::string> all{"gpus", "network",          "leaf",
                                            "pod",  "oversubscription", "core_oversubscription"};
  return all;
}

class OptionText {
 public:
  explicit OptionText(std::string_view whole) : whole_(whole) {}

  [[nodiscard]] PresetOptions parse(std::string_view text) const {
    PresetOptions options;
    std::set<std::string> given;
    for (std::size_t end = 0; end != std::string_view::npos; text.remove_prefix(end + 1)) {
      end = text.find(',');
      const std::string_view one = text.substr(0, end);
      const std::size_t equals = one.find('=');
      if (equals == std::string_view::npos)
        fail(fmt::format("found \"{}\", allowed is key=value with the keys {}", one, list_names(keys())));
      const std::string key(one.substr(0, equals));
      if (std::ranges::find(keys(), key) == keys().end())
        fail(fmt::format("unknown option \"{}\"{}; allowed: {}", key, did_you_mean(key, keys()),
                         list_names(keys())));
      if (!given.insert(key).second) fail(fmt::format("option \"{}\" is given twice", key));
      set(options, key, one.substr(equals + 1));
      if (end == std::string_view::npos) break;
    }
    given.erase("network");
    given.erase("gpus");
    if (options.network.kind == Kind::Ideal && !given.empty())
      fail(fmt::format("{} needs network=rail or network=fat-tree", *given.begin()));
    return options;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("topology \"{}\": {}", whole_, what));
  }

  void set(PresetOptions& options, const std::string& key, std::string_view value) const {
    NetworkOptions& network = options.network;
    if (key == "gpus") options.gpus = gpus(value);
    if (key == "network") network.kind = kind(value);
    if (key == "leaf") network.leaf = nodes(key, value);
    if (key == "pod") network.pod = nodes(key, value);
    if (key == "oversubscription") network.oversubscription = ratio(key, value);
    if (key == "core_oversubscription") network.core_oversubscription = ratio(key, value);
  }

  [[nodiscard]] Kind kind(std::string_view value) const {
    std::vector<std::string> names;
    for (const Kind kind : {Kind::Ideal, Kind::Rail, Kind::FatTree}) {
      if (value == name_of(kind)) return kind;
      names.emplace_back(name_of(kind));
    }
    fail(fmt::format("network must be one of {}, got \"{}\"{}", list_names(names), value,
                     did_you_mean(value, names)));
  }

  template <class Number>
  static bool reads(std::string_view text, Number& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
  }

  [[nodiscard]] std::int64_t gpus(std::string_view value) const {
    std::int64_t number = 0;
    if (!reads(value, number) || number < 1)
      fail(fmt::format("gpus must be a number of GPUs of a node from 1 on, got \"{}\"", value));
    return number;
  }

  [[nodiscard]] std::int64_t nodes(const std::string& key, std::string_view value) const {
    std::int64_t number = 0;
    if (!reads(value, number) || number < 1 || number > kMostNodes)
      fail(fmt::format("{} must be a number of nodes from 1 to {}, got \"{}\"", key, kMostNodes, value));
    return number;
  }

  [[nodiscard]] double ratio(const std::string& key, std::string_view value) const {
    double number = 0;
    if (!reads(value, number) || !(number >= 1 && number <= kMostOversubscription))
      fail(fmt::format("{} must be a number from 1 to {}, got \"{}\"", key, kMostOversubscription, value));
    return number;
  }

  std::string_view whole_;
};

}  // namespace

std::string PresetOptions::str() const {
  std::string text;
  const auto add = [&](std::string_view key, const auto& value) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", key, value);
  };
  if (gpus != 0) add("gpus", gpus);
  if (network.kind != Kind::Ideal) add("network", name_of(network.kind));
  if (network.leaf != 0) add("leaf", network.leaf);
  if (network.pod != 0) add("pod", network.pod);
  if (network.oversubscription != 1) add("oversubscription", network.oversubscription);
  if (network.core_oversubscription != 1) add("core_oversubscription", network.core_oversubscription);
  return text;
}

PresetOptions parse_preset_options(std::string_view text, std::string_view whole) {
  return OptionText(whole).parse(text);
}

}  // namespace pipesim
