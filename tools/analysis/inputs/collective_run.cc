#include "tools/analysis/inputs/collective_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

constexpr Collective kAllCollectives[] = {
    Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather, Collective::AllToAll,
    Collective::Broadcast, Collective::Reduce,        Collective::Send};

// Calls visit(part) for the parts between commas.
template <class Visit>
void for_each_part(std::string_view text, Visit visit) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    visit(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

class DeviceListReader {
 public:
  DeviceListReader(std::string_view text, std::size_t count)
      : text_(text), count_(count), met_(count, false) {}

  std::vector<DeviceId> devices() {
    for_each_part(text_, [&](std::string_view part) { add(part); });
    return std::move(devices_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(
        fmt::format("devices \"{}\": {}; allowed: all, or numbers from 0 to {}, such as 0-7,16 or 0-63:8",
                    text_, what, count_ - 1));
  }

  [[nodiscard]] std::size_t number(std::string_view text) const {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) fail(fmt::format("found \"{}\"", text));
    return value;
  }

  void add(std::string_view part) {
    const std::size_t colon = part.find(':'), dash = part.find('-');
    const std::string_view range = part.substr(0, colon);
    const std::size_t first = number(range.substr(0, dash)),
                      last = dash < range.size() ? number(range.substr(dash + 1)) : first,
                      step = colon < part.size() ? number(part.substr(colon + 1)) : 1;
    if (last < first || step == 0) fail(fmt::format("\"{}\" is no range", part));
    if (last >= count_) fail(fmt::format("there is no device {}", last));
    for (std::size_t d = first; d <= last; d += step) {
      if (met_[d]) fail(fmt::format("device {} is there twice", d));
      met_[d] = true;
      devices_.emplace_back(d);
    }
  }

  std::string_view text_;
  std::size_t count_;
  std::vector<bool> met_;
  std::vector<DeviceId> devices_;
};

}  // namespace

Collective parse_collective(std::string_view text) {
  std::vector<std::string> names;
  for (const Collective kind : kAllCollectives) {
    if (name_of(kind) == text) return kind;
    names.emplace_back(name_of(kind));
  }
  throw InputError(fmt::format("unknown collective \"{}\"{}; allowed: {}", text, did_you_mean(text, names),
                               list_names(names)));
}

std::vector<DeviceId> parse_device_list(std::string_view text, std::size_t count) {
  std::vector<DeviceId> devices;
  if (text == "all") {
    for (std::size_t d = 0; d < count; ++d) devices.emplace_back(d);
  } else {
    devices = DeviceListReader(text, count).devices();
  }
  if (devices.size() < 2)
    throw InputError(fmt::format("devices \"{}\": a collective needs two devices or more", text));
  return devices;
}

std::vector<Bytes> parse_sizes(std::string_view text) {
  std::vector<Bytes> sizes;
  if (const std::size_t dots = text.find(".."); dots != std::string_view::npos) {
    const Bytes first = parse_bytes(text.substr(0, dots)), last = parse_bytes(text.substr(dots + 2));
    if (last < first)
      throw InputError(
          fmt::format("sizes \"{}\": the last is smaller than the first, allowed: such as 1MiB..1GiB", text));
    for (Bytes size = first; size <= last; size = Bytes(2 * size.value)) {
      sizes.push_back(size);
      if (size.value > last.value / 2) break;
    }
    return sizes;
  }
  for_each_part(text, [&](std::string_view part) { sizes.push_back(parse_bytes(part)); });
  return sizes;
}

}  // namespace pipesim
