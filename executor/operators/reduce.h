#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "executor/operators/attributes.h"
#include "executor/operators/strided.h"

namespace pipesim {

/// Which elements of a shard's x[…] are reduced to which element of its result.
struct ReduceShape {
  ReduceShape(const Operator& op, std::span<const Range> ranges) : largest(word_of(op, "mode") == "max") {
    const Box box = box_of(op.uses[0], op, ranges);
    const auto& axes = list_of(op, "axes");
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
      if (gone(i)) whole_terms *= op.uses[0].dims[i].extent;
    }
    for (std::size_t i = 0; i < box.dims(); ++i) {
      result_of.add(box[i].length(), in_result[i]);
      (gone(i) ? reduced : kept).add(box[i].length(), in_x[i]);
    }
    if (word_of(op, "mode") == "mean") divisor = static_cast<double>(whole_terms);
  }

  Strided result_of;      ///< of an element of x: the element of the result
  Strided kept, reduced;  ///< of an element of the result, of one of its terms: the element of x, in sum
  std::int64_t results = 1, terms = 1;  ///< elements of the result, and of x for each of them
  std::int64_t whole_terms = 1;         ///< terms of the unsplit operator
  double divisor = 1;
  bool largest;
};

}  // namespace pipesim
