#include "tools/analysis/traces/measured_trace.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>

namespace pipesim {
namespace {

constexpr std::int64_t kMostElementsOfTensor = std::int64_t{1} << 50;

// Goes through the operators of all threads in the order of time, and keeps those that are open.
class OpenOperators {
 public:
  explicit OpenOperators(MeasuredTrace& trace) : trace_(trace), order_(trace.operators.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::ranges::stable_sort(order_, [&](std::size_t a, std::size_t b) {
      const TracedOperator &x = trace_.operators[a], &y = trace_.operators[b];
      return x.start != y.start ? x.start < y.start : x.end > y.end;
    });
  }

  // The innermost one that is open on a thread; −1: none. Times must not go back.
  std::int32_t innermost(std::int32_t thread, Nanoseconds time) {
    while (next_ < order_.size() && trace_.operators[order_[next_]].start <= time) open(order_[next_++]);
    return top(thread, time);
  }
  void open_all() {
    while (next_ < order_.size()) open(order_[next_++]);
  }

 private:
  void open(std::size_t number) {
    TracedOperator& op = trace_.operators[number];
    op.parent = top(op.thread, op.start);
    stacks_[op.thread].push_back(static_cast<std::int32_t>(number));
  }

  std::int32_t top(std::int32_t thread, Nanoseconds time) {
    std::vector<std::int32_t>& stack = stacks_[thread];
    while (!stack.empty() && trace_.operators[static_cast<std::size_t>(stack.back())].end <= time)
      stack.pop_back();
    return stack.empty() ? -1 : stack.back();
  }

  MeasuredTrace& trace_;
  std::vector<std::size_t> order_;
  std::size_t next_ = 0;
  std::unordered_map<std::int32_t, std::vector<std::int32_t>> stacks_;
};

std::vector<std::int64_t> sizes_of_losses(const MeasuredTrace& trace) {
  std::set<std::int64_t> sizes;
  for (const TracedOperator& op : trace.operators) {
    const std::string& name = trace.name(op.name);
    const bool loss = name.find("log_softmax") != name.npos || name.find("cross_entropy") != name.npos;
    if (!loss || op.call < 0) continue;
    const std::vector<TracedInput>& inputs = trace.calls[static_cast<std::size_t>(op.call)].inputs;
    if (inputs.empty() || inputs.front().shapes.size() != 1) continue;
    sizes.insert(elements_of(inputs.front().shapes.front()));
  }
  return {sizes.begin(), sizes.end()};
}

}  // namespace

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || (size > 0 && elements > kMostElementsOfTensor / size)) return 0;
    elements *= size;
  }
  return elements;
}

const TracedOperator* MeasuredTrace::operator_of(const DeviceActivity& activity) const {
  if (activity.launch < 0) return nullptr;
  const std::int32_t op = launches[static_cast<std::size_t>(activity.launch)].op;
  return op < 0 ? nullptr : &operators[static_cast<std::size_t>(op)];
}

std::int32_t NameTable::number_of(std::string_view text) {
  const auto known = numbers_.find(text);
  if (known != numbers_.end()) return known->second;
  const auto number = static_cast<std::int32_t>(names_.size());
  names_.emplace_back(text);
  numbers_.emplace(text, number);
  return number;
}

void connect(MeasuredTrace& trace) {
  std::ranges::stable_sort(trace.activities, {}, &DeviceActivity::start);
  std::ranges::stable_sort(trace.launches, {}, &TracedLaunch::start);
  OpenOperators open(trace);
  std::unordered_map<std::int64_t, std::int32_t> by_correlation;
  for (std::size_t l = 0; l < trace.launches.size(); ++l) {
    TracedLaunch& launch = trace.launches[l];
    launch.op = open.innermost(launch.thread, launch.start);
    by_correlation.emplace(launch.correlation, static_cast<std::int32_t>(l));
  }
  open.open_all();
  for (DeviceActivity& activity : trace.activities) {
    const auto launch = by_correlation.find(activity.correlation);
    if (launch != by_correlation.end()) activity.launch = launch->second;
  }
  trace.loss_sizes = sizes_of_losses(trace);
}

}  // namespace pipesim
