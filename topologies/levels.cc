#include "topologies/levels.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "sim/base/errors.h"
#include "topologies/checks.h"
#include "topologies/device_kinds.h"

namespace pipesim {

namespace {

constexpr std::string_view kPrefix = "levels:";
constexpr std::string_view kForm =
    "levels:4@10GB/s,2@1.25GB/s (SIZE@BANDWIDTH or SIZE@BANDWIDTH@LATENCY each)";

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t end = 0; end != std::string_view::npos; text.remove_prefix(end + 1)) {
    end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
  }
  return parts;
}

class LevelText {
 public:
  explicit LevelText(std::string_view whole) : whole_(whole) {}

  [[nodiscard]] std::vector<Level> parse() const {
    std::vector<Level> levels;
    for (const std::string_view part : split(whole_.substr(kPrefix.size()), ','))
      levels.push_back(level(part));
    if (const std::int64_t count = device_count(levels); count > max_devices)
      fail(fmt::format("more than {} devices, at most {} are allowed", max_devices, max_devices));
    return levels;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("topology \"{}\": {}", whole_, what));
  }

  [[nodiscard]] Level level(std::string_view part) const {
    const std::vector<std::string_view> fields = split(part, '@');
    if (fields.size() < 2 || fields.size() > 3)
      fail(fmt::format("found \"{}\", allowed is a form like {}", part, kForm));
    Level level;
    level.size = size(fields[0]);
    level.cable.bandwidth = checked(
        part, [&] { return parse_bandwidth(fields[1]); }, fault_of_link_bandwidth);
    if (fields.size() == 3)
      level.cable.latency = checked(
          part, [&] { return parse_duration(fields[2]); }, fault_of_latency);
    return level;
  }

  [[nodiscard]] std::int64_t size(std::string_view text) const {
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || end != text.data() + text.size() || size < 1 || size > max_devices)
      fail(fmt::format("found \"{}\" as the size of a level, allowed is an integer from 1 to {}", text,
                       max_devices));
    return size;
  }

  template <class Parse, class Fault>
  auto checked(std::string_view part, Parse parse, Fault fault_of) const -> decltype(parse()) {
    decltype(parse()) figure;
    try {
      figure = parse();
    } catch (const InputError& error) {
      fail(fmt::format("\"{}\": {}", part, error.what()));
    }
    if (const std::string fault = fault_of(figure); !fault.empty())
      fail(fmt::format("\"{}\": {}", part, fault));
    return figure;
  }

  std::string_view whole_;
};

std::vector<DraftVertex> add_nodes(TopologyDraft& draft, std::int32_t kind, const Level& level,
                                   std::int64_t nodes) {
  std::vector<DraftVertex> switches;
  for (std::int64_t n = 0; n < nodes; ++n) {
    const std::string name = fmt::format("node{}", n), prefix = nodes > 1 ? name + "." : "";
    const std::int32_t node = draft.add_node(name);
    switches.push_back(draft.add_switch(prefix + "switch", node));
    for (std::int64_t i = 0; i < level.size; ++i)
      draft.connect(draft.add_device(fmt::format("{}gpu{}", prefix, i), kind, node), switches.back(),
                    level.cable);
  }
  return switches;
}

}  // namespace

void add_levels(TopologyDraft& draft, const DeviceKind& kind, const std::vector<Level>& levels) {
  std::int64_t groups = device_count(levels) / levels.front().size;
  std::vector<DraftVertex> members = add_nodes(draft, draft.kind(kind), levels.front(), groups);
  for (std::size_t l = 1; l < levels.size(); ++l) {
    groups /= levels[l].size;
    std::vector<DraftVertex> switches;
    for (std::int64_t g = 0; g < groups; ++g)
      switches.push_back(draft.add_switch(fmt::format("level{}.switch{}", l, g)));
    for (std::size_t m = 0; m < members.size(); ++m)
      draft.connect(members[m], switches[m / static_cast<std::size_t>(levels[l].size)], levels[l].cable);
    members = std::move(switches);
  }
}

std::int64_t device_count(const std::vector<Level>& levels) {
  std::int64_t count = 1;
  for (const Level& level : levels)
    count = std::min(count * std::min(level.size, max_devices + 1), max_devices + 1);
  return count;
}

const DeviceKind& default_level_kind() { return *find_built_in_device_kind("V100-SXM2-16GB"); }

Topology levels_topology(std::string_view text) {
  TopologyDraft draft{std::string(text), "a plain hierarchy; devices are taken to be V100-SXM2-16GB"};
  add_levels(draft, default_level_kind(), LevelText(text).parse());
  return Topology(std::move(draft).finish());
}

}  // namespace pipesim
