#include "executor/tensors/region_rows.h"

#include <string>

#include "models/operator_draft.h"
#include "sim/base/errors.h"

namespace pipesim {

RegionRows::RegionRows(const Box& from, const Box& to, const Box& region) {
  std::int64_t from_stride = 1, to_stride = 1;
  for (std::size_t i = region.dims(); i-- > 0;) {
    from_begin += (region[i].begin - from[i].begin) * from_stride;
    to_begin += (region[i].begin - to[i].begin) * to_stride;
    const std::int64_t n = region[i].length();
    // A dimension joins the row while all inside it is whole on both sides.
    if (dims == 0 && from_stride == length && to_stride == length) {
      length *= n;
    } else if (n != 1) {
      count[dims] = n;
      from_step[dims] = from_stride;
      to_step[dims++] = to_stride;
    }
    from_stride *= from[i].length();
    to_stride *= to[i].length();
  }
}

void require_movable(DataType from, DataType to) {
  if (is_floating(from) == is_floating(to)) return;
  throw InternalError("nothing should move from " + std::string(name_of(from)) + " to " +
                      std::string(name_of(to)));
}

}  // namespace pipesim
