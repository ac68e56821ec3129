#include "executor/gpu/steps/copies.h"

namespace pipesim::gpu {

void copy_elements(Stream& stream, const Piece& from, const Piece& to) {
  const std::int64_t n = to.elements();
  if (n == 0 || from.memory == to.memory) return;
  if (from.type == to.type) {
    stream.copy(to.memory, from.memory, static_cast<std::size_t>(n * bytes_per_element(to.type)));
  } else {
    run_in_groups(stream, n, Activate{from.floats(), to.floats(), {}, Activation::None});
  }
}

}  // namespace pipesim::gpu
