#include "models/zoo/adapters.h"

#include "sim/base/errors.h"

namespace pipesim {

bool Adapters::has(LayerProduct product) const {
  const bool in_attention = product != LayerProduct::FeedForward;
  if (!any()) return false;
  if (targets == "all") return true;
  if (targets == "attention") return in_attention;
  if (targets == "feed-forward") return !in_attention;
  if (targets == "query+value") return product == LayerProduct::Query || product == LayerProduct::Value;
  throw InternalError("lora_targets=" + targets + " has no meaning");
}

Adapters adapters(const ZooValues& values) {
  if (!values.has("lora")) return {};
  Adapters adapters{values.integer("lora"), values.word("lora_targets"), values.word("base"),
                    values.word("base_inputs") == "kept", values.real("lora_dropout")};
  if (!adapters.any() && adapters.storage != "own")
    values.fail("base=" + adapters.storage + " is of frozen weights, which need lora=1 or more");
  if (adapters.keeps_inputs && adapters.storage != "4bit") values.fail("base_inputs=kept needs base=4bit");
  if (!adapters.any() && adapters.targets != "all")
    values.fail("lora_targets=" + adapters.targets + " needs lora=1 or more");
  if (!adapters.any() && adapters.dropout > 0) values.fail("lora_dropout needs lora=1 or more");
  return adapters;
}

ZooOptions adapter_options() {
  return {
      ZooOption::integer(
          "lora", 0, 0, 1 << 12,
          "rank of the adapters that LoRA trains, the only weights that are trained then; 0: no "
          "adapters, all weights are trained"),
      ZooOption::word("lora_targets", {"all", "attention", "feed-forward", "query+value"}, "all",
                      "products of layers that get adapters; experts and routers never do"),
      ZooOption::real("lora_dropout", 0, 0, 0.99,
                      "rate of the dropout before each adapter; 0: none, the adapter reads what its product "
                      "reads"),
      ZooOption::word(
          "base", {"own", "8bit", "4bit"}, "own",
          "how the frozen weights of layers' products lie in memory: in dtype; in 8 bits; or in 4 "
          "bits with scales, 4.127 bits in all, as QLoRA's NF4. Other weights stay in dtype"),
      // bitsandbytes/autograd/_functions.py, MatMul4Bit.forward(), until its commit 9e75374.
      ZooOption::word(
          "base_inputs", {"freed", "kept"}, "freed",
          "what becomes of the inputs of products with weights in 4 bits, which backward does not "
          "need: bitsandbytes kept them up to 0.43.1")};
}

}  // namespace pipesim
