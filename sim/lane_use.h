#pragma once

#include <cstddef>
#include <span>

#include "sim/base/ids.h"
#include "sim/base/units.h"

namespace pipesim {

/// A lane that a task needs, and for how long it holds the lane from its start.
struct LaneUse {
  LaneId lane;
  Nanoseconds hold = 0;
  bool operator==(const LaneUse&) const = default;
};

/// The lane uses of one task, by value. Most tasks hold one lane for their whole duration. TaskDag stores
/// that in four bytes, so no LaneUse exists in memory that a span could point at. Valid until the graph
/// changes.
class LaneUses {
 public:
  class Iterator {
   public:
    Iterator(const LaneUses* uses, std::size_t i) : uses_(uses), i_(i) {}
    LaneUse operator*() const { return (*uses_)[i_]; }
    Iterator& operator++() { return ++i_, *this; }
    bool operator==(const Iterator& o) const { return i_ == o.i_; }

   private:
    const LaneUses* uses_;
    std::size_t i_;
  };

  /// `size` is 0 or 1; `only` is read when it is 1.
  LaneUses(std::size_t size, LaneUse only) : only_(only), size_(size) {}
  explicit LaneUses(std::span<const LaneUse> rows) : rows_(rows.data()), size_(rows.size()) {}

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] LaneUse operator[](std::size_t i) const { return rows_ == nullptr ? only_ : rows_[i]; }
  [[nodiscard]] Iterator begin() const { return {this, 0}; }
  [[nodiscard]] Iterator end() const { return {this, size_}; }

 private:
  const LaneUse* rows_ = nullptr;
  LaneUse only_;
  std::size_t size_;
};

}  // namespace pipesim
