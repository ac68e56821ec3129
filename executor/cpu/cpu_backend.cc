#include "executor/cpu/cpu_backend.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "executor/backend/cores.h"
#include "executor/backend/nan_search.h"
#include "executor/cpu/kernels/kernel.h"
#include "executor/cpu/other_rounding.h"
#include "executor/program/segments.h"
#include "executor/run/thread_execution.h"
#include "executor/tensors/host_collectives.h"
#include "executor/tensors/host_moves.h"
#include "sim/base/errors.h"

// Declared by GNU's OpenMP runtime, which oneDNN uses; its header is the compiler's own and unknown to
// others.
extern "C" void omp_set_num_threads(int threads);

namespace pipesim {
namespace {

constexpr std::size_t alignment = 64;  // a cache line, and the widest vector register

// Kernels take and free memory for their own copies. Were it given back to the system each time, which
// depends on what else lies in the heap, taking it again would cost more than some kernels do: the same
// convolution then takes 1.2 ms in one plan and 2.2 ms in another.
void keep_freed_memory() {
  constexpr int everything = 1 << 30, most_of_a_heap = 1 << 25;
  mallopt(M_TRIM_THRESHOLD, everything);
  if (mallopt(M_MMAP_THRESHOLD, everything) == 0) mallopt(M_MMAP_THRESHOLD, most_of_a_heap);
}

cpu::Piece kernel_piece(const View& view, const Memory& memory) {
  if (!view.present()) return {};
  const HostPiece piece = host_piece(view, memory);
  cpu::Piece result{view.box, nullptr, nullptr};
  if (piece.type == DataType::Int64) {
    result.integers = reinterpret_cast<std::int64_t*>(piece.memory);
  } else {
    result.floats = reinterpret_cast<float*>(piece.memory);
  }
  return result;
}

std::span<float> floats(const View& view, const Memory& memory) {
  if (!view.present()) return {};
  return {reinterpret_cast<float*>(host_piece(view, memory).memory),
          static_cast<std::size_t>(view.box.elements())};
}

// A piece of any type as float32: itself where it is, else a copy that is written back.
class AsFloats {
 public:
  AsFloats(const View& view, const Memory& memory) {
    if (!view.present()) return;
    piece_ = host_piece(view, memory);
    if (piece_.type == DataType::Float32) {
      values_ = floats(view, memory);
      return;
    }
    copy_.resize(static_cast<std::size_t>(view.box.elements()));
    values_ = copy_;
    move_region(piece_, of_copy(), piece_.box, false);
  }
  AsFloats(const AsFloats&) = delete;
  AsFloats& operator=(const AsFloats&) = delete;
  ~AsFloats() {
    if (!copy_.empty()) move_region(of_copy(), piece_, piece_.box, false);
  }
  [[nodiscard]] std::span<float> values() const { return values_; }

 private:
  [[nodiscard]] HostPiece of_copy() {
    return {reinterpret_cast<std::byte*>(copy_.data()), DataType::Float32, piece_.box};
  }
  HostPiece piece_;
  std::vector<float> copy_;
  std::span<float> values_;
};

// Main weights in float32, the upper half of which is in bfloat16 weights and the lower half beside them. As
// in TransformerEngine's FusedAdam, a lower half above the middle, negative as an integer, has rounded the
// upper one up.
class WithRemainder {
 public:
  WithRemainder(const View& weights, const View& remainders, const Memory& memory)
      : upper_(halves(weights, memory)), lower_(halves(remainders, memory)) {
    for (std::size_t i = 0; i < upper_.size(); ++i) {
      const std::uint32_t upper = upper_[i] - (lower_[i] >> 15U);
      values_.push_back(std::bit_cast<float>(upper << 16U | lower_[i]));
    }
  }
  WithRemainder(const WithRemainder&) = delete;
  WithRemainder& operator=(const WithRemainder&) = delete;
  ~WithRemainder() {
    for (std::size_t i = 0; i < upper_.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(values_[i]);
      lower_[i] = static_cast<std::uint16_t>(bits);
      upper_[i] = static_cast<std::uint16_t>((bits >> 16U) + (lower_[i] >> 15U));
    }
  }
  [[nodiscard]] std::span<float> values() { return values_; }

