// Products of transformers' shapes, on each kind and in each type, against what was measured: of the 185
// shapes of at least 0.03 TFLOP in aiconfigurator's tables, every 23rd by size, each the median of the
// kernels that vLLM, SGLang and TensorRT-LLM call (ai-dynamo/aiconfigurator, src/aiconfigurator/systems/data,
// Apache-2.0). Blocks of 128 are left out on Blackwell: Transformer Engine multiplies them as MXFP8 there,
// these kernels don't.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/shard_kernel.h"
#include "models/precision.h"
#include "sim/base/files.h"
#include "topologies/device_kinds.h"

namespace pipesim {
namespace {

struct MeasuredProduct {
  std::string device, products;
  MatrixSize size;
  double seconds = 0;
};

std::vector<MeasuredProduct> measured_products() {
  std::istringstream lines(read_file(PIPESIM_SOURCE_DIR "/tests/costmodel/fixtures/products.csv"));
  std::string line;
  std::getline(lines, line);
  std::vector<MeasuredProduct> all;
  while (std::getline(lines, line)) {
    std::ranges::replace(line, ',', ' ');
    std::istringstream cells(line);
    MeasuredProduct p;
    double micros = 0;
    cells >> p.device >> p.products >> p.size.rows >> p.size.columns >> p.size.inner >> micros;
    p.seconds = micros * 1e-6;
    all.push_back(p);
  }
  return all;
}

// The tables are of short runs.
DeviceKind in_short_runs(const std::string& name) {
  DeviceKind kind = *find_built_in_device_kind(name);
  kind.products.sustained = 1;
  for (auto& [type, rate] : kind.product_rates) rate.sustained = 1;
  return kind;
}

double predicted(const MeasuredProduct& p) {
  const Precision* const precision = find_precision(p.products);
  const DataType type = precision ? precision->type : DataType::BFloat16;
  const auto m = static_cast<double>(p.size.rows), n = static_cast<double>(p.size.columns),
             k = static_cast<double>(p.size.inner);
  const double operand = precision ? (precision->written / 2) : 2;
  KernelWork work;
  work.flops = 2 * m * n * k;
  work.bytes = (m + n) * k * operand + m * n * 2;
  work.matrix = p.size;
  return analytic_time(work, type, in_short_runs(p.device)).value;
}

TEST(MeasuredProducts, TakeAboutAsLongAsPredicted) {
  std::map<std::pair<std::string, std::string>, std::vector<double>> ratios;
  for (const MeasuredProduct& p : measured_products())
    ratios[{p.device, p.products}].push_back(predicted(p) / p.seconds);
  EXPECT_EQ(ratios.size(), 18U);
  for (auto& [what, all] : ratios) {
    ASSERT_EQ(all.size(), 9U);
    std::ranges::sort(all);
    double error = 0;
    for (const double ratio : all) error += std::abs(ratio - 1) / static_cast<double>(all.size());
    // Small products in 8 and 4 bits take twice as long as their rates say.
    EXPECT_LE(error, what.second == "bfloat16" ? 0.16 : 0.27) << what.first << " " << what.second;
    EXPECT_THAT(all[all.size() / 2], testing::AllOf(testing::Ge(0.8), testing::Le(1.15)))
        << what.first << " " << what.second;
  }
}

}  // namespace
}  // namespace pipesim
