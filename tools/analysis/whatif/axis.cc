#include "tools/analysis/whatif/axis.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <set>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "sim/base/units.h"
#include "tools/base/split.h"

namespace pipesim {
namespace {

constexpr std::size_t kMostValues = 1'000'000;

[[noreturn]] void fail_axis(std::string_view text, const std::string& what) {
  throw InputError(fmt::format("--vary {}: {}", text, what));
}

// "1..64*2Gb/s": the ends, the step behind '*' or '+', and the unit.
StudyAxis ranged(std::string_view text, StudyAxis axis, std::string_view values) {
  constexpr const char* kAllowed = "LOWEST..HIGHEST*FACTOR or LOWEST..HIGHEST+STEP, such as 1..64*2";
  const std::size_t dots = values.find("..");
  const std::size_t sign = values.find_first_of("*+", dots);
  NumberWithUnit low, high, step;
  if (sign == std::string_view::npos || !read_number(values.substr(0, dots), low) ||
      !read_number(values.substr(dots + 2, sign - dots - 2), high) ||
      !read_number(values.substr(sign + 1), step) || step.factor)
    fail_axis(text, fmt::format("found the range \"{}\", allowed: {}", values, kAllowed));
  const std::string unit = !step.unit.empty() ? step.unit : !high.unit.empty() ? high.unit : low.unit;
  const bool times = values[sign] == '*';
  if (times ? !(step.number > 1 && low.number > 0) : !(step.number > 0))
    fail_axis(text, fmt::format("the range \"{}\" has no end, allowed: {}", values, kAllowed));
  if (high.number < low.number)
    fail_axis(text,
              fmt::format("the range \"{}\" is empty: {} is below {}", values, high.number, low.number));
  constexpr double kRounding = 1e-9;
  for (std::size_t i = 0;; ++i) {
    const double value = times ? low.number * std::pow(step.number, static_cast<double>(i))
                               : low.number + step.number * static_cast<double>(i);
    if (value > high.number * (1 + kRounding)) break;
    if (i == kMostValues)
      fail_axis(text, fmt::format("the range \"{}\" has over {} values", values, kMostValues));
    axis.values.push_back(with_number({value, unit, low.factor}, value));
  }
  return axis;
}

// Values of several paths.
StudyAxis together(std::string_view text, StudyAxis axis, std::string_view values) {
  const std::vector<std::string> paths = axis.paths();
  std::set<std::string> seen;
  axis.values = split(values, ";");
  for (const std::string& value : axis.values) {
    const std::vector<std::string> parts = split(value, "|");
    if (parts.size() != paths.size())
      fail_axis(text, fmt::format("found {} in \"{}\", needed: {}, with | between them",
                                  counted(std::ssize(parts), "value"), value, paths.size()));
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (paths[i].empty() || parts[i].empty()) fail_axis(text, "a path or a value is empty");
    }
    if (!seen.insert(value).second) fail_axis(text, fmt::format("the value {} is given twice", value));
  }
  return axis;
}

}  // namespace

std::vector<std::string> StudyAxis::paths() const { return split(path, "|"); }

std::vector<StudyAxis::Assignment> StudyAxis::assignments(std::size_t number) const {
  const std::vector<std::string> all = paths();
  if (all.size() == 1) return {{path, values[number]}};
  const std::vector<std::string> of_paths = split(values[number], "|");
  std::vector<Assignment> made;
  for (std::size_t i = 0; i < all.size(); ++i)
    made.push_back({all[i], i < of_paths.size() ? of_paths[i] : ""});
  return made;
}

bool read_number(std::string_view value, NumberWithUnit& out) {
  out = {};
  if (value.starts_with('x')) {
    out.factor = true;
    value.remove_prefix(1);
  }
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out.number);
  if (error != std::errc() || !std::isfinite(out.number)) return false;
  out.unit = std::string(end, value.data() + value.size());
  return true;
}

std::string with_number(const NumberWithUnit& value, double number) {
  constexpr int kDigits = 12;  // what a sum of steps in binary adds is rounded away
  return fmt::format("{}{:.{}g}{}", value.factor ? "x" : "", number, kDigits, value.unit);
}

std::string short_value(const std::string& value) {
  constexpr int kDigits = 4;
  NumberWithUnit number;
  if (!read_number(value, number)) return value;
  return fmt::format("{}{}{}", number.factor ? "x" : "", significant(number.number, kDigits), number.unit);
}

StudyAxis parse_axis(std::string_view text) {
  // "slow:a=b" has one sign of equality; values may have more, as in "topology=dgx-h100:gpus=4".
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos)
    fail_axis(text, "allowed: PATH=VALUES, such as nodes=1,2,4");
  StudyAxis axis{std::string(text.substr(0, equals)), {}};
  std::string_view values = text.substr(equals + 1);
  if (axis.paths().size() > 1) return together(text, std::move(axis), values);
  if (values.find("..") != std::string_view::npos && values.find("..") != 0 &&
      values.find_first_of("*+") != std::string_view::npos && values.find('/') > values.find("..") &&
      values.find(';') == std::string_view::npos) {
    NumberWithUnit low;
    if (read_number(values.substr(0, values.find("..")), low)) return ranged(text, std::move(axis), values);
  }
  const bool semicolons = values.find(';') != std::string_view::npos;
  if (values.size() > 1 && values.ends_with(';')) values.remove_suffix(1);  // one value, which has commas
  axis.values = split(values, semicolons ? ";" : ",");
  NumberWithUnit last;
  const bool has_unit = read_number(axis.values.back(), last) && !last.unit.empty() && !last.factor;
  std::set<std::string> seen;
  for (std::string& value : axis.values) {
    if (value.empty()) fail_axis(text, "a value is empty");
    NumberWithUnit own;
    if (has_unit && read_number(value, own) && own.unit.empty() && !own.factor) value += last.unit;
    if (!seen.insert(value).second) fail_axis(text, fmt::format("the value {} is given twice", value));
  }
  return axis;
}

std::size_t number_of_points(const std::vector<StudyAxis>& axes) {
  if (axes.empty()) return 0;
  constexpr std::size_t kMost = 1'000'000'000'000'000;
  std::size_t points = 1;
  for (const StudyAxis& axis : axes) {
    if (axis.values.empty()) return 0;
    if (points > kMost / axis.values.size()) return kMost;
    points *= axis.values.size();
  }
  return points;
}

std::vector<std::size_t> place_of_point(const std::vector<StudyAxis>& axes, std::size_t number) {
  std::vector<std::size_t> at(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    at[i] = number % axes[i].values.size();
    number /= axes[i].values.size();
  }
  return at;
}

}  // namespace pipesim
