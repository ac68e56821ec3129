#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "executor/operators/attributes.h"
#include "executor/operators/strided.h"

namespace pipesim {

/// Which elements of a shard's x[…] are reduced to which element of its result.
struct ReduceShape {
  ReduceShape(const Operator& op, std::span<const Range> ranges)
      : ReduceShape(op, ranges, 0, list_of(op, "axes"), word_of(op, "mode")) {}

  /// The reduction in the backward pass of a broadcast, which sums over the dimension that the broadcast
  /// added.
  static ReduceShape of_broadcast(const Operator& op, std::span<const Range> ranges) {
    const std::int64_t axis = integer_of(op, "axis");
    return {op, ranges, 1, {&axis, 1}, "sum"};
  }

  Strided result_of;      ///< of an element of x: the element of the result
  Strided kept, reduced;  ///< of an element of the result, of one of its terms: the element of x, in sum
  std::int64_t results = 1, terms = 1;  ///< elements of the result, and of x for each of them
  std::int64_t whole_terms = 1;         ///< terms of the unsplit operator
  double divisor = 1;
  bool largest;

 private:
  /// `wide`: the use that is reduced.
  ReduceShape(const Operator& op, std::span<const Range> ranges, std::size_t wide,
              std::span<const std::int64_t> axes, std::string_view mode)
      : largest(mode == "max") {
    const Box box = box_of(op.uses[wide], op, ranges);
    const auto gone = [&](std::size_t i) {
      return std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(i)) != axes.end();
    };
    std::int64_t step = 1;
    std::array<std::int64_t, Box::max_dims> in_x{}, in_result{};
    for (std::size_t i = box.dims(); i-- > 0;) {
      const std::int64_t length = box[i].length();
      in_x[i] = step;
      in_result[i] = gone(i) ? 0 : results;
      step *= length;
      (gone(i) ? terms : results) *= length;
      if (gone(i)) whole_terms *= op.uses[wide].dims[i].extent;
    }
    for (std::size_t i = 0; i < box.dims(); ++i) {
      result_of.add(box[i].length(), in_result[i]);
      (gone(i) ? reduced : kept).add(box[i].length(), in_x[i]);
    }
    if (mode == "mean") divisor = static_cast<double>(whole_terms);
  }
};

}  // namespace pipesim
