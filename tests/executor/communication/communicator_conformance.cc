#include "tests/executor/communication/communicator_conformance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "executor/elements/small_floats.h"
#include "sim/base/rng.h"

namespace pipesim {
namespace {

constexpr std::array kTypes = {DataType::Float32,  DataType::TensorFloat32, DataType::Float16,
                               DataType::BFloat16, DataType::Float64,       DataType::Int64,
                               DataType::Int32,    DataType::UInt8};
constexpr std::array kKinds = {CallKind::AllReduce,     CallKind::Reduce,   CallKind::ReduceScatter,
                               CallKind::AllGather,     CallKind::AllToAll, CallKind::Broadcast,
                               CallKind::SendAndReceive};

template <class T>
T element(const ByteVector& bytes, std::int64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void set_element(ByteVector& bytes, std::int64_t index, T value) {
  std::memcpy(bytes.data() + static_cast<std::size_t>(index) * sizeof(T), &value, sizeof(T));
}

std::size_t size_of(DataType type, std::int64_t elements) {
  return static_cast<std::size_t>(elements * bytes_per_element(type));
}

// Calls body with how the type is read from and written to memory.
template <class Body>
void with_format(DataType type, Body&& body) {
  const auto same = [](auto value) { return value; };
  switch (type) {
    case DataType::Float32:
    case DataType::TensorFloat32:
      return body(float{}, same, same);
    case DataType::Float16:
      return body(std::uint16_t{}, from_float16, to_float16);
    case DataType::BFloat16:
      return body(std::uint16_t{}, from_bfloat16, to_bfloat16);
    case DataType::Float64:
      return body(double{}, same, same);
    case DataType::Int64:
      return body(std::int64_t{}, same, same);
    case DataType::Int32:
      return body(std::int32_t{}, same, same);
    case DataType::UInt8:
      return body(std::uint8_t{}, same, same);
    case DataType::Float8:
    case DataType::Float8Block:
    case DataType::MxFloat8:
    case DataType::NvFloat4:
      return;  // no tensor is of it
  }
}

template <class T>
T naive_combination(ReduceOperation operation, T a, T b) {
  if (operation == ReduceOperation::Max) return std::max(a, b);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

std::int64_t input_elements(const Call& call, int members) {
  const bool block_each = call.kind == CallKind::ReduceScatter || call.kind == CallKind::AllToAll;
  return call.elements * (block_each ? members : 1);
}

ByteVector input_of(const Call& call, int members, int rank) {
  return random_values(call.type, input_elements(call, members),
                       Rng(call.seed).split(static_cast<std::uint64_t>(rank)).next());
}

ByteVector block_of(const ByteVector& bytes, int block, std::size_t size) {
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(size) * block;
  return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

int receiver_of(const Call& call, int members) { return (call.root + 1) % members; }

// What the member must have in its result; empty if nothing.
ByteVector expected_result(const Call& call, int members, int rank) {
  std::vector<ByteVector> inputs;
  for (int r = 0; r < members; ++r) inputs.push_back(input_of(call, members, r));
  const std::size_t block = size_of(call.type, call.elements);
  ByteVector joined;
  switch (call.kind) {
    case CallKind::AllReduce:
      return naive_reduction(call, inputs);
    case CallKind::Reduce:
      return rank == call.root ? naive_reduction(call, inputs) : ByteVector();
    case CallKind::ReduceScatter:
      for (ByteVector& input : inputs) input = block_of(input, rank, block);
      return naive_reduction(call, inputs);
    case CallKind::AllGather:
      for (const ByteVector& input : inputs) joined.insert(joined.end(), input.begin(), input.end());
      return joined;
    case CallKind::AllToAll:
      for (const ByteVector& input : inputs) {
        const ByteVector part = block_of(input, rank, block);
        joined.insert(joined.end(), part.begin(), part.end());
      }
      return joined;
    case CallKind::Broadcast:
      return inputs[static_cast<std::size_t>(call.root)];
    case CallKind::SendAndReceive:
      return rank == receiver_of(call, members) ? inputs[static_cast<std::size_t>(call.root)] : ByteVector();
  }
  return joined;
}

ByteVector actual_result(Communicator& group, const Call& call, std::int64_t tag) {
  ByteVector data = input_of(call, group.size(), group.rank());
  const std::size_t block = size_of(call.type, call.elements);
  ByteVector result(block);
  switch (call.kind) {
    case CallKind::AllReduce:
      group.all_reduce(data.data(), call.elements, call.type, call.operation, tag);
      return data;
    case CallKind::Reduce:
      group.reduce(data.data(), result.data(), call.elements, call.type, call.operation, call.root, tag);
      return group.rank() == call.root ? result : ByteVector();
    case CallKind::ReduceScatter:
      group.reduce_scatter(data.data(), result.data(), call.elements, call.type, call.operation, tag);
      return result;
    case CallKind::AllGather:
      result.resize(block * static_cast<std::size_t>(group.size()));
      group.all_gather(data.data(), result.data(), call.elements, call.type, tag);
      return result;
    case CallKind::AllToAll:
      result.resize(data.size());
      group.all_to_all(data.data(), result.data(), call.elements, call.type, tag);
      return result;
    case CallKind::Broadcast:
      group.broadcast(data.data(), call.elements, call.type, call.root, tag);
      return data;
    case CallKind::SendAndReceive: {
      const int receiver = receiver_of(call, group.size());
      if (receiver == call.root) return input_of(call, group.size(), call.root);  // alone
      if (group.rank() == call.root) group.send(data.data(), call.elements, call.type, receiver, tag);
      if (group.rank() != receiver) return {};
      group.receive(result.data(), call.elements, call.type, call.root, tag);
      return result;
    }
  }
  return result;
}

bool is_sum(CallKind kind) {
  return kind == CallKind::AllReduce || kind == CallKind::Reduce || kind == CallKind::ReduceScatter;
}

void every_type_and_size(Communicator& world, std::uint64_t seed) {
  std::int64_t tag = 0;
  for (const CallKind kind : kKinds) {
    for (const DataType type : kTypes) {
      for (const std::int64_t elements : {0, 1, 3, 17, 4099 / world.size() + 100}) {
        Call call{kind,
                  type,
                  ReduceOperation::Sum,
                  elements,
                  static_cast<int>(tag) % world.size(),
                  seed + static_cast<std::uint64_t>(tag)};
        check_call(world, call, ++tag);
        call.operation = ReduceOperation::Max;
        if (is_sum(kind)) check_call(world, call, tag);
      }
    }
  }
}

void every_root(Communicator& world, std::uint64_t seed) {
  for (int root = 0; root < world.size(); ++root) {
    for (const CallKind kind : {CallKind::Reduce, CallKind::Broadcast, CallKind::SendAndReceive}) {
      for (const std::int64_t elements : {0, 1, 1025}) {
        check_call(world, {kind, DataType::BFloat16, ReduceOperation::Sum, elements, root, seed}, root);
      }
    }
  }
}

void large_messages(Communicator& world, std::uint64_t seed) {
  for (const CallKind kind : kKinds) {
    check_call(world,
               {kind, DataType::Float32, ReduceOperation::Sum, 300007 / (world.size() * world.size()) + 9000,
                0, seed},
               5);
  }
}

void in_place(Communicator& world, std::uint64_t seed) {
  const Call call{CallKind::AllGather, DataType::Int32, ReduceOperation::Sum, 777, 0, seed};
  const ByteVector own = input_of(call, world.size(), world.rank());
  ByteVector result(own.size() * static_cast<std::size_t>(world.size()));
  std::byte* place = result.data() + own.size() * static_cast<std::size_t>(world.rank());
  std::copy(own.begin(), own.end(), place);
  world.all_gather(place, result.data(), call.elements, call.type, 1);
  if (result != expected_result(call, world.size(), world.rank()))
    throw std::runtime_error("all_gather in place");

  Call sum = call;
  sum.kind = CallKind::Reduce;
  ByteVector data = own;
  world.reduce(data.data(), data.data(), sum.elements, sum.type, sum.operation, 0, 1);
  if (world.rank() == 0 && data != expected_result(sum, world.size(), 0))
    throw std::runtime_error("reduce in place");
}

void check_some_calls(Communicator& group, std::uint64_t seed, std::int64_t first_tag, int count) {
  Rng rng(seed);
  for (int i = 0; i < count; ++i) {
    Call call{kKinds[rng.below(kKinds.size())]};
    call.type = kTypes[rng.below(kTypes.size())];
    call.operation = rng.below(2) == 0 ? ReduceOperation::Sum : ReduceOperation::Max;
    const std::uint64_t largest =
        rng.below(4) == 0 ? 40000 / static_cast<std::uint64_t>(group.size() + 1) : 100;
    call.elements = static_cast<std::int64_t>(rng.below(largest));
    call.root = static_cast<int>(rng.below(static_cast<std::uint64_t>(group.size())));
    call.seed = rng.next();
    check_call(group, call, first_tag + static_cast<std::int64_t>(rng.below(3)));
  }
}

void random_calls(Communicator& world, std::uint64_t seed) {
  check_some_calls(world, seed, -1, 100);
  check_some_calls(world, seed + 1, std::int64_t{1} << 62, 10);
}

std::vector<int> ranks_where(const Communicator& world, const std::function<bool(int)>& chosen) {
  std::vector<int> ranks;
  for (int r = 0; r < world.size(); ++r) {
    if (chosen(r)) ranks.push_back(r);
  }
  return ranks;
}

std::unique_ptr<Communicator> reversed(Communicator& world) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.rbegin(), ranks.rend(), 0);
  return world.group(ranks);
}

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("expected " + what);
}

void groups_and_splits(Communicator& world, std::uint64_t seed) {
  const auto mirror = reversed(world);
  require(mirror->rank() == world.size() - 1 - world.rank(), "the reversed order");
  check_some_calls(*mirror, seed, 7, 10);
  const auto parity = world.group(ranks_where(world, [&](int r) { return r % 2 == world.rank() % 2; }));
  check_some_calls(*parity, seed + static_cast<std::uint64_t>(world.rank() % 2), 7, 20);
  const auto inner = reversed(*parity);
  check_some_calls(*inner, seed + static_cast<std::uint64_t>(world.rank() % 2), 7, 20);

  const auto halves = mirror->split(world.rank() * 2 / world.size(), -world.rank(), 3);
  check_some_calls(*halves, seed + static_cast<std::uint64_t>(world.rank() * 2 / world.size()), 7, 20);
  const auto first = world.split(world.rank() == 0 ? -1 : 4, 0, 3);
  require((first == nullptr) == (world.rank() == 0), "no group for a negative color");
  if (first)
    require(first->size() == world.size() - 1 && first->rank() == world.rank() - 1, "all but the first");
}

// Tags are the same everywhere, and so are pairs of members.
void overlapping_groups_at_once(Communicator& world, std::uint64_t seed) {
  const auto mirror = reversed(world);
  const auto pair = world.group(ranks_where(world, [&](int r) { return r / 2 == world.rank() / 2; }));
  const auto parity = world.group(ranks_where(world, [&](int r) { return r % 2 == world.rank() % 2; }));
  const std::array<Communicator*, 4> groups = {&world, mirror.get(), pair.get(), parity.get()};
  const std::array<int, 4> parts = {0, 0, world.rank() / 2, world.rank() % 2};
  in_threads(
      4,
      [&](int thread) {
        const auto i = static_cast<std::size_t>((thread + world.rank()) % 4);
        const std::uint64_t own = Rng(seed).split(i).split(static_cast<std::uint64_t>(parts[i])).next();
        // A pair that is all the world is the world's group, whose tags must not be used twice.
        const bool same_group = i == 2 && world.size() <= 2;
        check_some_calls(*groups[i], own, same_group ? 1000 : 0, 40);
      },
      [&](const std::string& reason) { world.abort(reason); });
}

void threads_with_tags_of_their_own(Communicator& world, std::uint64_t seed) {
  in_threads(
      4,
      [&](int thread) {
        const int stream = (thread + world.rank()) % 4;
        check_some_calls(world, seed + static_cast<std::uint64_t>(stream), 100 * stream, 30);
      },
      [&](const std::string& reason) { world.abort(reason); });
}

constexpr std::array<ConformanceCase, 8> kCases = {{
    {"EveryTypeAndSize", every_type_and_size},
    {"EveryRoot", every_root},
    {"LargeMessages", large_messages},
    {"InPlace", in_place},
    {"RandomCalls", random_calls},
    {"GroupsAndSplits", groups_and_splits},
    {"OverlappingGroupsAtOnce", overlapping_groups_at_once},
    {"ThreadsWithTagsOfTheirOwn", threads_with_tags_of_their_own},
}};

}  // namespace

std::span<const ConformanceCase> conformance_cases() { return kCases; }

ByteVector random_values(DataType type, std::int64_t elements, std::uint64_t seed) {
  ByteVector bytes(size_of(type, elements));
  Rng rng(seed);
  with_format(type, [&](auto zero, auto load, auto store) {
    using Loaded = decltype(load(zero));
    for (std::int64_t i = 0; i < elements; ++i) {
      const std::uint64_t bits = rng.next();
      if constexpr (std::is_integral_v<Loaded>) {
        set_element(bytes, i, store(static_cast<Loaded>(bits)));
      } else {
        const auto fraction =
            static_cast<Loaded>(static_cast<std::int32_t>(bits)) / static_cast<Loaded>(1U << 31U);
        set_element(bytes, i, store(fraction * static_cast<Loaded>(1U << (bits >> 60U))));
      }
    }
  });
  return bytes;
}

ByteVector naive_reduction(const Call& call, std::span<const ByteVector> addends) {
  ByteVector result(size_of(call.type, call.elements));
  with_format(call.type, [&](auto zero, auto load, auto store) {
    using Stored = decltype(zero);
    for (std::int64_t i = 0; i < call.elements; ++i) {
      auto total = load(element<Stored>(addends[0], i));
      for (const ByteVector& addend : addends.subspan(1))
        total = naive_combination(call.operation, total, load(element<Stored>(addend, i)));
      set_element(result, i, store(total));
    }
  });
  return result;
}

void check_call(Communicator& group, const Call& call, std::int64_t tag) {
  const ByteVector actual = actual_result(group, call, tag);
  const ByteVector expected = expected_result(call, group.size(), group.rank());
  if (actual == expected) return;
  const auto at =
      std::mismatch(actual.begin(), actual.end(), expected.begin(), expected.end()).first - actual.begin();
  throw std::runtime_error(fmt::format(
      "call {} of {} elements {}, operation {}, root {}, seed {}, tag {}: rank {} of {} has other bits than "
      "expected "
      "from byte {} on ({} bytes instead of {})",
      static_cast<int>(call.kind), call.elements, name_of(call.type), static_cast<int>(call.operation),
      call.root, call.seed, tag, group.rank(), group.size(), at, actual.size(), expected.size()));
}

void in_threads(int count, const std::function<void(int)>& body,
                const std::function<void(const std::string&)>& abort) {
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        body(i);
      } catch (const std::exception& error) {
        abort(error.what());
        const std::scoped_lock lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace pipesim
