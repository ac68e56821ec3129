#include "tests/executor/gpu/kernel_on_machine.h"

#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <vector>

#include "executor/elements/small_floats.h"

namespace pipesim::gpu {
namespace {

void put(std::byte* to, float value, DataType type) {
  const std::uint16_t narrow = type == DataType::BFloat16 ? to_bfloat16(value) : to_float16(value);
  if (type == DataType::Float32) {
    std::memcpy(to, &value, sizeof value);
  } else {
    std::memcpy(to, &narrow, sizeof narrow);
  }
}

float taken(const std::byte* from, DataType type) {
  float value = 0;
  std::uint16_t narrow = 0;
  if (type == DataType::Float32) {
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  std::memcpy(&narrow, from, sizeof narrow);
  return type == DataType::BFloat16 ? from_bfloat16(narrow) : from_float16(narrow);
}

// Memory of a device for the time of a call.
class DeviceBytes {
 public:
  DeviceBytes(Machine& machine, Stream& stream) : machine_(machine), stream_(stream) {}
  ~DeviceBytes() {
    for (const auto& [memory, size] : blocks_) machine_.release(DeviceId(0), memory, size);
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  std::byte* with(std::span<const std::byte> content) {
    const Bytes size(static_cast<std::int64_t>(content.size()));
    std::byte* memory = machine_.allocate(DeviceId(0), size);
    blocks_.emplace_back(memory, size);
    stream_.upload(memory, content.data(), content.size());
    return memory;
  }
  std::vector<std::byte> content(const void* memory, std::size_t size) {
    std::vector<std::byte> bytes(size);
    stream_.download(bytes.data(), memory, size);
    return bytes;
  }
  /// An operand, and afterwards what became of it.
  Piece with(const cpu::Piece& piece, DataType type) {
    if (!piece.present()) return {piece.box, nullptr, type};
    const auto n = static_cast<std::size_t>(piece.elements());
    if (piece.integers != nullptr)
      return {piece.box, with(std::as_bytes(std::span(piece.integers, n))), DataType::Int64};
    const auto width = static_cast<std::size_t>(bytes_per_element(type));
    std::vector<std::byte> bytes(n * width);
    for (std::size_t i = 0; i < n; ++i) put(bytes.data() + i * width, piece.floats[i], type);
    return {piece.box, with(bytes), type};
  }
  void back(const Piece& device, const cpu::Piece& host) {
    if (!host.present()) return;
    const auto n = static_cast<std::size_t>(host.elements());
    const auto width = static_cast<std::size_t>(bytes_per_element(device.type));
    const std::vector<std::byte> bytes = content(device.memory, n * width);
    if (host.integers != nullptr) {
      std::memcpy(host.integers, bytes.data(), bytes.size());
      return;
    }
    for (std::size_t i = 0; i < n; ++i) host.floats[i] = taken(bytes.data() + i * width, device.type);
  }

 private:
  Machine& machine_;
  Stream& stream_;
  std::vector<std::pair<std::byte*, Bytes>> blocks_;
};

// A machine is used by one thread; tests may use several.
std::mutex one_call_at_a_time;

}  // namespace

template <class Pass>
void KernelOnMachine::run(const cpu::ShardCall& call, Pass pass) const {
  const std::lock_guard lock(one_call_at_a_time);
  const std::unique_ptr<Stream> stream = machine_.make_stream(DeviceId(0), StreamUse::Compute);
  DeviceBytes device(machine_, *stream);
  std::vector<Piece> values, gradients;
  for (const cpu::Piece& p : call.values) values.push_back(device.with(p, type_));
  for (std::size_t u = 0; u < call.gradients.size(); ++u) {
    const bool weight = call.op.uses[u].role == Role::Weight;
    gradients.push_back(device.with(call.gradients[u], weight ? weight_gradients_ : type_));
  }
  std::vector<std::span<double>> statistics;
  for (const std::span<double> s : call.statistics)
    statistics.emplace_back(reinterpret_cast<double*>(device.with(std::as_bytes(s))), s.size());
  const std::span<std::byte> saved(device.with(call.saved), call.saved.size());
  const DeviceStep step{call.step.seed, call.step.step};
  const auto* device_step =
      reinterpret_cast<const DeviceStep*>(device.with(std::as_bytes(std::span(&step, 1))));
  pass(
      ShardCall{call.op, call.ranges, values, gradients, statistics, saved, call.step, device_step, *stream});
  stream->finish();
  for (std::size_t i = 0; i < values.size(); ++i) device.back(values[i], call.values[i]);
  for (std::size_t i = 0; i < gradients.size(); ++i) device.back(gradients[i], call.gradients[i]);
  for (std::size_t i = 0; i < statistics.size(); ++i) {
    const auto bytes = device.content(statistics[i].data(), statistics[i].size_bytes());
    if (!bytes.empty()) std::memcpy(call.statistics[i].data(), bytes.data(), bytes.size());
  }
  const auto kept = device.content(saved.data(), saved.size());
  std::copy(kept.begin(), kept.end(), call.saved.begin());
  stream->free_scratch();
}

void KernelOnMachine::forward(const cpu::ShardCall& call, std::size_t segment) const {
  run(call, [&](const gpu::ShardCall& c) { kernel_.forward(c, segment); });
}

void KernelOnMachine::backward_input(const cpu::ShardCall& call, std::size_t segment) const {
  run(call, [&](const gpu::ShardCall& c) { kernel_.backward_input(c, segment); });
}

void KernelOnMachine::backward_weight(const cpu::ShardCall& call) const {
  run(call, [&](const gpu::ShardCall& c) { kernel_.backward_weight(c); });
}

}  // namespace pipesim::gpu
