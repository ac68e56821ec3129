#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "models/hugging_face.h"
#include "models/zoo/zoo.h"

namespace pipesim {
namespace {

// What published config.json files say of a model's layers, and how many parameters its authors or the files
// with its weights name. "parameters" is what the read model has: layers for further tokens are left out, and
// vision towers are parts of it.
TEST(PublishedConfigs, AreReadWithTheirParameters) {
  const JsonValue models = JsonDocument::load(std::string(PIPESIM_SOURCE_DIR) +
                                              "/tests/models/hugging_face/published_models.json");
  constexpr double kRounding = 0.005;
  std::size_t read = 0;
  for (const JsonValue& model : models.items()) {
    SCOPED_TRACE(model.at("name").string());
    const HuggingFaceModel text = hugging_face_model(model.at("config"));
    const std::int64_t parameters = make_zoo_model(text.text).parameter_count();
    EXPECT_EQ(parameters, model.at("parameters").integer(1, std::int64_t{1} << 50)) << text.text;
    ++read;
    const auto published = model.find("published");
    if (!published) continue;
    const double named = published->number();
    EXPECT_LT(std::abs(static_cast<double>(parameters) - named) / named, kRounding) << parameters;
  }
  EXPECT_GT(read, 80U);
}

}  // namespace
}  // namespace pipesim
