#pragma once

#include "executor/program/program.h"

namespace pipesim {

/// Calls the parts of a pass that one stage has, of a kernel of any backend.
template <class Kernel, class Call>
void run_segments(const Kernel& kernel, const Call& call, const ComputeWork& work) {
  for (std::size_t s = work.first_segment; s < work.end_segment; ++s) {
    switch (work.pass) {
      case Pass::Forward:
        kernel.forward(call, s);
        break;
      case Pass::BackwardInput:
        kernel.backward_input(call, s);
        break;
      default:
        kernel.backward_weight(call);
    }
  }
}

}  // namespace pipesim
