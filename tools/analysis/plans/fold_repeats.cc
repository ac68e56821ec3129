#include "tools/analysis/plans/fold_repeats.h"

#include <algorithm>

namespace pipesim {

std::vector<RepeatedPart> fold_repeats(std::span<const int> alike, std::size_t most_period,
                                       std::size_t least) {
  std::vector<RepeatedPart> parts;
  for (std::size_t begin = 0; begin < alike.size();) {
    RepeatedPart best{begin, begin + 1, 1};
    std::size_t left_out = 0;
    for (std::size_t period = 1; period <= most_period && begin + period < alike.size(); ++period) {
      std::size_t end = begin + period;
      while (end < alike.size() && alike[end] == alike[end - period]) ++end;
      end -= (end - begin) % period;
      const std::size_t out = end - begin - period;
      if (out >= std::max<std::size_t>(1, least) && out > left_out) {
        best = {begin, end, period};
        left_out = out;
      }
    }
    parts.push_back(best);
    begin = best.end;
  }
  return parts;
}

}  // namespace pipesim
