#include "tests/executor/gpu/machine_conformance.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "tests/executor/gpu/host_machine.h"
#include "tests/executor/gpu/twin_memory.h"

namespace pipesim::gpu {
namespace {

using Numbers = std::vector<float>;

Numbers counted(std::size_t count, float first) {
  Numbers numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = first + static_cast<float>(i % 1000);
  return numbers;
}

void put_numbers(Stream& stream, const Floats& to, const Numbers& numbers) {
  stream.upload(to.memory, numbers.data(), numbers.size() * sizeof(float));
}

void copy_numbers(Stream& stream, const Floats& to, const Floats& from, std::int64_t count) {
  stream.copy(to.memory, from.memory, bytes_of(Stored::Float32, count));
}

// y = max(x, 0), by the program's own bodies.
void relu_numbers(Stream& stream, const Floats& x, const Floats& y, std::int64_t count) {
  run_in_groups(stream, count, Activate{x, y, {}, Activation::Relu});
}

void check_copies(Machine& machine, int devices) {
  constexpr std::int64_t many = 1'200'001;
  const auto stream = machine.make_stream(DeviceId(0), StreamUse::Compute);
  const Twin a(machine, Stored::Float32, many), b(machine, Stored::Float32, many, DeviceId(devices - 1));
  for (const float first : {1.0F, 2.0F}) {
    Numbers numbers = counted(static_cast<std::size_t>(many), first);
    const Numbers expected = numbers;
    put_numbers(*stream, a.on_device(), numbers);
    numbers.assign(numbers.size(), -1);  // may be used again
    copy_numbers(*stream, b.on_device(), a.on_device(), many);
    EXPECT_EQ(b.downloaded(*stream), expected);
  }
  stream->zero(b.on_device().memory, bytes_of(Stored::Float32, many - 1));
  stream->zero(nullptr, 0);
  stream->copy(nullptr, nullptr, 0);
  stream->upload(nullptr, nullptr, 0);
  const Numbers zeros = b.downloaded(*stream);
  EXPECT_EQ(zeros.front(), 0);
  EXPECT_EQ(zeros.at(static_cast<std::size_t>(many) - 2), 0);
  EXPECT_EQ(zeros.back(), a.downloaded(*stream).back());
}

void check_many_small_uploads(Machine& machine, int /*devices*/) {
  constexpr std::int64_t places = 16;
  const auto stream = machine.make_stream(DeviceId(0), StreamUse::Compute);
  const Twin memory(machine, Stored::Float32, places);
  Numbers expected(places);
  for (std::int64_t i = 0; i < 3000; ++i) {
    const auto value = static_cast<float>(i);
    stream->upload(static_cast<float*>(memory.on_device().memory) + i % places, &value, sizeof value);
    expected.at(static_cast<std::size_t>(i % places)) = value;
  }
  EXPECT_EQ(memory.downloaded(*stream), expected);
}

void check_memory(Machine& machine, int devices) {
  for (int d = 0; d < devices; ++d) {
    for (const std::int64_t size : {0, 1, 1000}) {
      std::byte* memory = machine.allocate(DeviceId(d), Bytes(size));
      ASSERT_NE(memory, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0U);
      machine.release(DeviceId(d), memory, Bytes(size));
    }
  }
  EXPECT_FALSE(machine.name().empty());
  EXPECT_EQ(machine.why_not(DataType::Float32), "");
}

void check_waits(Machine& machine, int devices) {
  constexpr std::int64_t count = 10'000;
  const auto first = machine.make_stream(DeviceId(0), StreamUse::Compute),
             second = machine.make_stream(DeviceId(devices - 1), StreamUse::Compute);
  const auto written = machine.make_event(DeviceId(0)), read = machine.make_event(DeviceId(devices - 1));
  const Twin a(machine, Stored::Float32, count);
  const DeviceId last(devices - 1);
  std::vector<std::unique_ptr<Twin>> copies;
  for (int round = 0; round < 8; ++round) {
    if (round > 0) first->wait(*read);
    put_numbers(*first, a.on_device(), counted(count, static_cast<float>(round)));
    first->record(*written);
    second->wait(*written);
    copies.push_back(std::make_unique<Twin>(machine, Stored::Float32, count, last));
    copy_numbers(*second, copies.back()->on_device(), a.on_device(), count);
    second->record(*read);
  }
  for (int round = 0; round < 8; ++round)
    EXPECT_EQ(copies.at(static_cast<std::size_t>(round))->downloaded(*second),
              counted(count, static_cast<float>(round)));
  first->finish();
  EXPECT_GE(machine.time_between(*written, *read), devices == 1 ? 0 : -1'000'000);
}

void check_times(Machine& machine, int /*devices*/) {
  const auto stream = machine.make_stream(DeviceId(0), StreamUse::Compute);
  const auto begin = machine.make_event(DeviceId(0)), middle = machine.make_event(DeviceId(0)),
             end = machine.make_event(DeviceId(0));
  const Twin x(machine, Stored::Float32, 100'000);
  stream->record(*begin);
  relu_numbers(*stream, x.on_device(), x.on_device(), x.elements());
  stream->record(*middle);
  for (int i = 0; i < 20; ++i) relu_numbers(*stream, x.on_device(), x.on_device(), x.elements());
  stream->record(*end);
  stream->finish();
  EXPECT_GT(machine.time_between(*begin, *middle), 0);
  EXPECT_GT(machine.time_between(*begin, *end), machine.time_between(*begin, *middle));
  EXPECT_EQ(machine.time_between(*begin, *begin), 0);
}

void check_scratch(Machine& machine, int /*devices*/) {
  const auto stream = machine.make_stream(DeviceId(0), StreamUse::Compute);
  const Twin result(machine, Stored::Float32, 30'000);
  for (std::int64_t round = 1; round <= 6; ++round) {
    const std::int64_t count = 5000 * round;
    const auto take = [&] { return Floats{stream->scratch(bytes_of(Stored::Float32, count))}; };
    const Floats a = take(), b = take(), c = take();
    for (const Floats& x : {a, b, c}) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.memory) % 256, 0U);
    put_numbers(*stream, a, counted(static_cast<std::size_t>(count), static_cast<float>(round)));
    stream->zero(b.memory, bytes_of(Stored::Float32, count));
    stream->zero(c.memory, bytes_of(Stored::Float32, count));
    copy_numbers(*stream, result.on_device(), a, count);
    stream->free_scratch();
  }
  EXPECT_EQ(result.downloaded(*stream), counted(30'000, 6));
}

// Two streams, an upload, scratch memory, a library's call and a body, again with other numbers.
void check_recordings(Machine& machine, int devices) {
  constexpr std::int64_t side = 64, count = side * side;
  const auto first = machine.make_stream(DeviceId(0), StreamUse::Compute),
             second = machine.make_stream(DeviceId(devices - 1), StreamUse::Compute);
  const auto begun = machine.make_event(DeviceId(0)), ended = machine.make_event(DeviceId(devices - 1));
  const DeviceId last(devices - 1);
  const Twin x(machine, Stored::Float32, count), kept(machine, Stored::Float32, count),
      there(machine, Stored::Float32, count, last), y(machine, Stored::Float32, count, last);
  MatrixProduct square{.rows = side, .columns = side, .inner = side};
  const auto work = [&](float constant) {
    Numbers constants(static_cast<std::size_t>(count), constant);
    put_numbers(*first, kept.on_device(), constants);
    constants.clear();
    const Floats sums{first->scratch(bytes_of(Stored::Float32, count))};
    square.a = {x.on_device(), false, side};
    square.b = {kept.on_device(), false, side};
    square.d = {sums, false, side};
    first->multiply(square);
    copy_numbers(*first, kept.on_device(), sums, count);
    first->free_scratch();
    first->record(*begun);
    second->wait(*begun);
    copy_numbers(*second, there.on_device(), kept.on_device(), count);
    relu_numbers(*second, there.on_device(), y.on_device(), count);
    second->record(*ended);
    first->wait(*ended);
  };
  work(1);  // unrecorded, too
  second->finish();
  machine.begin_recording(*first);
  work(2);
  const auto recording = machine.end_recording(*first);
  for (const float value : {1.0F, -3.0F, 5.0F}) {
    put_numbers(*first, x.on_device(), Numbers(static_cast<std::size_t>(count), value));
    first->repeat(*recording);
    // What is scratch memory of the stream now is none of the recording's.
    first->zero(first->scratch(bytes_of(Stored::Float32, count)), bytes_of(Stored::Float32, count));
    first->free_scratch();
    first->finish();
    EXPECT_EQ(y.downloaded(*second),
              Numbers(static_cast<std::size_t>(count), std::max(0.0F, value * 2 * static_cast<float>(side))));
    EXPECT_GE(machine.time_between(*begun, *ended), devices == 1 ? 0 : -1'000'000);
  }
}

struct TypesOfProduct {
  Stored operands, result;
};
constexpr std::array product_types{
    TypesOfProduct{Stored::Float32, Stored::Float32},  TypesOfProduct{Stored::BFloat16, Stored::BFloat16},
    TypesOfProduct{Stored::BFloat16, Stored::Float32}, TypesOfProduct{Stored::Float16, Stored::Float16},
    TypesOfProduct{Stored::Float16, Stored::Float32},  TypesOfProduct{Stored::Float32, Stored::BFloat16}};

void check_product(Machine& machine, Stream& stream, Rng& rng, const TypesOfProduct& types) {
  using enum MatrixProduct::Epilogue;
  const auto one_of = [&](std::initializer_list<std::int64_t> numbers) {
    return numbers.begin()[rng.below(numbers.size())];
  };
  MatrixProduct p{.rows = one_of({1, 3, 8, 33, 64}),
                  .columns = one_of({1, 7, 16, 40}),
                  .inner = one_of({0, 1, 5, 32, 96}),
                  .batch = one_of({1, 1, 3})};
  p.epilogue = std::array{None, None, Bias, BiasGelu}.at(rng.below(4));
  p.accumulate = rng.below(3) == 0;
  p.scale = rng.below(2) == 0 ? 1.0F : 0.25F;
  p.a.transposed = rng.below(2) == 0;
  p.b.transposed = rng.below(2) == 0;
  const auto twin = [&](MatrixProduct::Matrix& m, Stored stored, std::int64_t rows, std::int64_t columns) {
    if (m.transposed) std::swap(rows, columns);
    m.row = columns + one_of({0, 0, 1, 8});
    m.batch = rows * m.row + one_of({0, 0, 3});
    auto memory = std::make_unique<Twin>(machine, stored, p.batch * m.batch, DeviceId(0), one_of({0, 0, 1}));
    memory->fill(stream, rng);
    m.elements = memory->on_device();
    return memory;
  };
  const auto a = twin(p.a, types.operands, p.rows, p.inner),
             b = twin(p.b, types.operands, p.inner, p.columns),
             d = twin(p.d, types.result, p.rows, p.columns);
  Twin bias(machine, types.result, p.columns, DeviceId(0), one_of({0, 0, 1})),
      before(machine, types.result, d->elements());
  bias.fill(stream, rng);
  before.fill(stream, rng);
  p.bias = bias.on_device();
  p.before = before.on_device();
  const testing::ScopedTrace trace(
      __FILE__, __LINE__,
      testing::Message() << p.rows << " x " << p.columns << " x " << p.inner << " batch " << p.batch
                         << " rows " << p.a.row << (p.a.transposed ? "t " : " ") << p.b.row
                         << (p.b.transposed ? "t " : " ") << p.d.row << " epilogue "
                         << static_cast<int>(p.epilogue) << " accumulate " << p.accumulate << " types "
                         << static_cast<int>(types.operands) << static_cast<int>(types.result));
  stream.multiply(p);
  stream.free_scratch();
  p.a.elements = a->on_host();
  p.b.elements = b->on_host();
  p.d.elements = d->on_host();
  p.bias = bias.on_host();
  p.before = before.on_host();
  multiply_on_host(p);
  // Gelu of narrow numbers may start from numbers that were rounded already.
  d->expect_same(stream, types.result == Stored::Float32 ? 1e-5 : 1e-2);
  before.expect_same(stream, types.result == Stored::Float32 ? 1e-5 : 1e-2);
}

void check_products(Machine& machine, int /*devices*/) {
  const auto stream = machine.make_stream(DeviceId(0), StreamUse::Compute);
  Rng rng(3);
  for (const TypesOfProduct& types : product_types) {
    if (!machine.why_not(types.operands == Stored::BFloat16 ? DataType::BFloat16 : DataType::Float32).empty())
      continue;
    for (int i = 0; i < 60 && !testing::Test::HasFatalFailure(); ++i)
      check_product(machine, *stream, rng, types);
  }
}

struct Windows {
  std::array<std::int64_t, 2> image, kernel, stride, dilation, pad_low, pad_high;
  std::int64_t groups, in, out;
};
constexpr std::array window_cases{
    Windows{{8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, 3, 4},
    Windows{{9, 7}, {3, 1}, {2, 1}, {1, 1}, {1, 0}, {1, 0}, 2, 2, 3},
    Windows{{8, 8}, {3, 3}, {1, 1}, {1, 1}, {0, 1}, {1, 0}, 1, 2, 2},    // the halves of a split image
    Windows{{7, 10}, {3, 3}, {2, 3}, {1, 1}, {0, 2}, {1, 0}, 1, 8, 8},   // a remainder that no window meets
    Windows{{11, 11}, {3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 2}, 1, 4, 4},  // dilated
    Windows{{6, 6}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, 4, 1, 2},
    Windows{{1, 12}, {1, 5}, {1, 1}, {1, 1}, {0, 4}, {0, 0}, 1, 2, 2},
};

void check_convolution(Machine& machine, Stream& stream, Rng& rng, const Windows& w, Stored stored,
                       Convolution::Wanted wanted, std::int64_t skip) {
  using enum Convolution::Wanted;
  Convolution c{{.samples = 2, .groups = w.groups, .in = w.in, .out = w.out}, wanted};
  c.image = w.image;
  c.kernel = w.kernel;
  c.stride = w.stride;
  c.dilation = w.dilation;
  c.pad_low = w.pad_low;
  c.pad_high = w.pad_high;
  for (std::size_t axis = 0; axis < 2; ++axis)
    c.result[axis] =
        (c.image[axis] + c.pad_low[axis] + c.pad_high[axis] - (c.kernel[axis] - 1) * c.dilation[axis] - 1) /
            c.stride[axis] +
        1;
  const std::int64_t images = c.samples * c.groups;
  Twin x(machine, stored, images * c.in * c.image[0] * c.image[1], DeviceId(0), skip),
      weight(machine, stored, c.groups * c.out * c.in * c.kernel[0] * c.kernel[1], DeviceId(0), skip),
      y(machine, stored, images * c.out * c.result[0] * c.result[1], DeviceId(0), skip);
  for (Twin* t : {&x, &weight, &y}) t->fill(stream, rng);
  c.x = x.on_device();
  c.w = weight.on_device();
  c.y = y.on_device();
  stream.convolve(c);
  stream.free_scratch();
  c.x = x.on_host();
  c.w = weight.on_host();
  c.y = y.on_host();
  convolve_on_host(c);
  for (Twin* t : {&x, &weight, &y}) t->expect_same(stream, stored == Stored::Float32 ? 1e-5 : 1e-2);
}

void check_convolutions(Machine& machine, int /*devices*/) {
  using enum Convolution::Wanted;
  const auto stream = machine.make_stream(DeviceId(0), StreamUse::Compute);
  Rng rng(5);
  for (const Stored stored : {Stored::Float32, Stored::BFloat16, Stored::Float16}) {
    if (stored == Stored::BFloat16 && !machine.why_not(DataType::BFloat16).empty()) continue;
    for (std::size_t i = 0; i < window_cases.size(); ++i) {
      for (const auto wanted : {Result, InputGradient, WeightGradient}) {
        const testing::ScopedTrace trace(__FILE__, __LINE__,
                                         "case " + std::to_string(i) + " wanted " +
                                             std::to_string(static_cast<int>(wanted)) + " stored " +
                                             std::to_string(static_cast<int>(stored)));
        check_convolution(machine, *stream, rng, window_cases.at(i), stored, wanted, i % 2 == 0 ? 0 : 1);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

void check_gates(Machine& machine, int devices) {
  constexpr Nanoseconds never = 3'600'000'000'000, at_once = 1;
  constexpr std::int64_t count = 10'000;
  const auto first = machine.make_stream(DeviceId(0), StreamUse::Compute),
             second = machine.make_stream(DeviceId(devices - 1), StreamUse::Compute);
  const auto written = machine.make_event(DeviceId(0));
  const Twin memory(machine, Stored::Float32, count);
  const auto write = [&](float value) {
    put_numbers(*first, memory.on_device(), counted(count, value));
    first->record(*written);
    second->wait(*written);
  };
  {
    const auto gate = first->close_gate(never);
    write(1);
    EXPECT_TRUE(gate->open());
    EXPECT_EQ(memory.downloaded(*second), counted(count, 1));
    EXPECT_TRUE(gate->open());
  }
  {
    const auto opened_by_its_end = first->close_gate(never);
    write(2);
  }
  EXPECT_EQ(memory.downloaded(*second), counted(count, 2));
  const auto opened_by_time = first->close_gate(at_once);
  write(3);
  EXPECT_EQ(memory.downloaded(*second), counted(count, 3));
  EXPECT_FALSE(opened_by_time->open());
}

constexpr std::array all_checks{
    MachineCheck{"Copies", check_copies},         MachineCheck{"ManySmallUploads", check_many_small_uploads},
    MachineCheck{"Memory", check_memory},         MachineCheck{"Waits", check_waits},
    MachineCheck{"Times", check_times},           MachineCheck{"Scratch", check_scratch},
    MachineCheck{"Recordings", check_recordings}, MachineCheck{"Gates", check_gates},
    MachineCheck{"Products", check_products},     MachineCheck{"Convolutions", check_convolutions}};

}  // namespace

std::span<const MachineCheck> machine_checks() { return all_checks; }

}  // namespace pipesim::gpu
