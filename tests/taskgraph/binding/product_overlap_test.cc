#include "taskgraph/binding/product_overlap.h"

#include <gtest/gtest.h>

namespace pipesim {
namespace {

// In four parts: the product of three hides as many transfers, where it is long enough.
TEST(ProductOverlap, HidesAllPartsButOne) {
  EXPECT_EQ(share_beside_product(100, 1000, 4), 0.25);
  EXPECT_EQ(share_beside_product(100, 100, 4), 0.25);
  EXPECT_EQ(share_beside_product(100, 40, 4), 0.7);
  EXPECT_EQ(share_beside_product(100, 0, 4), 1);
  EXPECT_EQ(share_beside_product(0, 10, 4), 1);
}

}  // namespace
}  // namespace pipesim
