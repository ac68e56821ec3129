#pragma once

#include "sim/base/data_type.h"

namespace pipesim {

/// The largest relative error of rounding to a type: half the distance from 1 to the next larger number.
constexpr double unit_roundoff(DataType type) {
  switch (type) {
    case DataType::BFloat16:
      return 0x1p-8;
    case DataType::Float16:
      return 0x1p-11;
    default:
      return 0x1p-24;
  }
}

}  // namespace pipesim
