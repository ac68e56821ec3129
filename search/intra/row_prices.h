#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "search/intra/core.h"

namespace pipesim {

/// Prices of a few rows, in ascending order of the rows.
class RowPrices {
 public:
  using Price = std::pair<std::uint32_t, double>;

  RowPrices() = default;
  explicit RowPrices(std::vector<Price> prices) : prices_(std::move(prices)) { add_up(); }

  [[nodiscard]] const std::vector<Price>& prices() const { return prices_; }
  /// What a unit of usage in the rows [begin, end) costs.
  [[nodiscard]] double between(std::uint32_t begin, std::uint32_t end) const {
    return sums_[first_from(end)] - sums_[first_from(begin)];
  }
  void scale(double factor) {
    for (Price& price : prices_) price.second *= factor;
    add_up();
  }
  void add(std::uint32_t row, double price) {
    const std::size_t at = first_from(row);
    if (at < prices_.size() && prices_[at].first == row) {
      prices_[at].second += price;
    } else {
      prices_.insert(prices_.begin() + static_cast<std::ptrdiff_t>(at), {row, price});
    }
    add_up();
  }

 private:
  [[nodiscard]] std::size_t first_from(std::uint32_t row) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(prices_, row, {}, &Price::first) -
                                    prices_.begin());
  }
  void add_up() {
    sums_.assign(1, 0);
    for (const Price& price : prices_) sums_.push_back(sums_.back() + price.second);
  }

  std::vector<Price> prices_;
  std::vector<double> sums_ = {0};
};

}  // namespace pipesim
