#include <gmock/gmock.h>

#include <functional>
#include <set>

#include "models/box.h"
#include "tests/models/samples.h"

namespace pipesim {
namespace {

using Ranges = std::vector<Range>;

/// Ranges of all shards for these degrees, last factor fastest.
std::vector<Ranges> shards(const Operator& op, const Sizes& degrees) {
  std::vector<Ranges> result{{}};
  for (std::size_t f = 0; f < op.factors.size(); ++f) {
    std::vector<Ranges> longer;
    for (const Ranges& head : result) {
      for (std::int64_t k = 0; k < degrees[f]; ++k) {
        longer.push_back(head);
        longer.back().push_back(cut(op.factors[f], degrees[f], k));
      }
    }
    result = std::move(longer);
  }
  return result;
}

/// Random legal degrees with at most 24 shards; factors for which `may_split` is false stay whole.
Sizes random_degrees(const Operator& op, Rng& rng, const std::function<bool(FactorIndex)>& may_split) {
  while (true) {
    Sizes degrees;
    std::int64_t n = 1;
    for (std::size_t f = 0; f < op.factors.size(); ++f) {
      const Factor& factor = op.factors[f];
      std::int64_t d =
          rng.between(1, std::min<std::int64_t>({4, factor.size / factor.granule, factor.max_degree}));
      if ((!factor.uneven && factor.size % d != 0) || !may_split(static_cast<FactorIndex>(f)) || n * d > 24)
        d = 1;
      degrees.push_back(d);
      n *= d;
    }
    const auto all = shards(op, degrees);
    if (std::none_of(all.begin(), all.end(),
                     [&](const auto& r) { return merged_conflict(op, r).has_value(); })) {
      return degrees;
    }
  }
}

bool in_all_terms(const std::vector<ProductTerm>& terms, FactorIndex f) {
  return std::all_of(terms.begin(), terms.end(), [f](const ProductTerm& t) {
    return std::find(t.factors.begin(), t.factors.end(), f) != t.factors.end();
  });
}

TEST(Samples, HaveEveryKind) {
  std::set<std::string> kinds;
  for (const Operator& op : operators_of_all_kinds()) kinds.insert(op.kind);
  std::set<std::string> registered;
  for (const OperatorKind& kind : operator_kinds()) registered.insert(kind.name);
  EXPECT_EQ(kinds, registered);
}

TEST(Work, OfShardsAddsUpToTheWhole) {
  Rng rng = test_rng(20240611);
  for (const Operator& op : operators_of_all_kinds()) {
    for (const auto* terms : {&op.flops_forward, &op.flops_backward_input, &op.flops_backward_weight,
                              &op.bytes_forward_extra, &op.bytes_backward_extra}) {
      for (int trial = 0; trial < 20; ++trial) {
        const Sizes degrees = random_degrees(op, rng, [&](FactorIndex f) { return in_all_terms(*terms, f); });
        double sum = 0;
        for (const Ranges& r : shards(op, degrees)) sum += evaluate(*terms, r);
        const double whole = evaluate(*terms, whole_ranges(op));
        EXPECT_NEAR(sum, whole, 1e-12 * whole) << op.kind << " " << to_text(degrees);
      }
    }
  }
}

/// Shards that differ along factors of the tensor only: the others hold copies or addends of these boxes.
std::vector<Box> distinct_boxes(const Operator& op, const TensorUse& use, const Sizes& degrees) {
  Sizes own = degrees;
  for (std::size_t f = 0; f < own.size(); ++f) {
    if (!use.follows(static_cast<FactorIndex>(f))) own[f] = 1;
  }
  std::vector<Box> boxes;
  for (const Ranges& r : shards(op, own)) boxes.push_back(box_of(use, op, r));
  return boxes;
}

TEST(Boxes, OfOutputsTileTheTensor) {
  Rng rng = test_rng(20240612);
  for (const Operator& op : operators_of_all_kinds()) {
    for (int trial = 0; trial < 20; ++trial) {
      const Sizes degrees = random_degrees(op, rng, [](FactorIndex) { return true; });
      for (const TensorUse& use : op.uses) {
        if (use.role != Role::Output) continue;
        const Box whole = Box::whole(extents(use.dims));
        std::int64_t covered = 0;
        const auto boxes = distinct_boxes(op, use, degrees);
        for (std::size_t i = 0; i < boxes.size(); ++i) {
          if (boxes[i].empty()) continue;
          covered += boxes[i].elements();
          EXPECT_TRUE(boxes[i].inside(whole));
          for (std::size_t j = 0; j < i; ++j) {
            EXPECT_TRUE(boxes[j].empty() || !intersection(boxes[i], boxes[j]))
                << op.kind << " " << to_text(degrees);
          }
        }
        EXPECT_EQ(covered, whole.elements()) << op.kind << " " << to_text(degrees);
      }
    }
  }
}

/// Only windows overlap, and only where they stride less than they span.
TEST(Boxes, OfWeightsAndPlainInputsTileTheTensor) {
  Rng rng = test_rng(20240613);
  for (const Operator& op : operators_of_all_kinds()) {
    const Sizes degrees = random_degrees(op, rng, [](FactorIndex) { return true; });
    for (const TensorUse& use : op.uses) {
      const bool windowed = std::any_of(use.dims.begin(), use.dims.end(),
                                        [](const IndexExpr& e) { return e.kind == IndexExpr::Kind::Window; });
      if (windowed) continue;
      std::int64_t covered = 0;
      for (const Box& box : distinct_boxes(op, use, degrees)) covered += box.empty() ? 0 : box.elements();
      EXPECT_EQ(covered, Box::whole(extents(use.dims)).elements()) << op.kind << " " << to_text(degrees);
    }
  }
}

TEST(InnerSteps, AscendWithinAPass) {
  for (const Operator& op : operators_of_all_kinds()) {
    for (std::size_t i = 0; i < op.inner_steps.size(); ++i) {
      const InnerStep& step = op.inner_steps[i];
      EXPECT_GT(step.share_before, 0) << op.kind;
      EXPECT_LE(step.share_before, 1) << op.kind;
      if (i > 0 && op.inner_steps[i - 1].pass == step.pass) {
        EXPECT_GT(step.share_before, op.inner_steps[i - 1].share_before) << op.kind;
      }
    }
  }
}

}  // namespace
}  // namespace pipesim
