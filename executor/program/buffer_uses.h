#pragma once

#include "executor/program/program.h"

namespace pipesim {

/// Lists the buffers that an instruction uses, and counts it among the uses of each.
void count_uses(Instruction& instruction, Program& program);

}  // namespace pipesim
