#include "executor/communication/reduction.h"

#include <algorithm>
#include <array>

#include "executor/communication/combining.h"
#include "executor/elements/element_formats.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

template <class Format, class Combine>
void reduce_with(std::span<const void* const> addends, void* result, std::int64_t elements, Combine combine) {
  using Stored = typename Format::Stored;
  std::array<typename Format::Computed, 512> totals;
  for (std::int64_t begin = 0; begin < elements; begin += static_cast<std::int64_t>(totals.size())) {
    const auto count = static_cast<std::size_t>(
        std::min<std::int64_t>(elements - begin, static_cast<std::int64_t>(totals.size())));
    const Stored* first = static_cast<const Stored*>(addends[0]) + begin;
    for (std::size_t i = 0; i < count; ++i) totals[i] = Format::load(first[i]);
    for (const void* next : addends.subspan(1)) {
      const Stored* addend = static_cast<const Stored*>(next) + begin;
      for (std::size_t i = 0; i < count; ++i) totals[i] = combine(totals[i], Format::load(addend[i]));
    }
    Stored* target = static_cast<Stored*>(result) + begin;
    for (std::size_t i = 0; i < count; ++i) target[i] = Format::store(totals[i]);
  }
}

template <class Format>
void reduce_as(std::span<const void* const> addends, void* result, std::int64_t elements,
               ReduceOperation operation) {
  using Summed = typename Format::Computed;
  if (operation == ReduceOperation::Sum) {
    reduce_with<Format>(addends, result, elements, [](Summed a, Summed b) { return sum_of(a, b); });
  } else {
    reduce_with<Format>(addends, result, elements, [](Summed a, Summed b) { return max_of(a, b); });
  }
}

}  // namespace

void reduce_in_order(std::span<const void* const> addends, void* result, std::int64_t elements, DataType type,
                     ReduceOperation operation) {
  switch (type) {
    case DataType::Float32:
    case DataType::TensorFloat32:
      return reduce_as<PlainElement<float>>(addends, result, elements, operation);
    case DataType::Float16:
      return reduce_as<Float16Element>(addends, result, elements, operation);
    case DataType::BFloat16:
      return reduce_as<BFloat16Element>(addends, result, elements, operation);
    case DataType::Float64:
      return reduce_as<PlainElement<double>>(addends, result, elements, operation);
    case DataType::Int64:
      return reduce_as<PlainElement<std::int64_t>>(addends, result, elements, operation);
    case DataType::Int32:
      return reduce_as<PlainElement<std::int32_t>>(addends, result, elements, operation);
    case DataType::UInt8:
      return reduce_as<PlainElement<std::uint8_t>>(addends, result, elements, operation);
    case DataType::Float8:
    case DataType::Float8Block:
    case DataType::MxFloat8:
    case DataType::NvFloat4:
      break;
  }
  throw InternalError("no reduction for a data type");
}

}  // namespace pipesim
