#include "models/zoo/zoo.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "models/zoo/families.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {

namespace {

std::vector<ZooModel> all_families() {
  std::vector<ZooModel> models;
  for (auto family :
       {plain_models, resnet_models,   inception_models, densenet_models, amoebanet_models, recurrent_models,
        gnmt_models,  bert_models,     xlnet_models,     t5_models,       whisper_models,   gpt_models,
        llama_models, experts_models,  deepseek_models,  decoder_models,  mamba_models,     vision_models,
        swin_models,  stitched_models, unet_models,      dit_models,      dlrm_models}) {
    std::vector<ZooModel> members = family();
    for (ZooModel& model : members) models.push_back(std::move(model));
  }
  return models;
}

const ZooModel* find(std::string_view name) {
  const auto models = zoo_models();
  const auto found =
      std::find_if(models.begin(), models.end(), [&](const ZooModel& m) { return m.name == name; });
  return found == models.end() ? nullptr : &*found;
}

const ZooModel& model_named(std::string_view name) {
  if (const ZooModel* model = find(name)) return *model;
  std::vector<std::string> names;
  for (const ZooModel& model : zoo_models()) names.push_back(model.name);
  throw InputError(fmt::format("unknown model \"{}\"{}; the zoo has {}", name, did_you_mean(name, names),
                               list_names(names, names.size())));
}

/// Sizes that pass one by one may still not fit together; what an operator says of it lacks the model's name.
OperatorGraph build(const ZooModel& model, const ZooValues& values) {
  try {
    return model.build(values);
  } catch (const InputError& error) {
    if (std::string_view(error.what()).starts_with("model \"")) throw;
    values.fail(error.what());
  }
}

std::string_view name_part(std::string_view text) { return text.substr(0, text.find(':')); }

}  // namespace

std::span<const ZooModel> zoo_models() {
  static const std::vector<ZooModel> models = all_families();
  return models;
}

bool names_zoo_model(std::string_view text) { return find(name_part(text)) != nullptr; }

OperatorGraph make_zoo_model(std::string_view text) {
  const std::string_view name = name_part(text);
  const ZooModel& model = model_named(name);
  if (text.ends_with(':')) {
    throw InputError(fmt::format("model \"{}\": expected key=value after the colon", text));
  }
  const std::string_view assignments = name.size() < text.size() ? text.substr(name.size() + 1) : "";
  return build(model, ZooValues(model.name, model.options, assignments));
}

std::string zoo_listing() {
  std::string text;
  for (const ZooModel& model : zoo_models())
    text += fmt::format("{:<17} {}\n", model.name, model.description);
  return text;
}

std::string zoo_description(std::string_view name) {
  const ZooModel& model = model_named(name);
  std::string text =
      fmt::format("{}: {}\nSource: {}\nOptions:\n", model.name, model.description, model.source);
  for (const ZooOption& option : model.options) {
    text += fmt::format("  {:<22} {}; {}\n", fmt::format("{}={}", option.key, option.default_value),
                        option.help, option.allowed());
  }
  return text;
}

}  // namespace pipesim
