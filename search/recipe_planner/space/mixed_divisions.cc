#include "search/recipe_planner/space/mixed_divisions.h"

#include <algorithm>
#include <cmath>

#include "search/recipe_planner/measuring/distinct_groups.h"

namespace pipesim {
namespace {

constexpr std::size_t kMost = 64;

// Returns the peak rate of 16-bit products, or the highest rate that there is.
double peak_of(const DeviceKind& kind) {
  if (const auto half = kind.peak.find(DataType::Float16); half != kind.peak.end()) return half->second.value;
  double highest = 0;
  for (const auto& [type, rate] : kind.peak) highest = std::max(highest, rate.value);
  return highest;
}

struct GroupsOfClass {
  std::int64_t number = 0;
  double rate = 0;  // of one of them
};

std::vector<GroupsOfClass> classes_of(const std::vector<std::size_t>& class_of, const Topology& topology) {
  std::vector<GroupsOfClass> classes(1 + std::ranges::max(class_of));
  const std::size_t size = topology.num_devices() / class_of.size();
  for (std::size_t d = 0; d < size * class_of.size(); ++d) {
    GroupsOfClass& of_device = classes[class_of[d / size]];
    const DeviceId device(d);
    of_device.rate += peak_of(topology.kind(device));
    if (d % size == 0) ++of_device.number;
  }
  for (GroupsOfClass& c : classes) c.rate /= static_cast<double>(c.number);
  return classes;
}

// All numbers of layers by class that add up.
class LayersOfClasses {
 public:
  LayersOfClasses(const std::vector<GroupsOfClass>& classes, std::int64_t layers)
      : classes_(classes), chosen_(classes.size(), 0) {
    choose(0, layers);
  }
  std::vector<std::vector<std::int64_t>> found;

 private:
  void choose(std::size_t number, std::int64_t left) {
    const std::int64_t groups = classes_[number].number;
    if (number + 1 == classes_.size()) {
      if (left % groups != 0 || left == 0) return;
      chosen_[number] = left / groups;
      found.push_back(chosen_);
      return;
    }
    for (chosen_[number] = 1; chosen_[number] * groups < left; ++chosen_[number])
      choose(number + 1, left - chosen_[number] * groups);
  }

  const std::vector<GroupsOfClass>& classes_;
  std::vector<std::int64_t> chosen_;
};

}  // namespace

std::vector<std::vector<std::int64_t>> mixed_divisions(std::int64_t groups, std::int64_t layers,
                                                       const Topology& topology) {
  const std::vector<std::size_t> class_of = classes_by_kinds(groups, topology);
  constexpr std::size_t kMostClasses = 3;
  if (class_of.empty()) return {};
  const std::vector<GroupsOfClass> classes = classes_of(class_of, topology);
  if (classes.size() < 2 || classes.size() > kMostClasses) return {};
  std::vector<std::vector<std::int64_t>> found;
  std::int64_t more = 0;  // on the last group
  for (const std::int64_t on_last : {0, -1, 1, -2, 2}) {
    more = on_last;
    found = LayersOfClasses(classes, layers - more).found;
    std::erase_if(found, [&](const auto& of_class) { return of_class[class_of.back()] + more < 1; });
    if (!found.empty()) break;
  }
  double rate = 0;
  for (const GroupsOfClass& c : classes) rate += c.rate * static_cast<double>(c.number);
  const auto off = [&](const std::vector<std::int64_t>& of_class) {
    double sum = 0;
    for (std::size_t c = 0; c < classes.size(); ++c) {
      const double even = static_cast<double>(layers) * classes[c].rate / rate;
      sum += static_cast<double>(classes[c].number) * std::abs(static_cast<double>(of_class[c]) - even);
    }
    return sum;
  };
  std::ranges::stable_sort(found, {}, off);
  if (found.size() > kMost) found.resize(kMost);
  std::vector<std::vector<std::int64_t>> divisions;
  for (const std::vector<std::int64_t>& of_class : found) {
    std::vector<std::int64_t>& of_group = divisions.emplace_back();
    for (const std::size_t c : class_of) of_group.push_back(of_class[c]);
    of_group.back() += more;
  }
  return divisions;
}

}  // namespace pipesim
