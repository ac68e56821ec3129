#include "search/exhaustive/upstream_bounds.h"

#include <algorithm>
#include <utility>

namespace pipesim {

bool UpstreamChoice::covers(const UpstreamChoice& other) const {
  for (std::size_t i = 0; i < times_.size(); ++i) {
    if (times_[i] > other.times_[i]) return false;
  }
  return true;
}

void UpstreamChoice::take_least(const UpstreamChoice& other) {
  for (std::size_t i = 0; i < times_.size(); ++i) times_[i] = std::min(times_[i], other.times_[i]);
}

void UpstreamChoice::take_largest(const UpstreamChoice& other) {
  for (std::size_t i = 0; i < times_.size(); ++i) times_[i] = std::max(times_[i], other.times_[i]);
}

Nanoseconds UpstreamChoice::rank() const {
  Nanoseconds largest = 0;
  for (std::size_t k = 0; k < shards(); ++k) {
    largest = std::max(largest, release()[k] + std::max(path()[k], lane()[k]));
  }
  return largest;
}

namespace {

// A covering choice never ranks behind what it covers, unless both rank the same.
void drop_covered(std::vector<UpstreamChoice>& choices, std::size_t most) {
  std::vector<std::pair<Nanoseconds, std::size_t>> order;
  for (std::size_t i = 0; i < choices.size(); ++i) order.emplace_back(choices[i].rank(), i);
  std::sort(order.begin(), order.end());
  std::vector<UpstreamChoice> kept;
  for (const auto& [rank, i] : order) {
    const auto end = kept.begin() + static_cast<std::ptrdiff_t>(std::min(kept.size(), most));
    const bool covered =
        std::any_of(kept.begin(), end, [&, c = i](const UpstreamChoice& k) { return k.covers(choices[c]); });
    if (!covered) kept.push_back(std::move(choices[i]));
  }
  choices = std::move(kept);
}

// The better half stays as it is; the rest is put together, neighbours in rank first.
void merge_worse(std::vector<UpstreamChoice>& choices, std::size_t most) {
  if (choices.size() <= most) return;
  const std::size_t whole = most / 2, groups = most - whole, rest = choices.size() - whole;
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t first = whole + rest * g / groups, last = whole + rest * (g + 1) / groups;
    UpstreamChoice merged = choices[first];
    for (std::size_t i = first + 1; i < last; ++i) merged.take_least(choices[i]);
    choices[whole + g] = std::move(merged);
  }
  choices.erase(choices.begin() + static_cast<std::ptrdiff_t>(most), choices.end());
}

}  // namespace

void thin_out(std::vector<UpstreamChoice>& choices, std::size_t most) {
  drop_covered(choices, most);
  merge_worse(choices, most);
}

}  // namespace pipesim
