// What a GPU does, by its own clock: products of a GPT's shapes in bfloat16, as
// tools/scripts/gpu_reference.py measures PyTorch.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "executor/elements/small_floats.h"
#include "executor/gpu/machine/cuda_library.h"
#include "executor/gpu/machine/machine.h"
#include "sim/base/errors.h"
#include "sim/base/rng.h"

namespace pipesim::gpu {
namespace {

constexpr std::int64_t kTokens = 8192, kHidden = 4096;
// One after the other between two events: launching takes time, which several products hide.
constexpr int kProductsAtOnce = 10;

struct GptProduct {
  const char* name;
  std::int64_t inner, columns;
};
constexpr std::array kProducts{
    GptProduct{"qkv", kHidden, 3 * kHidden}, GptProduct{"projection", kHidden, kHidden},
    GptProduct{"up", kHidden, 4 * kHidden}, GptProduct{"down", 4 * kHidden, kHidden}};

// A matrix of random bfloat16 numbers: zeros draw less power and are faster.
struct DeviceMatrix {
  DeviceMatrix(Machine& machine, Stream& stream, std::int64_t elements)
      : owner(machine), size(2 * elements), memory(machine.allocate(DeviceId(0), size)) {
    if (memory == nullptr) throw DeviceError("out of memory: a matrix to multiply");
    std::vector<std::uint16_t> block(1 << 20);
    Rng rng(1);
    for (std::uint16_t& x : block) x = to_bfloat16(static_cast<float>(rng.uniform() - 0.5));
    const auto most = static_cast<std::int64_t>(block.size());
    for (std::int64_t done = 0; done < elements; done += most)
      stream.upload(memory + 2 * done, block.data(),
                    static_cast<std::size_t>(2 * std::min(most, elements - done)));
  }
  ~DeviceMatrix() { owner.release(DeviceId(0), memory, size); }
  DeviceMatrix(const DeviceMatrix&) = delete;
  DeviceMatrix& operator=(const DeviceMatrix&) = delete;
  [[nodiscard]] Floats floats() const { return {memory, Stored::BFloat16}; }

  Machine& owner;
  Bytes size;
  std::byte* memory;
};

void BM_GptProduct(benchmark::State& state) {
  const GptProduct& p = kProducts.at(static_cast<std::size_t>(state.range(0)));
  state.SetLabel(p.name);
  std::unique_ptr<Machine> machine;
  try {
    machine = load_cuda_library().machine({});
  } catch (const DeviceError& error) {
    return state.SkipWithError(error.what());
  }
  const auto stream = machine->make_stream(DeviceId(0), StreamUse::Compute);
  const auto begin = machine->make_event(DeviceId(0)), end = machine->make_event(DeviceId(0));
  const DeviceMatrix a(*machine, *stream, kTokens * p.inner), b(*machine, *stream, p.inner * p.columns),
      d(*machine, *stream, kTokens * p.columns);
  MatrixProduct product;
  product.rows = kTokens;
  product.columns = p.columns;
  product.inner = p.inner;
  product.a = {a.floats(), false, p.inner, 0};
  product.b = {b.floats(), false, p.columns, 0};
  product.d = {d.floats(), false, p.columns, 0};
  const auto run = [&] {
    stream->record(*begin);
    for (int i = 0; i < kProductsAtOnce; ++i) stream->multiply(product);
    stream->record(*end);
    stream->finish();
  };
  run();  // chooses an algorithm, and wakes the GPU
  for (auto _ : state) {
    run();
    state.SetIterationTime(static_cast<double>(machine->time_between(*begin, *end)) * 1e-9);
  }
  const auto flops = 2.0 * kProductsAtOnce * static_cast<double>(kTokens * p.inner * p.columns);
  state.counters["TFLOP/s"] = benchmark::Counter(flops * 1e-12 * static_cast<double>(state.iterations()),
                                                 benchmark::Counter::kIsRate);
}
BENCHMARK(BM_GptProduct)->DenseRange(0, 3)->UseManualTime();

}  // namespace
}  // namespace pipesim::gpu
