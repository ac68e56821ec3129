#include "executor/ranks/slurm_lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

constexpr int kMostNodes = 1'000'000;

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

[[noreturn]] void refuse_hosts(std::string_view variable, std::string_view list) {
  throw InputError(fmt::format("{} is \"{}\"; hosts like \"login\" or \"node[03-05,9],login\" are allowed",
                               variable, list));
}

[[noreturn]] void refuse_counts(std::string_view variable, std::string_view list) {
  throw InputError(fmt::format("{} is \"{}\"; numbers of tasks a node like \"4\" or \"4(x2),3\" are allowed",
                               variable, list));
}

// The first number of a list: "03" of "03-05,9"; empty if that is no list of numbers.
std::string_view first_number(std::string_view ranges) {
  std::string_view first;
  for (std::size_t begin = 0; begin <= ranges.size();) {
    const std::string_view range = ranges.substr(begin, ranges.find(',', begin) - begin);
    const std::size_t dash = range.find('-');
    const std::string_view low = range.substr(0, dash);
    if (!all_digits(low) || (dash != std::string_view::npos && !all_digits(range.substr(dash + 1))))
      return {};
    if (begin == 0) first = low;
    begin += range.size() + 1;
  }
  return first;
}

// The number from 1 that is all of `text`, or 0.
int whole_count(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number > 0 ? number : 0;
}

}  // namespace

std::string first_slurm_host(std::string_view variable, std::string_view list) {
  std::string host;
  std::size_t at = 0;
  for (; at < list.size() && list[at] != ','; ++at) {
    if (list[at] != '[') {
      if (list[at] == ']' || std::isspace(static_cast<unsigned char>(list[at])) != 0)
        refuse_hosts(variable, list);
      host += list[at];
      continue;
    }
    const std::size_t close = list.find(']', at);
    if (close == std::string_view::npos) refuse_hosts(variable, list);
    const std::string_view number = first_number(list.substr(at + 1, close - at - 1));
    if (number.empty()) refuse_hosts(variable, list);
    host += number;
    at = close;
  }
  if (host.empty()) refuse_hosts(variable, list);
  return host;
}

std::vector<int> slurm_task_counts(std::string_view variable, std::string_view list) {
  std::vector<int> counts;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::string_view entry = list.substr(begin, list.find(',', begin) - begin);
    const std::size_t repeat = entry.find("(x");
    const int tasks = whole_count(entry.substr(0, repeat));
    int nodes = 1;
    if (repeat != std::string_view::npos)
      nodes = entry.back() == ')' ? whole_count(entry.substr(repeat + 2, entry.size() - repeat - 3)) : 0;
    if (tasks == 0 || nodes == 0 || nodes > kMostNodes - static_cast<int>(counts.size()))
      refuse_counts(variable, list);
    counts.insert(counts.end(), static_cast<std::size_t>(nodes), tasks);
    begin += entry.size() + 1;
  }
  return counts;
}

}  // namespace pipesim
