#include "executor/cpu/kernels/kernel.h"

#include <gmock/gmock.h>

#include <set>

#include "models/operator_kind.h"
#include "tests/models/samples.h"
#include "tests/refusal.h"

namespace pipesim::cpu {
namespace {

TEST(Kernels, ExistForEveryKindOfWhichMoreThanItsTimeIsKnown) {
  std::vector<std::string_view> expected;
  for (const OperatorKind& kind : operator_kinds()) {
    if (kind.name != "profiled" && kind.name != "opaque") expected.emplace_back(kind.name);
  }
  EXPECT_EQ(kernel_kinds(), expected);
  EXPECT_EQ(find_kernel("profiled"), nullptr);
  EXPECT_EQ(find_kernel("zzz"), nullptr);
}

TEST(Kernels, SaveNoMoreThanTheirOperatorsSay) {
  for (const Operator& op : operators_of_all_kinds()) {
    const Kernel* kernel = find_kernel(op.kind);
    if (kernel == nullptr) continue;
    const std::vector<Range> ranges = whole_ranges(op);
    EXPECT_LE(static_cast<double>(kernel->saved_bytes(op, ranges)), evaluate(op.saved_extra_bytes, ranges))
        << op.kind;
  }
}

TEST(Kernels, RefuseAPassThatTheyDoNotHave) {
  Bench bench;
  const Operator op = bench.op("relu", {bench.x({4, 6})});
  const StepContext step;
  const ShardCall call{op, {}, {}, {}, {}, {}, step};
  EXPECT_EQ(refusal<InternalError>([&] { find_kernel("relu")->backward_weight(call); }),
            "kind relu has no backward pass for its weights (this is a bug in pipesim, please report it)");
}

}  // namespace
}  // namespace pipesim::cpu
