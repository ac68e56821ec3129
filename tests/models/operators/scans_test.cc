#include <gmock/gmock.h>

#include "tests/models/describe.h"
#include "tests/models/samples.h"

namespace pipesim {
namespace {

TEST(StateSpaceScan, WorksInChunksAndAddsUpOverStates) {
  Bench t;
  EXPECT_EQ(Description::of(
                t.op("state_space_scan",
                     {t.x({4, 16, 2, 3, 8}), t.x({4, 16, 2, 3}), t.x({4, 16, 2, 2}), t.x({4, 16, 2, 2})},
                     {{"chunk", 8}})),
            R"(factors b:S4 s:A16! g:A2 r:A3 p:P8 n:R2
input [b, s, g, r, p] saved passes 2, 5
input [b, s, g, r] saved
input [b, s, g, n] saved passes 2, 4
input [b, s, g, n] saved passes 2, 4
weight [g, r]
weight [g, r]
weight [g, r] n:once
output [b, s, g, r, p] passes 1, 5
flops F 16bsgn + 16bsgrp + 4bsgrpn + 71bsgr + 4bsgrp + 0.25bsgrpn; B 48bsgn + 48bsgrp + 10bsgrpn + 190bsgr + 8bsgrp + 0.75bsgrpn; W 0
moves F 2bsgrpn + 64bsg bytes
moves B 6bsgrpn + 224bsg bytes
matrix s x 8 x p for each bgr
)");
}

}  // namespace
}  // namespace pipesim
