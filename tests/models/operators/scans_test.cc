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
scratch of 0.125bs rows in 1 parts, 4grpn bytes a row
moves F 2bsgrpn + 64bsg bytes
moves B 6bsgrpn + 224bsg bytes
matrix s x 8 x p for each bgr
)");
}

TEST(GatedDeltaRule, WorksInChunksOnWholeColumns) {
  Bench t;
  const TensorId q = t.x({4, 16, 2, 6}), k = t.x({4, 16, 2, 6}), v = t.x({4, 16, 2, 3, 8}),
                 beta = t.x({4, 16, 2, 3});
  const Attributes chunk{{"chunk", 12}};
  EXPECT_EQ(Description::of(t.op("gated_delta_rule", {q, k, v, t.x({4, 16, 2, 3}), beta}, chunk)),
            R"(factors b:S4 s:A16! g:A2 r:A3 e:P8
input [b, s, g, 6] saved passes 3, 4
input [b, s, g, 6] saved passes 6, 7
input [b, s, g, r, e] saved passes 1, 2
input [b, s, g, r] saved
input [b, s, g, r] saved
weight [g, r]
weight [g, r]
output [b, s, g, r, e] passes 1, 3
flops F 480bsgr + 84bsgre + 207bsgr + 36bsg + 4bsgre; B 2016bsgr + 216bsgre + 582bsgr + 72bsg + 8bsgre; W 0
saves 48bsgr + 4bsgr + 8bsg bytes
scratch of 0.08333333333333333bs rows in 1 parts, 24gre bytes a row
moves F 260bsgr + 20bsgre bytes
moves B 216bsgr + 44bsgre bytes
matrix s x 6 x e for each bgr
)");
  EXPECT_EQ(Description::of(t.op("gated_delta_rule", {q, k, v, t.x({4, 16, 2, 3, 6}), beta}, chunk)),
            R"(factors b:S4 s:A16! g:A2 r:A3 e:P8
input [b, s, g, 6] saved passes 3, 4
input [b, s, g, 6] saved passes 6, 7
input [b, s, g, r, e] saved passes 1, 2
input [b, s, g, r, 6] saved
input [b, s, g, r] saved
weight [g, r]
weight [g, r, 6]
output [b, s, g, r, e] passes 1, 3
flops F 480bsgr + 84bsgre + 282bsgr + 36bsg + 4bsgre; B 2016bsgr + 216bsgre + 732bsgr + 72bsg + 8bsgre; W 0
saves 96bsgr + 24bsgr + 8bsg bytes
scratch of 0.08333333333333333bs rows in 1 parts, 24gre bytes a row
moves F 360bsgr + 20bsgre bytes
moves B 336bsgr + 44bsgre bytes
matrix s x 6 x e for each bgr
)");
}

}  // namespace
}  // namespace pipesim
