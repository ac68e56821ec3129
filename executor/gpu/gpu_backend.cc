#include "executor/gpu/gpu_backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "executor/backend/nan_search.h"
#include "executor/gpu/kernels/kernel_table.h"
#include "executor/gpu/machine/requirements.h"
#include "executor/gpu/steps/moves.h"
#include "executor/gpu/steps/optimizer.h"
#include "executor/gpu/stream_execution.h"
#include "executor/operators/cross_entropy.h"
#include "executor/program/segments.h"
#include "executor/tensors/host_moves.h"
#include "sim/base/errors.h"

namespace pipesim::gpu {
namespace {

Piece piece_of(const View& view, const Memory& memory) {
  if (!view.present()) return {};
  const DataType type = memory.buffer(view.buffer).type;
  return {view.box, memory.address(view.buffer) + view.offset * bytes_per_element(type), type};
}

std::vector<Piece> pieces_of(const std::vector<View>& views, const Memory& memory) {
  std::vector<Piece> pieces;
  pieces.reserve(views.size());
  for (const View& v : views) pieces.push_back(piece_of(v, memory));
  return pieces;
}

// On the host, once the stream has made it.
bool has_nan(Stream& stream, const Piece& piece) {
  if (!piece.present() || piece.type == DataType::Int64) return false;
  std::vector<std::byte> content(static_cast<std::size_t>(piece.elements() * bytes_per_element(piece.type)));
  std::vector<float> numbers(static_cast<std::size_t>(piece.elements()));
  stream.download(content.data(), piece.memory, content.size());
  pipesim::move_region({content.data(), piece.type, piece.box},
                       {reinterpret_cast<std::byte*>(numbers.data()), DataType::Float32, piece.box},
                       piece.box, false);
  return std::ranges::any_of(numbers, [](float x) { return std::isnan(x); });
}

}  // namespace

void GpuBackend::require_kernel(const Operator& op) const {
  require_own_type(op);
  if (op.kind == "linear_cross_entropy")
    throw InputError(
        fmt::format("operator \"{}\" ({}) has no GPU kernel for a projection and its loss in chunks; "
                    "loss_chunks=0 in the model keeps them apart",
                    op.name, op.kind));
  if (op.kind == "relative_attention" || (op.kind == "scored_attention" && integer_of(op, "buckets") > 0)) {
    if (op.attributes.contains("cap"))
      throw InputError(fmt::format(
          "operator \"{}\" ({}) has no GPU kernel for learned biases of capped scores; cap=0 leaves "
          "them as they are",
          op.name, op.kind));
  }
  if (op.kind == "cross_entropy" && keeps_softmax(op))
    throw InputError(
        fmt::format("operator \"{}\" ({}) has no GPU kernel that keeps the softmax; kept=once in the model "
                    "keeps the logits",
                    op.name, op.kind));
  if (find_kernel(op.kind)) return;
  throw InputError(fmt::format("operator \"{}\" ({}) has no GPU kernel; kinds that have one: {}", op.name,
                               op.kind, fmt::join(kernel_kinds(), ", ")));
}

void GpuBackend::require_optimizer(const Optimizer& optimizer) const {
  require_steps(optimizer);
  if (optimizer.main == Optimizer::Main::Remainder)
    throw InputError(fmt::format("optimizer \"{}\": no GPU kernel puts main weights together from halves",
                                 optimizer.str()));
}

void GpuBackend::require_ring(const Operator& op) const {
  throw InputError(
      fmt::format("operator \"{}\" ({}) has no GPU kernel for keys that pass round a ring; plans without "
                  "\"ring\" gather them",
                  op.name, op.kind));
}

DataType GpuBackend::kernel_type(DataType stored) const {
  return stored == DataType::Int32 || stored == DataType::UInt8 ? DataType::Int64 : stored;
}

std::int64_t GpuBackend::saved_bytes(const Operator& op, std::span<const Range> ranges) const {
  return static_cast<std::int64_t>(find_kernel(op.kind)->saved_bytes(op, ranges));
}

std::unique_ptr<Execution> GpuBackend::make_execution(const ExecutionParts& parts) {
  if (!parts.program.arenas) throw InternalError("a program for streams has no places for its buffers");
  std::vector<MemoryDemand> demands;
  for (const DeviceProgram& d : parts.program.devices) {
    const std::size_t at = d.device.index();
    demands.push_back({d.device, parts.predicted[at].peak, parts.program.arenas->size[at]});
  }
  require_memory(demands, machine_);
  return std::make_unique<StreamExecution>(*this, parts);
}

void GpuBackend::move(Stream& stream, const MoveList& moves, const Memory& memory) const {
  for (const View& v : moves.zeroed) zero_piece(stream, piece_of(v, memory));
  for (const Move& m : moves.moves)
    move_region(stream, piece_of(m.from, memory), piece_of(m.to, memory), m.region, m.add);
}

void GpuBackend::compute(Stream& stream, const ComputeWork& work, const Memory& memory,
                         const StepContext& context, const DeviceStep* device_step) const {
  const Operator& op = graph_.op(work.op);
  const std::vector<Piece> values = pieces_of(work.values, memory),
                           gradients = pieces_of(work.gradients, memory);
  std::vector<std::span<double>> statistics;
  for (const View& v : work.statistics)
    statistics.emplace_back(reinterpret_cast<double*>(memory.address(v.buffer)),
                            static_cast<std::size_t>(v.box.elements()));
  std::span<std::byte> saved;
  if (work.saved.present())
    saved = {memory.address(work.saved.buffer), static_cast<std::size_t>(work.saved.box.elements())};
  const ShardCall call{op, work.ranges, values, gradients, statistics, saved, context, device_step, stream};
  run_segments(*find_kernel(op.kind), call, work);
  if (settings_.watch_for_nan) {
    require_numbers(graph_, op, work.pass, [&](std::size_t use) {
      return has_nan(stream, work.pass == Pass::Forward ? values[use] : gradients[use]);
    });
  }
}

void GpuBackend::update(Stream& stream, const UpdateWork& work, const Memory& memory,
                        const DeviceStep* device_step) const {
  for (const WeightUpdate& w : work.weights) {
    const TrainedWeights trained{piece_of(w.value, memory).floats(),    piece_of(w.master, memory).floats(),
                                 piece_of(w.gradient, memory).floats(), piece_of(w.first, memory).floats(),
                                 piece_of(w.second, memory).floats(),   w.value.box.elements()};
    gpu::update(stream, optimizer_, settings_.optimizer, trained, work.averaged,
                {&device_step->step, work.changes, work.change});
  }
}

}  // namespace pipesim::gpu
