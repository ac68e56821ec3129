// Sums over channels so large that several teams add them up, and gradients of weights in a type of their
// own, which the tests of the CPU's kernels do not have.

#include "executor/gpu/bodies/parts/channels.h"
#include "executor/gpu/kernels/kernel_table.h"
#include "tests/executor/cpu/kernel_checks.h"
#include "tests/executor/gpu/host_machine.h"
#include "tests/executor/gpu/kernel_on_machine.h"

namespace pipesim::gpu {
namespace {

using cpu::KernelCase;
using cpu::WholeTensor;
using cpu::WholeTensors;

// On a machine as on the CPU.
void check_against_cpu(KernelCase c, DataType type, DataType weight_gradients, int team) {
  const testing::ScopedTrace trace(__FILE__, __LINE__, c.op.kind);
  Rng rng(19);
  WholeTensors whole = cpu::draw_operands(c, rng), gradients = cpu::draw_output_gradients(c.op, rng);
  for (WholeTensors* tensors : {&whole, &gradients}) {
    for (WholeTensor& t : *tensors) cpu::round_elements(t, type);
  }
  const ParallelConfig one = single_device(c.op, DeviceId(0));
  c.tested = {cpu::find_kernel(c.op.kind), DataType::Float32};
  const auto expected = cpu::run_kernel(c, one, whole, gradients, cpu::all_wanted(c.op), c.step);
  HostMachine machine({.team = team});
  const KernelOnMachine kernel(*find_kernel(c.op.kind), machine, type, weight_gradients);
  c.tested = {&kernel, type};
  const double tolerance = type == DataType::Float32 ? 1e-5 : 2e-2;
  cpu::expect_same(c.op, cpu::run_kernel(c, one, whole, gradients, cpu::all_wanted(c.op), c.step), expected,
                   tolerance);
  EXPECT_EQ(machine.allocated(), 0);
}

KernelCase case_of(const std::string& kind, const Sizes& x, const Attributes& attributes) {
  Bench bench(x[0]);
  return {bench.op(kind, {bench.x(x)}, attributes), {}};
}

TEST(LargeChannels, AreAddedUpInChunks) {
  const Sizes x{3, 2, 72, 64};
  EXPECT_EQ(ChannelPlanes(3, 2, 72 * 64).chunks, 3);
  for (const int team : {1, 3}) {
    for (const char* statistics : {"synchronised", "local"}) {
      check_against_cpu(case_of("batch_norm", x, {{"statistics", statistics}, {"activation", "silu"}}),
                        DataType::Float32, DataType::Float32, team);
    }
    check_against_cpu(case_of("conv2d", x, {{"out", 2}, {"kernel", 1}}), DataType::Float32, DataType::Float32,
                      team);
  }
}

TEST(LargeChannels, LieInPlanesOfAllSamples) {
  const ChannelPlanes planes(3, 4, 5);
  std::vector<int> met(60);
  for (std::int64_t channel = 0; channel < 4; ++channel) {
    for (std::int64_t j = 0; j < planes.of_channel(); ++j) {
      const std::int64_t element = planes.element(channel, j);
      EXPECT_EQ(planes.channel_of(element), channel);
      ++met.at(static_cast<std::size_t>(element));
    }
  }
  EXPECT_EQ(met, std::vector<int>(60, 1));
}

TEST(ImageKernels, FillGradientsOfWeightsOfAnotherType) {
  const Sizes x{2, 4, 6, 5};
  for (const auto& [type, weight_gradients] :
       {std::pair(DataType::BFloat16, DataType::Float32), std::pair(DataType::BFloat16, DataType::Float16)}) {
    for (const char* activation : {"relu", "gelu"}) {
      check_against_cpu(
          case_of("conv2d", x, {{"out", 4}, {"kernel", 3}, {"pad", 1}, {"activation", activation}}), type,
          weight_gradients, 1);
      check_against_cpu(case_of("batch_norm", x, {{"activation", activation}}), type, weight_gradients, 1);
    }
  }
}

}  // namespace
}  // namespace pipesim::gpu
