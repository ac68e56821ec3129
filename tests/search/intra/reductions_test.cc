#include "search/intra/reductions.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <string>

#include "search/intra/core.h"
#include "sim/base/errors.h"
#include "tests/search/intra/random_instance.h"
#include "tests/seeds.h"
#include "tests/slow_test.h"

namespace pipesim {
namespace {

// The cheapest restored answer of all choices of what is left. Its cost must be what the model says.
std::optional<WideCost> least_of_model(const IntraInstance& instance, const IntraModel& model) {
  if (model.infeasible) return std::nullopt;
  const IntraCore core(model);
  std::optional<WideCost> least;
  std::vector<std::uint32_t> choice(core.nodes.size(), 0);
  for (bool more = true; more;) {
    std::vector<double> used(core.rows(), 0);
    for (std::uint32_t i = 0; i < choice.size(); ++i) core.add_usage(i, choice[i], 1, used);
    const double cost = core.cost(choice) + core.constant;
    if (cost < kNever && core.overuse(used) <= 0) {
      IntraAnswer answer(instance.nodes.size(), 0);
      core.put(choice, answer);
      model.restore(answer);
      const CheckedAnswer checked = check_answer(instance, answer);
      EXPECT_EQ(checked.broken, "");
      EXPECT_EQ(static_cast<double>(checked.cost), cost);
      if (!least || checked.cost < *least) least = checked.cost;
    }
    more = false;
    for (std::size_t i = 0; i < choice.size() && !more; ++i) {
      more = ++choice[i] < core.nodes[i].size;
      if (!more) choice[i] = 0;
    }
  }
  return least;
}

struct ReductionCase {
  const char* name;
  IntraReductions reductions;
};

class EachReduction : public testing::TestWithParam<ReductionCase> {};

SLOW_TEST_P(EachReduction, KeepsTheOptimum) {
  std::size_t reduced = 0;
  for_each_seed(1000, [&](Rng& rng) {
    const IntraInstance instance = random_instance(rng, 6, 4);
    const std::optional<WideCost> least = least_cost(instance);
    try {
      IntraModel model(instance);
      reduce(model, GetParam().reductions);
      EXPECT_EQ(least_of_model(instance, model), least);
      std::size_t left = 0;
      for (const IntraModel::Node& node : model.nodes) left += node.left ? node.cost.size() : 0;
      std::size_t before = 0;
      for (const IntraInstance::Node& node : instance.nodes) before += node.cost.size();
      reduced += left < before ? 1 : 0;
    } catch (const InputError&) {
      EXPECT_EQ(least, std::nullopt);
    }
  });
  if (std::getenv("PIPESIM_TEST_SEED") == nullptr) {
    EXPECT_GT(reduced, sanitized ? 5U : 20U) << "it was hardly looked at";
  }
}

constexpr ReductionCase kReductionCases[] = {
    {"Supports", {true, false, false, false, false}},
    {"Dominated", {false, true, false, false, false}},
    {"Determined", {false, false, true, false, false}},
    {"DegreeTwo", {false, false, false, true, false}},
    {"RowsAndDegreeTwo", {false, false, false, true, true}},
    {"All", {}},
};

INSTANTIATE_TEST_SUITE_P(Intra, EachReduction, testing::ValuesIn(kReductionCases),
                         [](const auto& tested) { return std::string(tested.param.name); });

// A node between others without usage leaves an edge; here all vanish.
TEST(IntraReductions, SolveAChain) {
  IntraInstance instance;
  for (int i = 0; i < 5; ++i) instance.nodes.push_back({0, 0, {1, 3, 2}, {0, 0, 0}});
  for (std::uint32_t i = 0; i < 4; ++i) instance.edges.push_back({i, i + 1, {9, 0, 9, 9, 9, 0, 0, 9, 9}});
  IntraModel model(instance);
  reduce(model);
  EXPECT_EQ(IntraCore(model).nodes.size(), 0U);
  EXPECT_EQ(least_of_model(instance, model), least_cost(instance));
}

TEST(IntraReductions, NameTheTimeThatNothingFits) {
  IntraInstance instance;
  instance.nodes = {{0, 4, {0, 0}, {5, 7}}, {2, 6, {0}, {6}}};
  instance.limit = 8;
  try {
    const IntraModel model(instance);
    FAIL() << "it was accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "at time 2 the usage is at least 11, 3 over the limit 8, whatever is chosen");
  }
}

}  // namespace
}  // namespace pipesim
