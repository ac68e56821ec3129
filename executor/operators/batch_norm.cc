#include "executor/operators/batch_norm.h"

#include "executor/operators/attributes.h"

namespace pipesim {

bool synchronises_statistics(const Operator& op) { return word_of(op, "statistics") == "synchronised"; }

BatchNormSizes::BatchNormSizes(const Operator& op, std::span<const Range> ranges) {
  const TensorUse& whole = op.uses[0];
  const Box x = box_of(whole, op, ranges);
  samples = x[0].length();
  channels = x[1].length();
  plane = volume(x, 2, x.dims());
  count = static_cast<double>(synchronises_statistics(op)
                                  ? whole_volume(whole, 0, 1) * whole_volume(whole, 2, x.dims())
                                  : samples * plane);
}

}  // namespace pipesim
