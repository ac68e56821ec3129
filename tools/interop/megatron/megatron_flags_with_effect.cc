#include <array>

#include "tools/interop/megatron/megatron_flag_rows.h"

namespace pipesim {
namespace {

constexpr std::array kRowsWithEffect = std::to_array<FlagRow>({
    // Read.
    {"--DDP-impl --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split "
     "--accumulate-allreduce-grads-in-fp32 --add-qkv-bias --attention-backend --attention-dropout "
     "--bert-no-binary-head --bf16 --context-parallel-size --cp-comm-type --cuda-graph-impl "
     "--cuda-graph-modules --cuda-graph-scope --data-parallel-sharding-strategy "
     "--decoder-first-pipeline-num-layers --decoder-last-pipeline-num-layers --decoder-num-layers "
     "--decoder-seq-length --deepspeed --deepspeed-config --disable-bias-linear --ds-sequence-parallel-size "
     "--embed-layernorm --enable-cuda-graph --enable-expert-tensor-parallelism --encoder-num-layers "
     "--encoder-seq-length --external-cuda-graph "
     "--exp-avg-dtype --exp-avg-sq-dtype --expert-interval --expert-model-parallel-size "
     "--expert-tensor-parallel-size --ffn-hidden-size --fp16 "
     "--first-last-layers-bf16 --fp4-format --fp4-recipe --fp8-format --fp8-recipe --gas --gated-linear-unit "
     "--global-batch-size --glu-activation "
     "--grad-reduce-in-bf16 "
     "--group-query-attention --hidden-dropout --hidden-size --hierarchical-context-parallel-sizes "
     "--kv-channels "
     "--kv-lora-rank --main-grads-dtype --main-params-dtype --make-vocab-size-divisible-by "
     "--max-position-embeddings --micro-batch-size "
     "--microbatch-group-size-per-virtual-pipeline-stage "
     "--moe-deepep-num-sms --moe-enable-deepep --moe-flex-dispatcher-backend --moe-flex-dispatcher-num-sms "
     "--moe-hybridep-num-sms "
     "--moe-expert-capacity-factor --moe-ffn-hidden-size --moe-layer-freq --moe-router-topk "
     "--moe-shared-expert-gate --moe-shared-expert-intermediate-size --moe-token-dispatcher-type "
     "--mtp-num-layers --multi-latent-attention --nnodes --no-bias-swiglu-fusion "
     "--no-gradient-accumulation-fusion --no-overlap-p2p-communication --no-pipeline-parallel "
     "--no-position-embedding --normalization "
     "--nproc-per-node --num-attention-heads --num-distributed-optimizer-instances --num-experts --num-gpus "
     "--num-layers --num-layers-at-end-in-bf16 --num-layers-at-start-in-bf16 "
     "--num-layers-per-virtual-pipeline-stage --num-nodes --num-query-groups "
     "--num-virtual-stages-per-pipeline-rank --optimizer --overlap-grad-reduce "
     "--overlap-moe-expert-parallel-comm --overlap-param-gather "
     "--padded-vocab-size --pipeline-model-parallel-layout --pipeline-model-parallel-size "
     "--position-embedding-type --pp-partition-method --q-lora-rank --qk-head-dim --qk-layernorm "
     "--qk-pos-emb-head-dim --quick-geglu --recompute-activations --recompute-granularity --recompute-method "
     "--recompute-modules --recompute-num-layers --seq-length --sequence-parallel --sgd-momentum --swiglu "
     "--tensor-model-parallel-size --tokenizer-model --tokenizer-name-or-path --tokenizer-type "
     "--tp-comm-overlap "
     "--transformer-impl --untie-embeddings-and-output-weights --use-distributed-optimizer --use-flash-attn "
     "--use-flash-attn-builder --use-flash-attn-triton --use-flash-attn-v1 --use-flash-attn-v2 "
     "--use-megatron-fsdp --use-precision-aware-optimizer --use-rotary-position-embeddings --use-torch-fsdp2 "
     "--use-tp-pp-dp-mapping "
     "--v-head-dim "
     "--vocab-file --vocab-size --zero-stage ",
     FlagEffect::Used, "", ""},
    // Told, since a plan goes without.
    {"--ep-overlap-early-attn-memory-release --overlap-dispatch-backward-with-experts-wgrad",
     FlagEffect::NotModelled, "tokens come back before gradients of experts are made", ""},
    {"--delay-wgrad-compute", FlagEffect::NotModelled, "gradients of weights are made with those of inputs",
     ""},
    {"--defer-embedding-wgrad-compute --wgrad-deferral-limit", FlagEffect::NotModelled,
     "gradients of the projection are made with the others", ""},
    {"--moe-shared-expert-overlap", FlagEffect::NotModelled, "shared experts are computed in turn", ""},
    {"--cross-entropy-fusion-impl --cross-entropy-loss-fusion", FlagEffect::NotModelled,
     "the loss is a kernel of its own", ""},
    {"--use-bnb-optimizer", FlagEffect::NotModelled, "the optimizer's state is in float32", ""},
    {"--megatron-fsdp-grad-comm-dtype "
     "--megatron-fsdp-main-grads-dtype --megatron-fsdp-main-params-dtype",
     FlagEffect::NotModelled, "the optimizer's state is in float32", "fp32 float32"},
    {"--activation-offload-fraction --checkpoint-in-cpu --delay-offload-until-cuda-graph "
     "--delta-offload-bytes-across-pp-ranks --fine-grained-activation-offloading "
     "--fine-grained-offloading-max-inflight-offloads --min-offloaded-tensor-size --offload-modules",
     FlagEffect::NotModelled, "activations stay on their device", ""},
    {"--optimizer-cuda-graph", FlagEffect::NotModelled, "kernels of the optimizer are started one by one",
     ""},
    {"--use-tutel", FlagEffect::NotModelled, "tokens are permuted by usual kernels", ""},
    {"--moe-permute-fusion-into-hybridep --moe-router-fusion --moe-single-grouped-bias "
     "--moe-single-grouped-weight --moe-use-grouped-tensor --moe-use-legacy-grouped-gemm "
     "--use-grouped-gemm-for-dense-mlp --use-grouped-gemm-for-shared-expert",
     FlagEffect::NotModelled, "experts are taken with usual kernels", ""},
    {"--moe-paged-stash", FlagEffect::NotModelled, "what experts keep stays where it is made", ""},
    {"--moe-layer-recompute", FlagEffect::NotModelled, "experts are kept unless all is computed again", ""},
    {"--distribute-checkpointed-activations --distribute-saved-activations --partition-activations",
     FlagEffect::NotModelled, "the kept inputs of layers are whole on each device of tp", ""},
    {"--decrease-batch-size-if-needed --rampup-batch-size --step-batch-size-schedule",
     FlagEffect::NotModelled, "the batch is that of --global-batch-size from the start", ""},
    {"--lora-alpha --lora-dim --lora-dropout --lora-rank --lora-target-modules --peft",
     FlagEffect::NotModelled, "all weights are trained, without adapters", ""},
    {"--bitfit --freeze-all-layers --split-transformers", FlagEffect::NotModelled, "all weights are trained",
     ""},
    {"--dataloader-inter-document-masking --rl-use-sequence-packing --sft --use-packed-sequence "
     "--variable-seq-lengths",
     FlagEffect::NotModelled, "samples are --seq-length tokens of one document", ""},
    {"--reset-attention-mask", FlagEffect::NotModelled, "attention goes over whole samples", ""},
    {"--curriculum-learning --data-efficiency-curriculum-learning --random-ltd", FlagEffect::NotModelled,
     "all tokens of all samples pass all layers", ""},
    {"--disable-jit-fuser --disable-mem-efficient-ln --no-bias-dropout-fusion --no-bias-gelu-fusion "
     "--no-masked-softmax-fusion --no-persist-layer-norm "
     "--no-scaled-masked-softmax-fusion",
     FlagEffect::NotModelled, "kernels are fused as usual", ""},
    {"--apply-rope-fusion --bias-activation-fusion --bias-dropout-fusion --fused-residual-rmsnorm "
     "--fused-single-qkv-rope --mla-down-proj-fusion --use-fused-weighted-squared-relu "
     "--use-te-activation-func "
     "--use-transformer-engine-op-fuser",
     FlagEffect::NotModelled, "kernels are no more fused than usual", ""},
    {"--fp32-residual-connection", FlagEffect::NotModelled, "the sums of layers are in the model's type", ""},
    {"--embedding-weights-in-fp32", FlagEffect::NotModelled, "the embedding is in the model's type", ""},
    {"--fp16-lm-cross-entropy", FlagEffect::NotModelled, "the loss is in float32", ""},
    {"--fp4-param-gather --fp8-param-gather --keep-fp8-transpose-cache "
     "--keep-fp8-transpose-cache-when-using-custom-fsdp "
     "--reuse-grad-buf-for-mxfp8-param-ag",
     FlagEffect::NotModelled, "weights are kept and gathered in the model's type", ""},
    {"--fp8-dot-product-attention --fp8-multi-head-attention --fp8-output-proj", FlagEffect::NotModelled,
     "attention is in the model's type", ""},
    {"--fp8-quantizer-factory --kitchen-config-file --kitchen-recipe-number --quant-recipe "
     "--te-precision-config-file --use-kitchen",
     FlagEffect::NotModelled, "all layers multiply in the same type", ""},
    {"--overlap-param-gather-with-optimizer-step", FlagEffect::NotModelled,
     "weights are gathered when all are updated", ""},
    {"--batch-p2p-comm --delay-param-gather --disable-align-grad-reduce "
     "--no-align-grad-reduce --no-align-param-gather "
     "--no-batch-p2p-comm --no-delay-grad-reduce --overlap-p2p-comm-warmup-flush "
     "--overlap-p2p-communication-warmup-flush",
     FlagEffect::NotModelled, "stages run as by default", ""},
    {"--enable-zbh1-exact-semantics --enable-zbh1-pipeline", FlagEffect::NotModelled, "stages run 1f1b", ""},
    {"--no-scatter-gather-tensors-in-pipeline --scatter-gather-tensors-in-pipeline", FlagEffect::NotModelled,
     "tensors go between stages as by default", ""},
    {"--num-microbatches-with-partial-activation-checkpoints", FlagEffect::NotModelled,
     "all microbatches are computed again alike", ""},
    {"--bucket-size --ddp-bucket-size --ddp-num-buckets --zero-allgather-bucket-size "
     "--zero-reduce-bucket-size",
     FlagEffect::NotModelled, "buckets are those of the runtime", ""},
    {"--create-all-gather-group --fsdp-double-buffer --high-priority-a2a-comm-stream "
     "--high-priority-stream-groups --nccl-communicator-config-path --nccl-ub "
     "--pipeline-model-parallel-comm-backend --sharp-enabled-group --suggested-communication-unit-size "
     "--symmetric-ar-type --use-nccl-ub --use-ring-exchange-p2p --use-sharp",
     FlagEffect::NotModelled, "transfers are those of NCCL as it comes", ""},
    {"--enable-full-sharding-in-hsdp --megatron-fsdp-enable-fine-grained-param-gather "
     "--megatron-fsdp-max-pool-double-buffer --megatron-fsdp-use-decoupled-grad --megatron-fsdp-version "
     "--outer-dp-sharding-strategy",
     FlagEffect::NotModelled, "state is sharded as by the first version of its FSDP", "1 no_shard"},
    {"--disable-tp-comm-bulk-dgrad --disable-tp-comm-bulk-wgrad --disable-tp-comm-overlap-ag "
     "--disable-tp-comm-overlap-rs --disable-tp-comm-split-ag --disable-tp-comm-split-rs "
     "--no-tp-comm-bulk-dgrad "
     "--no-tp-comm-bulk-wgrad --no-tp-comm-overlap-ag --no-tp-comm-overlap-rs --no-tp-comm-split-ag "
     "--no-tp-comm-split-rs --tp-comm-atomic-ag --tp-comm-atomic-rs --tp-comm-overlap-cfg "
     "--tp-comm-overlap-disable-fc1 --tp-comm-overlap-disable-qkv --tp-comm-overlap-rs-dgrad",
     FlagEffect::NotModelled, "products and transfers overlap as by default", ""},
    {"--disable-async-tensor-model-parallel-allreduce --no-async-tensor-model-parallel-allreduce",
     FlagEffect::NotModelled, "all-reduces of tp are as by default", ""},
    {"--empty-unused-memory-level", FlagEffect::NotModelled, "the allocator keeps what it has", ""},
    {"--batch-invariant-mode --deterministic-mode", FlagEffect::NotModelled, "kernels are the fastest", ""},
    {"--barrier-with-L1-time --synchronize-each-layer", FlagEffect::NotModelled, "hosts run ahead of devices",
     ""},
    {"--memory-centric-tiled-linear --mlp-chunks-for-training", FlagEffect::NotModelled, "products are whole",
     ""},
    {"--moe-expert-rank-capacity-factor", FlagEffect::NotModelled, "each expert takes its tokens", ""},
    {"--moe-combine-bwd-dtype --moe-dispatch-fwd-dtype", FlagEffect::NotModelled,
     "tokens go to experts in the model's type", ""},
    {"--ddp-reduce-scatter-with-fp32-accumulation --reduce-scatter-with-fp32-accumulation",
     FlagEffect::NotModelled, "gradients are reduced in their own type", ""},
    {"--spec", FlagEffect::NotModelled, "layers are the usual ones", ""},
    {"--export-kd-teacher-load --kd --load-teacher --mos", FlagEffect::NotModelled,
     "the teacher beside the model is missing", ""},
    {"--perform-rl-step", FlagEffect::NotModelled,
     "answers are there: what makes them is no part of the iteration", ""},
    {"--squared-relu", FlagEffect::NotModelled, "the feed-forward part is taken with GELU", ""},
    {"--softmax-type", FlagEffect::NotModelled, "the softmax has no sink", "vanilla"},
    {"--no-rope-freq", FlagEffect::NotModelled, "all layers rotate queries and keys", ""},
    {"--qk-clip --qk-l2-norm", FlagEffect::NotModelled, "queries and keys are not scaled", ""},
    {"--use-layer-wise-distributed-optimizer", FlagEffect::NotModelled,
     "state is sharded as by --use-distributed-optimizer", ""},
    {"--optimizer-overlap --overlap-cpu-optimizer-d2h-h2d", FlagEffect::NotModelled,
     "the optimizer waits for all gradients", ""},
    {"--check-weight-hash-across-dp-replicas-interval --inprocess-restart --log-energy "
     "--log-max-attention-logit "
     "--profile-backward --rerun-mode",
     FlagEffect::NotModelled, "checks and logs take no time", "disabled validate_results"},
    {"--ds-sequence-parallel-fpdt --ds-sequence-parallel-fpdt-offloading", FlagEffect::NotModelled,
     "sequences are not computed in chunks", ""},
    // Refused.
    {"--fp4-quantizer-factory", FlagEffect::Refused, "4-bit types of one's own code", ""},
    {"--hybrid-attention-ratio --hybrid-layer-pattern --hybrid-mlp-ratio --hybrid-override-pattern "
     "--is-hybrid-model --linear-attention-freq",
     FlagEffect::Refused, "hybrid models", ""},
    {"--experimental-attention-variant", FlagEffect::Refused, "attention of another kind", ""},
    {"--heterogeneous-block-specs --heterogeneous-layers-config-encoded-json "
     "--heterogeneous-layers-config-path",
     FlagEffect::Refused, "layers that differ", ""},
    {"--window-size", FlagEffect::NotModelled, "attention is not limited to a window", ""},
    {"--cpu-offloading --cpu-offloading-num-layers", FlagEffect::NotModelled,
     "activations stay on the devices", ""},
    {"--cpu-optimizer --optimizer-cpu-offload", FlagEffect::NotModelled,
     "the optimizer's state stays on the devices, and so does its update", ""},
    {"--remote-device", FlagEffect::NotModelled, "weights stay on the devices", ""},
    {"--attention-output-gate", FlagEffect::Refused, "attention whose results are gated", ""},
    {"--enable-mhc-connections", FlagEffect::Refused, "several residual streams", ""},
    {"--moe-latent-size", FlagEffect::Refused, "experts narrower than the model", ""},
    {"--moe-extended-tp", FlagEffect::Refused, "experts split over tp and ep at once", ""},
    {"--mlp-type", FlagEffect::Refused, "experts beside a dense feed-forward part", "standard"},
    {"--expert-gtp-weight-remat-size --expert-tensor-parallel-num-weight-shards --gtp-weight-remat-size "
     "--tensor-parallel-num-weight-shards",
     FlagEffect::Refused, "weights sharded within tp", "1"},
    {"--hybrid-context-parallel", FlagEffect::Refused, "context parallelism of a degree by sample", ""},
    {"--encoder-pipeline-model-parallel-size --encoder-tensor-model-parallel-size "
     "--pipeline-model-parallel-split-rank",
     FlagEffect::Refused, "encoders and decoders on different devices", ""},
    {"--standalone-embedding-stage", FlagEffect::Refused, "a stage of the embedding alone", ""},
    {"--retro-add-retriever --retro-tasks", FlagEffect::Refused, "retrieval", ""},
    {"--num-tokens-to-generate --prompt-file --prompts", FlagEffect::Refused, "inference", ""},
    {"--disable-vision-class-token --img-embedding-idx --language-model-type --model-provider "
     "--vision-model-type",
     FlagEffect::Refused, "models of images and text", ""},
    {"--yaml-cfg", FlagEffect::Refused, "sizes in a further file", ""},
});

}  // namespace

std::span<const FlagRow> flags_with_effect() { return kRowsWithEffect; }

}  // namespace pipesim
