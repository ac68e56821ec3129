#include "models/zoo/definition.h"

namespace pipesim {

namespace {

constexpr double kLargestBase = 1e12, kLargestFactor = 1e4;

ZooOption base_option(double value) {
  return ZooOption::real("rotary_base", value, 1, kLargestBase,
                         "base of the wavelengths of rotary positions; for exports");
}

ZooOption epsilon_option(double value) {
  return ZooOption::real("norm_epsilon", value, 0, 1, "what norms add to a variance; for exports");
}

ZooOption deviation_option(double value) {
  return ZooOption::real("init_deviation", value, 0, 1,
                         "standard deviation of weights at the start; for exports");
}

ZooOption partial_option() {
  return ZooOption::word(
      "partial", {"no", "yes"}, "no",
      "yes: a config.json asks for more than the model has, as import model lists; exports "
      "refuse it");
}

}  // namespace

const std::vector<std::string>& rotary_scalings() {
  static const std::vector<std::string> all{"none", "linear", "llama3", "yarn"};
  return all;
}

ZooOptions definition_options(const DecoderDefinition& d) {
  return {
      base_option(d.rotary_base),
      ZooOption::word("rotary_scaling", rotary_scalings(), d.rotary_scaling,
                      "how rotary positions are stretched; for exports"),
      ZooOption::real("rotary_factor", d.rotary_factor, 1, kLargestFactor,
                      "how far they are stretched, where they are"),
      ZooOption::integer("rotary_original", d.rotary_original, 1, 1 << 24,
                         "positions before they are stretched by llama3 or yarn"),
      ZooOption::real("rotary_low", d.rotary_low, 0, kLargestFactor,
                      "low_freq_factor of llama3, beta_slow of yarn"),
      ZooOption::real("rotary_high", d.rotary_high, 0, kLargestFactor,
                      "high_freq_factor of llama3, beta_fast of yarn"),
      ZooOption::real("rotary_mscale", d.rotary_mscale, 0, kLargestFactor, "mscale of yarn"),
      ZooOption::real("rotary_mscale_all", d.rotary_mscale_all, 0, kLargestFactor, "mscale_all_dim of yarn"),
      epsilon_option(d.norm_epsilon),
      deviation_option(d.init_deviation),
      partial_option()};
}

ZooOptions plain_definition_options() {
  const DecoderDefinition usual;
  return {base_option(usual.rotary_base), epsilon_option(usual.norm_epsilon),
          deviation_option(usual.init_deviation), partial_option()};
}

ZooOption expert_shares_option() {
  return ZooOption::word(
      "expert_shares", {"chosen", "all"}, "chosen",
      "whether the weights of a token's experts are shares of the chosen ones' scores, or of "
      "all; for exports");
}

ZooOption balance_loss_option(double value) {
  return ZooOption::real("balance_loss", value, 0, 1e3,
                         "weight of the loss that balances the load of experts; for exports");
}

}  // namespace pipesim
