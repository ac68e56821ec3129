#pragma once

#include "executor/program/program.h"
#include "models/operator_graph.h"

namespace pipesim {

/// The buffers of a program while it is compiled.
class BufferList {
 public:
  explicit BufferList(std::vector<Buffer>& buffers) : buffers_(buffers) {}
  [[nodiscard]] const Buffer& operator[](BufferId id) const { return buffers_[id.index()]; }
  BufferId add(DeviceId device, std::int64_t elements, DataType type, Buffer::Life life,
               MemoryCategory category, TensorId tensor) {
    buffers_.push_back({device, elements, type, life, category, tensor, 0});
    return BufferId(buffers_.size() - 1);
  }
  View add(DeviceId device, const Box& box, DataType type, Buffer::Life life, MemoryCategory category,
           TensorId tensor) {
    return {add(device, box.elements(), type, life, category, tensor), 0, box};
  }

  void keep_forever(BufferId id) { buffers_[id.index()].life = Buffer::Life::Forever; }

 private:
  std::vector<Buffer>& buffers_;
};

/// Where `region` begins in the row-major elements of `box`, if it lies there in one stretch.
std::optional<std::int64_t> stretch_in(const Box& box, const Box& region);

}  // namespace pipesim
