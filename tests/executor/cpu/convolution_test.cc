#include "executor/cpu/kernels/images/convolution.h"

#include <gmock/gmock.h>

#include <vector>

#include "tests/refusal.h"

namespace pipesim::cpu {
namespace {

using testing::ElementsAre;

/// One row of 4 pixels under a kernel of 3, stride 1.
Convolution row_of_four(std::int64_t pad_low, std::int64_t pad_high) {
  Convolution c;
  c.samples = c.in = c.out = 1;
  c.image = {1, 4};
  c.kernel = {1, 3};
  c.stride = c.dilation = {1, 1};
  c.pad_low = {0, pad_low};
  c.pad_high = {0, pad_high};
  c.result = {1, 2 + pad_low + pad_high};
  return c;
}

TEST(Convolution, PadsEitherEndByItself) {
  const float x[] = {1, 2, 3, 4}, w[] = {1, 10, 100};
  std::vector<float> y(3);
  convolve(row_of_four(1, 0), x, w, y.data(), "conv");
  EXPECT_THAT(y, ElementsAre(210, 321, 432));
  convolve(row_of_four(0, 1), x, w, y.data(), "conv");
  EXPECT_THAT(y, ElementsAre(321, 432, 43));
}

TEST(Convolution, SendsGradientsBack) {
  const float x[] = {1, 2, 3, 4}, w[] = {1, 10, 100}, dy[] = {1, 0, 2};
  std::vector<float> dx(4), dw(3);
  convolve_for_input(row_of_four(1, 0), dy, w, dx.data(), "conv");
  EXPECT_THAT(dx, ElementsAre(10, 102, 20, 200));
  convolve_for_weight(row_of_four(1, 0), x, dy, dw.data(), "conv");
  EXPECT_THAT(dw, ElementsAre(4, 7, 10));
}

TEST(Convolution, SaysWhichOperatorFailed) {
  Convolution c = row_of_four(0, 0);
  c.result = {1, 3};
  EXPECT_EQ(refusal<DeviceError>([&] { convolve(c, nullptr, nullptr, nullptr, "conv1"); }),
            "operator \"conv1\": oneDNN can't convolve [1, 1, 1, 4] to [1, 1, 1, 3]: could not create a "
            "descriptor for a dilated convolution forward propagation primitive");
}

}  // namespace
}  // namespace pipesim::cpu