 private:
  static std::span<std::uint16_t> halves(const View& view, const Memory& memory) {
    return {reinterpret_cast<std::uint16_t*>(host_piece(view, memory).memory),
            static_cast<std::size_t>(view.box.elements())};
  }
  std::span<std::uint16_t> upper_, lower_;
  std::vector<float> values_;
};

// Few sizes, so that freed memory fits again: a power of two and its quarters.
std::size_t rounded_size(Bytes size) {
  const auto bytes = std::max<std::size_t>(static_cast<std::size_t>(size.value), 4 * alignment);
  const std::size_t quarter = std::bit_floor(bytes) / 4;
  return (bytes + quarter - 1) / quarter * quarter;
}

std::vector<cpu::Piece> kernel_pieces(const std::vector<View>& views, const Memory& memory) {
  std::vector<cpu::Piece> pieces;
  pieces.reserve(views.size());
  for (const View& v : views) pieces.push_back(kernel_piece(v, memory));
  return pieces;
}

bool has_nan(const cpu::Piece& piece) {
  return piece.floats &&
         std::any_of(piece.floats, piece.floats + piece.elements(), [](float x) { return std::isnan(x); });
}

}  // namespace

CpuBackend::CpuBackend(const OperatorGraph& graph, std::size_t num_devices, const Optimizer& optimizer,
                       const Settings& settings)
    : graph_(graph), optimizer_(optimizer), settings_(settings), idle_(num_devices) {
  keep_freed_memory();
}

CpuBackend::~CpuBackend() {
  for (auto& sizes : idle_) {
    for (auto& [size, blocks] : sizes) {
      for (std::byte* block : blocks) std::free(block);
    }
  }
}

void CpuBackend::require_kernel(const Operator& op) const {
  require_own_type(op);
  if (cpu::find_kernel(op.kind)) return;
  throw InputError(fmt::format("operator \"{}\" ({}) has no cpu kernel; kinds that have one: {}", op.name,
                               op.kind, fmt::join(cpu::kernel_kinds(), ", ")));
}

// Only attention can be in a ring (Operator::rotation), and its kernels all take blocks.
void CpuBackend::require_ring(const Operator& /*op*/) const {}

void CpuBackend::require_optimizer(const Optimizer& optimizer) const { require_steps(optimizer); }

std::int64_t CpuBackend::saved_bytes(const Operator& op, std::span<const Range> ranges) const {
  return static_cast<std::int64_t>(cpu::find_kernel(op.kind)->saved_bytes(op, ranges));
}

std::unique_ptr<Execution> CpuBackend::make_execution(const ExecutionParts& parts) {
  return std::make_unique<ThreadExecution>(*this, parts);
}

void CpuBackend::enter(DeviceId device) {
  omp_set_num_threads(settings_.threads_per_device);
  if (settings_.pin) pin_to_core_of(device.index());
  if (settings_.real_time && run_in_real_time()) real_time_ = true;
}

std::byte* CpuBackend::allocate(DeviceId device, Bytes size) {
  const std::size_t rounded = rounded_size(size);
  std::vector<std::byte*>& idle = idle_[device.index()][rounded];
  if (!idle.empty()) {
    std::byte* block = idle.back();
    idle.pop_back();
    return block;
  }
  return static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
}

void CpuBackend::release(DeviceId device, std::byte* memory, Bytes size) {
  idle_[device.index()][rounded_size(size)].push_back(memory);
}

void CpuBackend::move(DeviceId /*device*/, const MoveList& moves, const Memory& memory) {
  for (const View& v : moves.zeroed) fill_zero(host_piece(v, memory));
  for (const Move& m : moves.moves)
    move_region(host_piece(m.from, memory), host_piece(m.to, memory), m.region, m.add);
}

void CpuBackend::compute(DeviceId /*device*/, const ComputeWork& work, const Memory& memory,
                         const StepContext& step) {
  if (work.first_segment == work.end_segment) return;
  const Operator& op = graph_.op(work.op);
  const std::vector<cpu::Piece> values = kernel_pieces(work.values, memory);
  const std::vector<cpu::Piece> gradients = kernel_pieces(work.gradients, memory);
  std::vector<std::span<double>> statistics;
  for (const View& v : work.statistics)
    statistics.emplace_back(reinterpret_cast<double*>(memory.address(v.buffer)),
                            static_cast<std::size_t>(v.box.elements()));
  std::span<std::byte> saved;
  if (work.saved.present())
    saved = {memory.address(work.saved.buffer), static_cast<std::size_t>(work.saved.box.elements())};
  const cpu::ShardCall call{op, work.ranges, values, gradients, statistics, saved, step, work.block > 0};
  run_segments(*cpu::find_kernel(op.kind), call, work);
  if (step.sums != SumOrder::Ascending) cpu::round_otherwise(call, work.pass, graph_);
  if (settings_.watch_for_nan) {
    require_numbers(graph_, op, work.pass, [&](std::size_t use) {
      return has_nan(work.pass == Pass::Forward ? values[use] : gradients[use]);
    });
  }
}

void CpuBackend::update(DeviceId /*device*/, const UpdateWork& work, const Memory& memory,
                        const StepContext& step) {
  const std::int64_t number = step.step * work.changes + work.change + 1;
  for (const WeightUpdate& w : work.weights) {
    if (work.averaged > 1) {
      for (float& gradient : floats(w.gradient, memory)) gradient /= static_cast<float>(work.averaged);
    }
    AsFloats first(w.first, memory), second(w.second, memory);
    const auto step_of = [&](std::span<float> weights) {
      cpu::update(optimizer_, settings_.optimizer, weights, floats(w.gradient, memory), first.values(),
                  second.values(), number);
    };
    if (w.lacks_bits) {
      WithRemainder main(w.value, w.master, memory);
      step_of(main.values());
    } else {
      AsFloats main(w.master.present() ? w.master : w.value, memory);
      step_of(main.values());
    }
    if (w.master.present() && !w.lacks_bits)
      move_region(host_piece(w.master, memory), host_piece(w.value, memory), w.value.box, false);
  }
}

void CpuBackend::communicate(DeviceId /*device*/, const CommunicationWork& work, const Memory& memory,
                             Communicator& world, std::int64_t tag) {
  communicate_on_host(work, memory, world, tag);
}

}  // namespace pipesim
