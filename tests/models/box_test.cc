#include "models/box.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/zigzag.h"
#include "sim/base/errors.h"
#include "tests/models/samples.h"
#include "tests/seeds.h"

namespace pipesim {
namespace {

using testing::ElementsAre;

TEST(Cut, NestsAndCoversUnevenSizes) {
  for (const std::int64_t size : {5, 7, 12, 35}) {
    const Factor f{"s", FactorKind::Attribute, size, 1, INT64_MAX, true};
    for (std::int64_t degree = 1; degree <= size; ++degree) {
      EXPECT_EQ(cut(f, degree, 0).begin, 0);
      EXPECT_EQ(cut(f, degree, degree - 1).end, size);
      for (std::int64_t k = 0; k < degree; ++k) {
        EXPECT_EQ(cut(f, degree, k).begin, cut(f, 2 * degree, 2 * k).begin);
        EXPECT_EQ(cut(f, degree, k).end, cut(f, 2 * degree, 2 * k + 1).end);
      }
    }
  }
}

TEST(Cut, FallsOnMultiplesOfTheGranule) {
  const Factor heads{"h", FactorKind::Attribute, 12, 4};
  EXPECT_EQ(cut(heads, 2, 0), (Range{0, 4}));
  EXPECT_EQ(cut(heads, 2, 1), (Range{4, 12}));
}

TEST(Box, KnowsElementsContainmentAndIntersection) {
  const std::vector<Range> left{{0, 4}, {0, 8}}, right{{2, 6}, {4, 12}}, far{{4, 6}, {0, 8}};
  const Box a(left), b(right);
  EXPECT_EQ(a.str(), "[0:4, 0:8]");
  EXPECT_EQ(a.elements(), 32);
  EXPECT_EQ(intersection(a, b)->str(), "[2:4, 4:8]");
  EXPECT_EQ(intersection(a, Box(far)), std::nullopt);
  EXPECT_TRUE(intersection(a, b)->inside(a));
  EXPECT_FALSE(a.inside(b));
  EXPECT_LT(a, b);
  EXPECT_EQ(Box::whole(Sizes{3, 2}).str(), "[0:3, 0:2]");
}

TEST(Box, OfAScalarHasOneElement) {
  const Box scalar;
  EXPECT_EQ(scalar.elements(), 1);
  EXPECT_FALSE(scalar.empty());
  EXPECT_EQ(scalar.str(), "[]");
  EXPECT_EQ(intersection(scalar, scalar), scalar);
}

TEST(Box, OfNineDimensionsIsRefused) { EXPECT_THROW(Box(std::vector<Range>(9, {0, 1})), InternalError); }

/// Rows of x that a shard needs beyond those that its producer, cut alike, gave it; summed over shards.
std::vector<std::int64_t> halo_rows(std::int64_t rows, const Attributes& attributes, std::int64_t degree) {
  Bench t;
  const Operator op = t.op("conv2d", {t.x({4, 3, rows, rows})}, attributes);
  const Factor produced{"h", FactorKind::Attribute, rows, 1, INT64_MAX, true};
  const FactorIndex h = op.factor("h");
  std::vector<std::int64_t> halo;
  for (std::int64_t k = 0; k < degree; ++k) {
    auto ranges = whole_ranges(op);
    ranges[static_cast<std::size_t>(h)] = cut(op.factors[static_cast<std::size_t>(h)], degree, k);
    const Range needed = box_of(op.uses[0], op, ranges)[2], own = cut(produced, degree, k);
    halo.push_back(std::max<std::int64_t>(0, own.begin - needed.begin) +
                   std::max<std::int64_t>(0, needed.end - own.end));
  }
  return halo;
}

Attributes window(std::int64_t kernel, std::int64_t stride, std::int64_t pad, std::int64_t dilation = 1) {
  return {{"out", 8}, {"kernel", kernel}, {"stride", stride}, {"pad", pad}, {"dilation", dilation}};
}

TEST(Halo, HoldsTheRowsOfTheOperatorAlgebra) {
  EXPECT_THAT(halo_rows(56, window(3, 1, 1), 2), ElementsAre(1, 1));
  EXPECT_THAT(halo_rows(56, window(3, 2, 1), 2), ElementsAre(0, 1));
  EXPECT_THAT(halo_rows(224, window(7, 2, 3), 2), ElementsAre(2, 3));
  EXPECT_THAT(halo_rows(56, window(1, 1, 0), 2), ElementsAre(0, 0));
  EXPECT_THAT(halo_rows(56, window(3, 1, 2, 2), 2), ElementsAre(2, 2));
  EXPECT_THAT(halo_rows(56, window(3, 1, 1), 4), ElementsAre(1, 2, 2, 1));
}

TEST(Overhang, IsPaddingAtTheImageBorderOnly) {
  Bench t;
  const Operator op = t.op("conv2d", {t.x({4, 3, 10, 10})}, window(3, 1, 1));
  auto ranges = whole_ranges(op);
  const auto h = static_cast<std::size_t>(op.factor("h"));
  Overhang overhang;
  ranges[h] = {0, 5};
  EXPECT_EQ(index_range(op.uses[0].dims[2], op, ranges, &overhang), (Range{0, 6}));
  EXPECT_EQ(overhang, (Overhang{1, 0}));
  ranges[h] = {5, 10};
  EXPECT_EQ(index_range(op.uses[0].dims[2], op, ranges, &overhang), (Range{4, 10}));
  EXPECT_EQ(overhang, (Overhang{0, 1}));
  EXPECT_EQ(index_range(op.uses[0].dims[0], op, ranges, &overhang), (Range{0, 4}));
  EXPECT_EQ(overhang, (Overhang{0, 0}));
}

TEST(Window, OfAStrideBeyondTheKernelDoesNotOverlap) {
  EXPECT_TRUE(IndexExpr::window(0, 8, 1, 3, 1, 1).overlaps());
  EXPECT_TRUE(IndexExpr::window(0, 8, 2, 2, 2, 0).overlaps());
  EXPECT_FALSE(IndexExpr::window(0, 8, 2, 2, 1, 0).overlaps());
  EXPECT_FALSE(IndexExpr::axis(0, 8).overlaps());
}

TEST(Merged, SplitsTheMostMajorFactorOrBelowSingleElements) {
  Bench t;
  const Operator op = t.op("flatten", {t.x({4, 2, 3, 5})});
  auto ranges = whole_ranges(op);
  ranges[1] = {1, 2};
  EXPECT_EQ(box_of(op.uses[1], op, ranges).str(), "[0:4, 15:30]");
  ranges[2] = {1, 3};
  EXPECT_EQ(merged_conflict(op, ranges), std::nullopt);
  EXPECT_EQ(box_of(op.uses[1], op, ranges).str(), "[0:4, 20:30]");
}

TEST(Merged, RefusesACutBelowAnUnfinishedFactor) {
  Bench t;
  const Operator op = t.op("flatten", {t.x({4, 2, 3, 5})});
  auto ranges = whole_ranges(op);
  ranges[2] = {0, 1};
  EXPECT_EQ(merged_conflict(op, ranges), (MergedConflict{op.factor("h"), op.factor("c")}));
  try {
    box_of(op.uses[1], op, ranges);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "operator \"op0\" (flatten): h is cut below an unfinished factor c");
  }
}

TEST(Axis, OfAShortSideMayBeEmpty) {
  Bench t;
  const Operator op = t.op("concat", {t.x({4, 3}), t.x({4, 5})}, {{"axis", 1}});
  auto ranges = whole_ranges(op);
  ranges[1] = {4, 8};
  EXPECT_TRUE(box_of(op.uses[0], op, ranges).empty());
  EXPECT_EQ(box_of(op.uses[1], op, ranges).str(), "[0:4, 1:5]");
}

TEST(Evaluate, AddsProductsOfLengths) {
  const std::vector<ProductTerm> terms{{2, {0, 1}}, {0.5, {1}}, {7, {}}};
  const std::vector<Range> ranges{{0, 3}, {2, 6}};
  EXPECT_EQ(evaluate(terms, ranges), 2 * 3 * 4 + 0.5 * 4 + 7);
  EXPECT_EQ(evaluate({}, ranges), 0);
}

TEST(VisibleShare, CountsPairsUnderTheDiagonal) {
  Bench t;
  const TensorId q = t.x({4, 9, 2, 1, 4}), k = t.x({4, 9, 2, 4});
  const Operator op = t.op("attention", {q, k, k}, {{"causal", 1}});
  const auto s = static_cast<std::size_t>(op.factor("s")), keys = static_cast<std::size_t>(op.factor("t"));
  auto ranges = whole_ranges(op);
  for (std::int64_t a = 0; a < 9; ++a) {
    for (std::int64_t b = a + 1; b <= 9; ++b) {
      for (std::int64_t c = 0; c < 9; ++c) {
        for (std::int64_t d = c + 1; d <= 9; ++d) {
          ranges[s] = {a, b};
          ranges[keys] = {c, d};
          std::int64_t seen = 0;
          for (std::int64_t i = a; i < b; ++i) {
            for (std::int64_t j = c; j < d; ++j) seen += j <= i;
          }
          EXPECT_DOUBLE_EQ(visible_share(op, ranges),
                           static_cast<double>(seen) / static_cast<double>((b - a) * (d - c)));
        }
      }
    }
  }
}

TEST(VisibleShare, InZigzagOrderIsThatOfThePositions) {
  Bench t;
  const TensorId q = t.x({4, 24, 2, 1, 4}), k = t.x({4, 24, 2, 4});
  for (const std::int64_t parts : {1, 2, 3, 4, 6, 12}) {
    const Operator op = t.op("attention", {q, k, k}, {{"causal", 1}, {"zigzag", parts}});
    const ZigzagOrder order(parts, 24);
    const auto s = static_cast<std::size_t>(op.factor("s"));
    std::vector<bool> met(24, false);
    for (std::int64_t i = 0; i < 24; ++i) {
      EXPECT_EQ(order.index(order.position(i)), i);
      met[static_cast<std::size_t>(order.position(i))] = true;
    }
    EXPECT_EQ(std::ranges::count(met, true), 24);
    auto ranges = whole_ranges(op);
    for (std::int64_t a = 0; a < 24; ++a) {
      for (std::int64_t b = a + 1; b <= 24; ++b) {
        ranges[s] = {a, b};
        std::int64_t seen = 0;
        for (std::int64_t i = a; i < b; ++i) seen += order.position(i) + 1;
        EXPECT_DOUBLE_EQ(visible_share(op, ranges),
                         static_cast<double>(seen) / static_cast<double>((b - a) * 24));
      }
    }
    for (std::int64_t part = 0; part < parts; ++part) {
      ranges[s] = {part * 24 / parts, (part + 1) * 24 / parts};
      EXPECT_DOUBLE_EQ(visible_share(op, ranges), 25.0 / 48);
    }
    // Blocks of keys, as they pass round a ring.
    const auto t_factor = static_cast<std::size_t>(op.factor("t"));
    for (std::int64_t a = 0; a < 24; a += 3) {
      for (std::int64_t c = 0; c < 24; ++c) {
        for (std::int64_t d = c + 1; d <= 24; ++d) {
          ranges[s] = {a, a + 3}, ranges[t_factor] = {c, d};
          std::int64_t seen = 0;
          for (std::int64_t i = a; i < a + 3; ++i) {
            for (std::int64_t j = c; j < d; ++j) seen += order.position(j) <= order.position(i);
          }
          EXPECT_DOUBLE_EQ(visible_share(op, ranges),
                           static_cast<double>(seen) / static_cast<double>(3 * (d - c)));
        }
      }
    }
  }
}

TEST(VisibleShare, InZigzagOrderNeedsPairsOfChunksAndAMask) {
  Bench t;
  const TensorId q = t.x({4, 10, 2, 1, 4}), k = t.x({4, 10, 2, 4});
  const auto message = [&](const Attributes& attributes) -> std::string {
    try {
      (void)t.op("attention", {q, k, k}, attributes);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({{"causal", 1}, {"zigzag", 2}}),
              testing::HasSubstr("\"zigzag\" is 2, allowed: half of a divisor of the 10 positions"));
  EXPECT_THAT(message({{"zigzag", 5}}), testing::HasSubstr("\"zigzag\" is given, allowed: with \"causal\""));
}

// Windows are longer than the sequence or of one key, in documents and without.
TEST(VisibleShare, OfPackedDocumentsAndWindowsCountsPairsWithinThem) {
  for_each_seed(300, [](Rng& rng) {
    Bench t;
    const std::int64_t parts = rng.between(1, 4), n = 2 * parts * rng.between(1, 4);
    const auto length_or_none = [&] { return rng.below(3) == 0 ? 0 : rng.between(1, n + 2); };
    const std::int64_t length = length_or_none(), window = length_or_none();
    SCOPED_TRACE(testing::Message() << n << " positions, zigzag " << parts << ", documents of " << length
                                    << ", a window of " << window);
    const TensorId q = t.x({4, n, 2, 1, 4}), k = t.x({4, n, 2, 4});
    const Operator op =
        t.op("attention", {q, k, k},
             {{"causal", 1}, {"zigzag", parts}, {"document_length", length}, {"window", window}});
    const ZigzagOrder order(parts, n);
    const auto draw = [&] {
      const std::int64_t begin = rng.between(0, n - 1);
      return Range{begin, rng.between(begin + 1, n)};
    };
    const Range queries = draw(), keys = draw();
    auto ranges = whole_ranges(op);
    ranges[static_cast<std::size_t>(op.factor("s"))] = queries;
    ranges[static_cast<std::size_t>(op.factor("t"))] = keys;
    std::int64_t seen = 0;
    for (std::int64_t i = queries.begin; i < queries.end; ++i) {
      const std::int64_t at = order.position(i);
      for (std::int64_t j = keys.begin; j < keys.end; ++j) {
        const std::int64_t key = order.position(j);
        seen +=
            key <= at && (length == 0 || key / length == at / length) && (window == 0 || at - key < window);
      }
    }
    EXPECT_DOUBLE_EQ(visible_share(op, ranges),
                     static_cast<double>(seen) / static_cast<double>(queries.length() * keys.length()));
  });
}

TEST(VisibleShare, OfPackedDocumentsAndWindowsNeedsAMask) {
  Bench t;
  const TensorId q = t.x({4, 10, 2, 1, 4}), k = t.x({4, 10, 2, 4});
  const auto message = [&](const Attributes& attributes) -> std::string {
    try {
      (void)t.op("attention", {q, k, k}, attributes);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({{"document_length", 5}}),
              testing::HasSubstr("attribute \"document_length\" is given, allowed: with \"causal\""));
  EXPECT_THAT(message({{"window", 5}}),
              testing::HasSubstr("attribute \"window\" is given, allowed: with \"causal\""));
  EXPECT_THAT(message({{"causal", 1}, {"document_length", -1}}),
              testing::HasSubstr("\"document_length\" is -1"));
}

TEST(VisibleShare, IsOneWithoutAMask) {
  Bench t;
  const Operator op = t.op("relu", {t.x({4, 3})});
  EXPECT_EQ(visible_share(op, whole_ranges(op)), 1);
}

}  // namespace
}  // namespace pipesim
