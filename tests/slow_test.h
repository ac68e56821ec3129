#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "tests/seeds.h"

/// Tests that take minutes under sanitizers, and tell these nothing that short ones do not: long searches
/// from many seeds or over all of a large set, commands that run dozens of them, the whole zoo as files.
/// GoogleTest says how many are disabled in such a build.
#ifdef PIPESIM_SANITIZED
#define SLOW_TEST(suite, name) TEST(suite, DISABLED_##name)
#define SLOW_TEST_F(suite, name) TEST_F(suite, DISABLED_##name)
#define SLOW_TEST_P(suite, name) TEST_P(suite, DISABLED_##name)
#else
#define SLOW_TEST(suite, name) TEST(suite, name)
#define SLOW_TEST_F(suite, name) TEST_F(suite, name)
#define SLOW_TEST_P(suite, name) TEST_P(suite, name)
#endif

namespace pipesim {

/// Whether a test of this network is left out under sanitizers: it has hundreds of operators, of kinds that
/// smaller ones have too.
inline bool is_slow_network(std::string_view model) {
  for (const std::string_view name :
       {"alexnet", "vgg", "resnet50", "inception", "swin-s", "swin-b", "swin-l", "unet"}) {
    if (model.starts_with(name)) return sanitized;
  }
  return false;
}

}  // namespace pipesim
