#include "tools/interop/megatron/megatron_flags.h"

#include <algorithm>
#include <array>
#include <map>

namespace pipesim {
namespace {

// Names are those of NVIDIA/Megatron-LM, versions 2.0 to core 0.19, of
// bigscience-workshop/Megatron-DeepSpeed, of deepspeedai/Megatron-DeepSpeed, and of the programs that start
// them (torchrun, deepspeed).
struct FlagRow {
  std::string_view flags;  // several that mean the same here
  FlagEffect effect;
  std::string_view what, unless;
};

constexpr std::array kFlagRows = std::to_array<FlagRow>({
    // Read.
    {"--DDP-impl --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split "
     "--accumulate-allreduce-grads-in-fp32 --add-qkv-bias --attention-backend --attention-dropout "
     "--bert-no-binary-head --bf16 --context-parallel-size --cp-comm-type --data-parallel-sharding-strategy "
     "--decoder-first-pipeline-num-layers --decoder-last-pipeline-num-layers --decoder-num-layers "
     "--decoder-seq-length --deepspeed --deepspeed-config --disable-bias-linear --ds-sequence-parallel-size "
     "--embed-layernorm --enable-expert-tensor-parallelism --encoder-num-layers --encoder-seq-length "
     "--expert-interval --expert-model-parallel-size --expert-tensor-parallel-size --ffn-hidden-size --fp16 "
     "--fp8-format --gas --gated-linear-unit --global-batch-size --glu-activation --grad-reduce-in-bf16 "
     "--group-query-attention --hidden-dropout --hidden-size --hierarchical-context-parallel-sizes "
     "--kv-channels "
     "--kv-lora-rank --make-vocab-size-divisible-by --max-position-embeddings --micro-batch-size "
     "--microbatch-group-size-per-virtual-pipeline-stage "
     "--moe-expert-capacity-factor --moe-ffn-hidden-size --moe-layer-freq --moe-router-topk "
     "--moe-shared-expert-gate --moe-shared-expert-intermediate-size --moe-token-dispatcher-type "
     "--multi-latent-attention --nnodes "
     "--no-gradient-accumulation-fusion --no-overlap-p2p-communication --no-pipeline-parallel "
     "--no-position-embedding --normalization "
     "--nproc-per-node --num-attention-heads --num-distributed-optimizer-instances --num-experts --num-gpus "
     "--num-layers --num-layers-per-virtual-pipeline-stage --num-nodes --num-query-groups "
     "--num-virtual-stages-per-pipeline-rank --optimizer --overlap-grad-reduce --overlap-param-gather "
     "--padded-vocab-size --pipeline-model-parallel-layout --pipeline-model-parallel-size "
     "--position-embedding-type --pp-partition-method --q-lora-rank --qk-head-dim --qk-layernorm "
     "--qk-pos-emb-head-dim --quick-geglu --recompute-activations --recompute-granularity --recompute-method "
     "--recompute-modules --recompute-num-layers --seq-length --sequence-parallel --sgd-momentum --swiglu "
     "--tensor-model-parallel-size --tokenizer-model --tokenizer-name-or-path --tokenizer-type "
     "--tp-comm-overlap "
     "--transformer-impl --untie-embeddings-and-output-weights --use-distributed-optimizer --use-flash-attn "
     "--use-flash-attn-builder --use-flash-attn-triton --use-flash-attn-v1 --use-flash-attn-v2 "
     "--use-megatron-fsdp --use-rotary-position-embeddings --use-torch-fsdp2 --use-tp-pp-dp-mapping "
     "--v-head-dim "
     "--vocab-file --vocab-size --zero-stage ",
     FlagEffect::Used, "", ""},
    // Told, since a plan goes without.
    {"--overlap-moe-expert-parallel-comm", FlagEffect::NotModelled,
     "tokens on their way to experts wait for no other batch", ""},
    {"--ep-overlap-early-attn-memory-release --overlap-dispatch-backward-with-experts-wgrad",
     FlagEffect::NotModelled, "tokens come back before gradients of experts are made", ""},
    {"--delay-wgrad-compute", FlagEffect::NotModelled, "gradients of weights are made with those of inputs",
     ""},
    {"--defer-embedding-wgrad-compute --wgrad-deferral-limit", FlagEffect::NotModelled,
     "gradients of the projection are made with the others", ""},
    {"--moe-shared-expert-overlap", FlagEffect::NotModelled, "shared experts are computed in turn", ""},
    {"--cross-entropy-fusion-impl --cross-entropy-loss-fusion", FlagEffect::NotModelled,
     "the loss is a kernel of its own", ""},
    {"--use-bnb-optimizer --use-precision-aware-optimizer", FlagEffect::NotModelled,
     "the optimizer's state is in float32", ""},
    {"--exp-avg-dtype --exp-avg-sq-dtype --main-grads-dtype --main-params-dtype "
     "--megatron-fsdp-grad-comm-dtype "
     "--megatron-fsdp-main-grads-dtype --megatron-fsdp-main-params-dtype",
     FlagEffect::NotModelled, "the optimizer's state is in float32", "fp32 float32"},
    {"--activation-offload-fraction --checkpoint-in-cpu --delay-offload-until-cuda-graph "
     "--delta-offload-bytes-across-pp-ranks --fine-grained-activation-offloading "
     "--fine-grained-offloading-max-inflight-offloads --min-offloaded-tensor-size --offload-modules",
     FlagEffect::NotModelled, "activations stay on their device", ""},
    {"--cuda-graph-impl --cuda-graph-modules --cuda-graph-scope --enable-cuda-graph --external-cuda-graph "
     "--optimizer-cuda-graph",
     FlagEffect::NotModelled, "kernels are started one by one", ""},
    {"--moe-deepep-num-sms --moe-enable-deepep --moe-flex-dispatcher-backend --moe-flex-dispatcher-num-sms "
     "--moe-hybridep-num-sms",
     FlagEffect::NotModelled, "tokens are exchanged as by the dispatcher alltoall", ""},
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
     "--no-bias-swiglu-fusion --no-masked-softmax-fusion --no-persist-layer-norm "
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
    {"--fp8-param-gather --keep-fp8-transpose-cache --keep-fp8-transpose-cache-when-using-custom-fsdp "
     "--reuse-grad-buf-for-mxfp8-param-ag",
     FlagEffect::NotModelled, "weights are kept and gathered in the model's type", ""},
    {"--fp8-dot-product-attention --fp8-multi-head-attention --fp8-output-proj", FlagEffect::NotModelled,
     "attention is in the model's type", ""},
    {"--first-last-layers-bf16 --fp8-quantizer-factory --kitchen-config-file --kitchen-recipe-number "
     "--num-layers-at-end-in-bf16 --num-layers-at-start-in-bf16 --quant-recipe --te-precision-config-file "
     "--use-kitchen",
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
    {"--mtp-num-layers", FlagEffect::NotModelled,
     "further tokens are not predicted: their layers and losses are missing", ""},
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
    {"--fp4-format --fp4-param-gather --fp4-quantizer-factory", FlagEffect::Refused, "4-bit types", ""},
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
    // Data, tokens, samples.
    {"--allow-ambiguous-pad-tokens --aml-data-download-path --bert-embedder-type --bert-load "
     "--biencoder-projection-dim --biencoder-shared-query-context-model --block-data-path "
     "--calculate-per-token-loss --classes-fraction --data-args-path --data-cache-path --data-impl "
     "--data-parallel-random-init --data-path --data-per-class-fraction --dataloader-defer-npy-index-mmap "
     "--dataloader-fast-cache-load --dataloader-seq-length --dataloader-type --dino-bottleneck-size "
     "--dino-freeze-last-layer --dino-head-hidden-size --dino-local-crops-number --dino-local-img-size "
     "--dino-norm-last-layer --dino-teacher-temp --dino-warmup-teacher-temp "
     "--dino-warmup-teacher-temp-epochs "
     "--disable-dsa-indexer-rotate-activation --disable-dsa-indexer-scoring-relu "
     "--disable-moe-token-dropping "
     "--disable-muon-split-qkv --disable-pad-vocab-size --disable-save-tokenizer-assets "
     "--disable-strict-fsdp-dtensor-load --disable-tokenizer-sentencepiece-ignore-extra-whitespaces "
     "--disable-use-tokenizer-model-from-checkpoint-args --dist-ckpt-strictness --dsa-indexer-head-dim "
     "--dsa-indexer-k-norm-epsilon --dsa-indexer-k-norm-fp32 --dsa-indexer-loss-coeff --dsa-indexer-n-heads "
     "--dsa-indexer-rope-interleaved --dsa-indexer-rotate-activation --dsa-indexer-scoring-relu "
     "--dsa-indexer-skip-topk-offset --dsa-indexer-topk --dsa-indexer-topk-freq "
     "--dsa-indexer-use-sparse-loss "
     "--eod-mask-loss --evidence-data-path --exit-signal-handler-for-dataloader --faiss-use-gpu --fim-data "
     "--fim-eod-token --fim-fragment-rate --fim-middle-token --fim-no-prefix --fim-pad-token "
     "--fim-prefix-token "
     "--fim-rate --fim-split-sample --fim-spm-rate --fim-suffix-token --ict-head-size --ict-load --img-dim "
     "--img-h --img-w --indexer-batch-size --indexer-log-interval --inference-cuda-graph-max-tokens "
     "--inference-dynamic-batching-block-size --inference-dynamic-batching-cuda-graph-max-tokens "
     "--inference-dynamic-batching-max-tokens --inference-dynamic-batching-max-tokens-override "
     "--inference-dynamic-batching-prefix-caching-eviction-policy "
     "--inference-dynamic-batching-track-generated-token-events --inference-moe-token-dispatcher-type "
     "--legacy-tokenizer --lr-decay-samples --lr-decay-tokens --lr-warmup-samples --lr-warmup-tokens "
     "--lr-wsd-decay-samples --mask-factor --mask-prob --mask-type --masked-softmax-fusion "
     "--max-tokens-to-oom "
     "--merge-file --metadata-path --mid-level-dataset-surplus --mmap-warmup --mock-data "
     "--moe-hybridep-num-blocks-permute --moe-hybridep-num-blocks-unpermute "
     "--moe-hybridep-pad-uneven-dispatch-inputs --moe-token-drop-policy --moe-token-dropping "
     "--muon-no-split-qkv "
     "--muon-split-qkv --no-create-attention-mask-in-dataloader --no-data-sharding "
     "--no-dsa-indexer-rotate-activation --no-dsa-indexer-scoring-relu --no-mmap-bin-files "
     "--no-muon-split-qkv "
     "--no-pad-vocab-size --no-save-tokenizer-assets --no-strict-fsdp-dtensor-load "
     "--no-tokenizer-sentencepiece-ignore-extra-whitespaces --no-use-tokenizer-model-from-checkpoint-args "
     "--null-tokenizer-eod-id --null-tokenizer-pad-id --num-classes --num-dataset-builder-threads "
     "--num-speculative-tokens --num-workers --output-bert-embeddings --pad-vocab-size --patch-dim "
     "--per-dataset-sequences-path --per-split-data-args-path --query-in-block-prob "
     "--renormalize-blend-weights "
     "--repeated-dataloader --retriever-report-topk-accuracies --retriever-score-scaling "
     "--retriever-seq-length "
     "--retro-attention-gate --retro-cyclic-train-iters --retro-encoder-attention-dropout "
     "--retro-encoder-hidden-dropout --retro-encoder-layers --retro-no-verify-neighbor-count "
     "--retro-num-neighbors --retro-num-retrieved-chunks --retro-project-dir --retro-return-doc-ids "
     "--retro-workdir --return-data-index --rl-skip-bos-token --sample-rate --save-tokenizer-assets "
     "--save-tokens-per-expert-interval --scaled-upper-triang-masked-softmax-fusion "
     "--sft-tokenizer-prompt-format --short-seq-prob --special-tokens --split --strict-fsdp-dtensor-load "
     "--test-data-path --test-weighted-split-paths --test-weighted-split-paths-path "
     "--tiktoken-num-special-tokens --tiktoken-pattern --tiktoken-special-tokens --titles-data-path "
     "--tokenizer-hf-include-special-tokens --tokenizer-hf-no-include-special-tokens "
     "--tokenizer-hf-no-use-fast "
     "--tokenizer-hf-use-fast --tokenizer-metadata --tokenizer-sentencepiece-ignore-extra-whitespaces "
     "--tokenizer-sentencepiece-legacy --tokenizer-special-tokens --tp-comm-split-ag --tp-comm-split-rs "
     "--train-data --train-data-exact-num-epochs --train-data-path --train-sample-idx-path --train-samples "
     "--train-tokens --train-weighted-split-paths --train-weighted-split-paths-path --use-dataset-only "
     "--use-gigatoken --use-tokenizer-model-from-checkpoint-args --valid-data --valid-data-path "
     "--valid-num-workers --valid-weighted-split-paths --valid-weighted-split-paths-path "
     "--vision-backbone-type "
     "--vision-pretraining --vision-pretraining-type --vocab-extra-ids ",
     FlagEffect::None, "", ""},
    // Learning rates, losses and other figures of the optimizer.
    {"--adam-beta1 --adam-beta2 --adam-eps --adaptive-muon-beta2 --adaptive-muon-eps "
     "--adaptive-muon-moment2-method --apply-wd-to-qk-layernorm --aux-loss-free --beta-fast --beta-slow "
     "--clip-grad --decoupled-lr --decoupled-min-lr --decoupled-weight-decay --embedding-init-method "
     "--embedding-init-method-std --end-weight-decay --grad-norm-skip-threshold --head-lr-mult --hysteresis "
     "--init-method --init-method-std --init-method-xavier-uniform --initial-loss-scale --iter-per-epoch "
     "--iterations-to-skip --kd-alpha-ce --kd-beta-ce --kd-temp --lion-beta1 --lion-beta2 "
     "--loss-on-targets-only "
     "--loss-scale --loss-scale-window --lr --lr-decay-iters --lr-decay-steps --lr-decay-style "
     "--lr-warmup-fraction --lr-warmup-init --lr-warmup-iters --lr-warmup-steps --lr-wsd-decay-iters "
     "--lr-wsd-decay-style --min-loss-scale --min-lr --moe-aux-loss-coeff --moe-loss-coeff "
     "--moe-z-loss-coeff "
     "--muon-coefficient-type --muon-extra-scale-factor --muon-fp32-matmul-prec --muon-momentum "
     "--muon-nesterov "
     "--muon-num-ns-steps --muon-scalar-optimizer --muon-scale-mode --muon-tp-mode --muon-use-nesterov "
     "--muon-use-syrk --mup --mup-attn-mult --mup-attn-scale-power --mup-base-head-dim "
     "--mup-base-hidden-size "
     "--mup-embedding-mult --mup-input-mult --mup-output-mult --mup-width-mult --no-decoupled-weight-decay "
     "--no-soap-use-kl-shampoo --no-weight-decay-cond-type --override-ckpt-iteration --override-lr-scheduler "
     "--override-opt-param-scheduler --phase-transition-iterations --qk-clip-alpha --qk-clip-threshold "
     "--scale-lr --soap-shampoo-beta --soap-use-kl-shampoo --start-weight-decay --train-desc-path "
     "--train-doc-idx-path --train-idx-path --train-iters --train-shuffle-idx-path --train-sync-interval "
     "--use-mup --warmup --wd-incr-steps --weight-decay --weight-decay-incr-style --wsd-decay-steps ",
     FlagEffect::None, "", ""},
    // Checkpoints, faults, restarts.
    {"--adlr-autoresume --adlr-autoresume-interval --async-ckpt-cpu-priority --async-ckpt-io-priority "
     "--async-ckpt-use-cpu-shm --async-save --auto-detect-ckpt-format --calc-ft-timeouts "
     "--check-for-large-grads "
     "--check-for-nan-in-grad --check-for-nan-in-loss --check-for-spiky-loss "
     "--ckpt-assume-constant-structure "
     "--ckpt-convert-format --ckpt-convert-save --ckpt-convert-update-legacy-dist-opt-format "
     "--ckpt-drop-redundant-extra-state --ckpt-format --ckpt-fully-parallel-load "
     "--ckpt-fully-parallel-load-exchange-algo --ckpt-fully-parallel-load-per-rank-objects "
     "--ckpt-fully-parallel-load-process-group --ckpt-fully-parallel-save "
     "--ckpt-fully-parallel-save-process-group --ckpt-load-validate-sharding-integrity "
     "--ckpt-pg-tensors-cache-create --ckpt-pg-tensors-cache-path --ckpt-step --contigious-checkpointing "
     "--cpu-offloading-activations --cpu-offloading-double-buffering "
     "--cpu-offloading-retain-pinned-cpu-buffers "
     "--cpu-offloading-weights --deepspeed-activation-checkpointing --disable-check-for-nan-in-loss "
     "--disable-ckpt-load-validate-sharding-integrity --disable-cpu-offloading-activations "
     "--disable-fully-parallel-save --disable-load-optim --disable-load-rng --disable-save-optim "
     "--disable-save-rng --disable-straggler-on-startup --dist-ckpt-format "
     "--dist-ckpt-optim-fully-reshardable "
     "--dist-ckpt-save-pre-mcore-014 --dist-ckpt-workers --enable-ft-package --error-injection-rate "
     "--error-injection-type --exit-duration-in-mins --exit-interval --exit-on-missing-checkpoint "
     "--exit-signal "
     "--exit-signal-handler --exit-signal-handler-for-training --fsdp-db-use-persist-buf-on-alloc-fail "
     "--ft-num-warmup-iters --fully-parallel-load --fully-parallel-save --grpo-default-temperature "
     "--grpo-default-top-p --hetereogenous-dist-checkpoint --inprocess-active-world-size "
     "--inprocess-barrier-timeout --inprocess-completion-timeout --inprocess-empty-cuda-cache "
     "--inprocess-granularity --inprocess-hard-timeout --inprocess-heartbeat-interval "
     "--inprocess-heartbeat-timeout --inprocess-last-call-wait --inprocess-max-iterations "
     "--inprocess-monitor-process-interval --inprocess-monitor-thread-interval "
     "--inprocess-progress-watchdog-interval --inprocess-soft-timeout --inprocess-termination-grace-time "
     "--kill-switch-file --kill-switch-path --load --load-main-params-from-ckpt --load-model-opt-format "
     "--load-optim --load-rng --load-tag --log-straggler --logits-load-decode-threads --logits-load-dir "
     "--logits-load-ignore-errors --logits-load-kd-loss-alpha --logits-load-msc-prefetch-depth "
     "--logits-load-prefetch-factor --logits-save-dir --logits-save-dtype --logits-save-top-k "
     "--logits-save-top-p --logits-save-top-p-min-k --max-restarts --moe-router-force-load-balancing "
     "--moe-router-load-balancing-type --no-check-for-nan-in-loss --no-check-for-nan-in-loss-and-grad "
     "--no-ckpt-fully-parallel-save --no-ckpt-load-validate-sharding-integrity "
     "--no-cpu-offloading-activations "
     "--no-fully-parallel-save --no-load-lr-state --no-load-optim --no-load-rng --no-save-optim "
     "--no-save-rng "
     "--non-persistent-ckpt-type --non-persistent-global-ckpt-dir --non-persistent-local-ckpt-algo "
     "--non-persistent-local-ckpt-dir --non-persistent-save-interval --optimizer-offload-fraction "
     "--persist-layer-norm --persistent-save-interval --pretrained-checkpoint --replication "
     "--replication-factor "
     "--replication-jump --rl-default-temperature --rl-default-top-k --rl-default-top-p "
     "--rl-offload-inference-model-weights-when-idle --rl-offload-kv-cache-during-training "
     "--rl-offload-optimizer-during-inference --rl-persist-cuda-graphs --run-workload-inspector-server "
     "--save "
     "--save-activations-interval --save-config-filepath --save-dgrads-interval --save-interval --save-optim "
     "--save-params-interval --save-retain-interval --save-rng --save-wgrads-interval --straggler-ctrlr-port "
     "--straggler-minmax-count --universal-checkpoint --use-checkpoint-args --use-checkpoint-lr-scheduler "
     "--use-checkpoint-opt-param-scheduler --use-dist-ckpt --use-mp-args-from-checkpoint-args "
     "--use-persistent-ckpt-worker --use-torch-optimizer-for-cpu-offload --wandb-save-dir ",
     FlagEffect::None, "", ""},
    // Logs and profiles.
    {"--app-tag-run-name --app-tag-run-version --codecarbon-dir --config-logger-dir "
     "--disable-flight-recorder-dump-on-timeout --disable-flight-recorder-extra-dump-on-exec "
     "--disable-flight-recorder-include-only-active --disable-log-loss-scale-to-tensorboard "
     "--dump-param-to-param-group-map --enable-one-logger --flight-recorder-dump-on-timeout "
     "--flight-recorder-dump-path --flight-recorder-extra-dump-on-exec --flight-recorder-include-only-active "
     "--flight-recorder-include-stack-trace --flight-recorder-trace-buffer-size "
     "--inference-dynamic-batching-logprobs-mode --inference-logging-step-interval "
     "--inference-text-gen-server-logging --inference-wandb-logging --log-batch-size-to-tensorboard "
     "--log-device-memory-used --log-dir --log-interval --log-l2-norm-grad-to-tensorboard --log-level "
     "--log-level-replica --log-loss-scale-to-tensorboard --log-memory-interval --log-memory-to-tensorboard "
     "--log-num-zeros-in-grad --log-optimizer-states-to-tensorboard --log-params-norm --log-path "
     "--log-progress "
     "--log-runtime-to-tensorboard --log-throughput --log-throughput-to-tensorboard "
     "--log-timers-to-tensorboard "
     "--log-validation-ppl-to-tensorboard --log-world-size-to-tensorboard --logging-level "
     "--moe-per-layer-logging --moe-routing-trace-capture-hidden-states --moe-routing-trace-capture-logits "
     "--moe-routing-trace-dump-weights --moe-routing-trace-max-training-iters --moe-routing-trace-path "
     "--no-barrier-with-level-1-timing --no-flight-recorder-dump-on-timeout "
     "--no-flight-recorder-extra-dump-on-exec --no-flight-recorder-include-only-active "
     "--no-log-learnig-rate-to-tensorboard --no-log-loss-scale-to-tensorboard --no-one-logger --nvtx-ranges "
     "--one-logger-async --one-logger-entity --one-logger-project --one-logger-run-name --otel-enabled "
     "--otel-service-name --otel-span-groups --output-logit-dtype --profile --profile-ranks "
     "--profile-step-end "
     "--profile-step-start --profile-steps --pytorch-profiler-collect-callstack "
     "--pytorch-profiler-collect-chakra --pytorch-profiler-collect-shapes --record-memory-history "
     "--record-shapes --report-topk-accuracies --rl-inference-logprobs-is-correction "
     "--rl-max-inflight-requests "
     "--rl-profile --rl-profile-dir --set-level-for-all-loggers --tensorboard-dir --tensorboard-log-interval "
     "--tensorboard-queue-size --timing-log-level --timing-log-option --use-nsys-profiler "
     "--use-pytorch-profiler "
     "--wandb-entity --wandb-exp-name --wandb-mode --wandb-project ",
     FlagEffect::None, "", ""},
    // Inference and reinforcement learning.
    {"--chat-template --decode-only-cuda-graphs --disable-chunked-prefill --ds-inference "
     "--enable-chunked-prefill --flash-decode --grpo-clamp-eps-lower --grpo-clamp-eps-upper "
     "--grpo-entropy-term-weight --grpo-filter-groups-with-same-reward --grpo-group-size --grpo-iterations "
     "--grpo-kl-beta --grpo-prompts-per-step --inference --inference-batch-times-seqlen-threshold "
     "--inference-coordinator-port --inference-cuda-graph-all-prefills --inference-cuda-graph-scope "
     "--inference-disable-ep-consensus --inference-disable-triton-nvls-kernels --inference-dynamic-batching "
     "--inference-dynamic-batching-async-sched-mode --inference-dynamic-batching-buffer-guaranteed-fraction "
     "--inference-dynamic-batching-buffer-overflow-factor --inference-dynamic-batching-buffer-size-gb "
     "--inference-dynamic-batching-chunk-size --inference-dynamic-batching-cuda-graph-mixed-prefill-count "
     "--inference-dynamic-batching-cuda-graph-sizing-distribution "
     "--inference-dynamic-batching-mamba-memory-ratio --inference-dynamic-batching-max-requests "
     "--inference-dynamic-batching-max-requests-override --inference-dynamic-batching-num-cuda-graphs "
     "--inference-dynamic-batching-paused-buffer-size-gb --inference-dynamic-batching-prefix-caching "
     "--inference-dynamic-batching-prefix-caching-coordinator-policy "
     "--inference-dynamic-batching-prefix-caching-mamba-gb "
     "--inference-dynamic-batching-prefix-caching-routing-alpha "
     "--inference-dynamic-batching-sampling-backend "
     "--inference-dynamic-batching-track-paused-request-events "
     "--inference-dynamic-batching-unified-memory-level "
     "--inference-fuse-tp-communication --inference-grouped-gemm-backend --inference-max-batch-size "
     "--inference-max-requests --inference-max-seq-length --inference-moe-disable-fused-quant-kernels "
     "--inference-rng-tracker --inference-sampling-seed --inference-server-conversation-template "
     "--inference-shards --inference-type --inference-use-synchronous-zmq-collectives --langrl-env-config "
     "--langrl-external-server --langrl-inference-server-conversation-template "
     "--langrl-inference-server-type "
     "--mamba-inference-conv-states-dtype --mamba-inference-ssm-states-dtype --mlp-chunks-for-prefill "
     "--moe-pad-experts-for-cuda-graph-inference --nccl-all-reduce-for-prefill --refit-method "
     "--rl-calculate-intra-group-similarity --rl-consumption-granularity --rl-durable-rollout-bank "
     "--rl-generation-lag --rl-importance-sampling-truncation-coef --rl-inference-expert-model-parallel-size "
     "--rl-inference-expert-tensor-model-parallel-size --rl-inference-model-unified-memory-level "
     "--rl-inference-parsers --rl-inference-pipeline-model-parallel-size "
     "--rl-inference-tensor-model-parallel-size --rl-kv-cache-management-mode --rl-parallel-generation-tasks "
     "--rl-partial-rollouts --rl-prompts-per-eval --rl-remove-kv-cache-during-training "
     "--rl-reset-cuda-graphs "
     "--rl-rollout-bank-dir --rl-rollout-bank-max-bytes --rl-sequence-packing-algo "
     "--rl-sequence-packing-bin-size --rl-sequence-packing-max-sequences-per-bin --rl-submission-granularity "
     "--rl-training-cuda-graphs --rl-verify-model-weights-swap --use-flashinfer-fused-rope "
     "--use-inference-optimized-layers --use-legacy-static-engine ",
     FlagEffect::None, "", ""},
    // Numerics, and what programs do beside training.
    {"--abort-on-unmet-fused-kernel-constraints --activation-func --activation-func-clamp-value "
     "--activation-func-fp8-input-store --add-bias-linear --align-grad-reduce --align-param-gather "
     "--apply-layernorm-1p --apply-query-key-layer-scaling --apply-residual-connection-post-layernorm "
     "--async-strategy --attention-softmax-in-fp32 --autocast-dtype --average-in-collective "
     "--batch-invariant-backend --batch-p2p-sync --cache-mla-latents --clone-scatter-output-in-embedding "
     "--cpu-torch-adam --create-moe-param-group --cuda-graph-retain-backward-graph "
     "--cuda-graph-use-single-mempool --cuda-graph-warmup-steps --cyclic-train-iters "
     "--ddp-average-in-collective "
     "--ddp-pad-buckets-for-high-nccl-busbw --ddp-param-name-patterns-for-fp32-local-accumulation "
     "--deallocate-pipeline-outputs --deepscale --deepscale-config --deepspeed-mpi "
     "--disable-attention-softmax-in-fp32 --disable-barrier-with-L1-time --disable-batch-p2p-comm "
     "--disable-batch-p2p-sync --disable-bf16-reduced-precision-matmul "
     "--disable-clone-scatter-output-in-embedding --disable-cuda-graph-use-single-mempool "
     "--disable-decoupled-weight-decay --disable-filter-warnings --disable-fp8-wgrad "
     "--disable-fsdp-all-gather-in-start-param-sync --disable-gloo-process-groups "
     "--disable-gradient-reduce-div-fusion --disable-mamba-mem-eff-path --disable-manual-gc-eval "
     "--disable-moe-top2-2nd-expert-sampling --disable-msc --disable-parameter-transpose-cache "
     "--disable-perform-initialization --disable-pin-cpu-grads --disable-pin-cpu-params "
     "--disable-soap-use-kl-shampoo --disable-store-param-remainders --disable-symmetric-registration "
     "--disable-use-gloo-process-groups --disable-use-mamba-mem-eff-path "
     "--distrib-optim-fully-reshardable-mem-efficient --distributed-backend --distributed-timeout-minutes "
     "--distributed-timeout-seconds-after-init --ds-fused-adam --ds-sequence-parallel-fpdt-chunk-size "
     "--dsa-kernel-backend --embedding-path --enable-autocast --enable-experimental --enable-msc --epochs "
     "--eval-global-batch-size --eval-interval --eval-iters --eval-micro-batch-size --eval-only --exclude "
     "--experimental-attention-variant-loss-scale-func --export-kd-cfg --export-moe-apply-probs-on-input "
     "--export-qk-l2-norm --export-te-mcore-model --fake-process-group --filter-warnings "
     "--finalize-model-grads-func --finetune --flash-attention-version --force-ds-sequence-parallel "
     "--fp4-recipe "
     "--fp8-amax-compute-algo --fp8-amax-history-len --fp8-interval --fp8-margin --fp8-recipe --fp8-wgrad "
     "--fsdp-all-gather-in-start-param-sync --fsdp-manual-registration --full-validation "
     "--gdp-cutedsl-kernel "
     "--gdp-num-chunk-states-to-recompute --gdp-num-householder --glu-linear-offset "
     "--gpu-sniff-test-interval "
     "--grad-reduce-in-fp32 --grad-scale-func --grad-sync-func --gradient-accumulation-fusion "
     "--gradient-reduce-div-fusion --gtp-expert-remat-nccl-ub --gtp-remat-nccl-ub --gtp-remat-opt-in-modules "
     "--gtp-remat-reduce-scatter-with-fp32-accumulation --hidden-size-teacher --hostfile --include "
     "--init-model-with-meta-device --kitchen-attention-backend --launcher --layernorm-zero-centered-gamma "
     "--lazy-mpu-init --linear-conv-kernel-dim --linear-key-head-dim --linear-num-key-heads "
     "--linear-num-value-heads --linear-value-head-dim --local-addr --local-rank --mamba-head-dim "
     "--mamba-num-groups --mamba-num-heads --mamba-state-dim --mamba-training-ssm-states-dtype --manual-gc "
     "--manual-gc-eval --manual-gc-interval --master-addr --master-port --max-seqlen-per-dp-cp-rank "
     "--mean-noise-span-length --megatron-fsdp-cuda-graph-mode --memory-efficient-layer-norm --memory-keys "
     "--memory-snapshot-path --mhc-init-gating-factor --mhc-num-residual-streams --mhc-recompute-layer-num "
     "--mhc-sinkhorn-iterations --microbatch-group-size-per-vp-stage --module --modules-to-filter "
     "--moe-apply-probs-on-input --moe-enable-routing-replay --moe-eval-capacity-factor "
     "--moe-grad-scale-func "
     "--moe-grouped-gemm --moe-hybridep-num-sms-preprocessing --moe-input-jitter-eps --moe-min-capacity "
     "--moe-mlp-glu-interleave-size --moe-ncclep-zero-copy --moe-pad-expert-input-to-capacity "
     "--moe-paged-stash-buffer-size-factor-cpu --moe-paged-stash-buffer-size-factor-cuda "
     "--moe-paged-stash-page-size --moe-permute-fusion --moe-router-bias-update-rate --moe-router-dtype "
     "--moe-router-enable-expert-bias --moe-router-force-biased --moe-router-group-topk "
     "--moe-router-num-groups "
     "--moe-router-padding-for-fp8 --moe-router-padding-for-quantization --moe-router-pre-softmax "
     "--moe-router-quantile-balancing-ema --moe-router-score-function --moe-router-topk-limited-devices "
     "--moe-router-topk-scaling-factor --moe-shared-expert-glu-interleave-size --moe-upcycling-granularity "
     "--moe-use-upcycling --most-recent-k --mrope-section --mscale --mscale-all-dim --mtp-detach-heads "
     "--mtp-grad-scale-func --mtp-hsm --mtp-hybrid-override-pattern --mtp-loss-scaling-factor "
     "--mtp-standalone "
     "--mtp-use-repeated-layer --multiple-validation-sets --no-attention-softmax-in-fp32 "
     "--no-barrier-with-L1-time --no-batch-p2p-sync --no-clone-scatter-output-in-embedding "
     "--no-contiguous-buffers-in-local-ddp --no-cuda-graph-use-single-mempool --no-filter-warnings "
     "--no-fp8-wgrad --no-fsdp-all-gather-in-start-param-sync --no-gradient-reduce-div-fusion "
     "--no-initialization --no-manual-gc-eval --no-perform-initialization --no-pin-cpu-grads "
     "--no-pin-cpu-params "
     "--no-python --no-query-key-layer-scaling --no-rope-scaling --no-store-param-remainders --no-sync-func "
     "--no-use-gloo-process-groups --no-use-layer-wise-param-layout --no-use-mamba-mem-eff-path "
     "--no-yarn-correction-range-round-to-int --node-rank --noise-density --norm-epsilon --norm-target-loss "
     "--num-attention-heads-teacher --num-buckets --num-channels --num-experts-switch --num-experts-teacher "
     "--num-layers-teacher --object-storage-cache-path --onnx-safe --openai-gelu "
     "--original-max-position-embeddings --output-layer-init-method --overlap-p2p-comm "
     "--overlap-p2p-communication --pad-buckets-for-high-nccl-busbw "
     "--param-name-patterns-for-fp32-local-accumulation --param-sync-func --params-dtype "
     "--perform-initialization --pin-cpu-grads --pin-cpu-params --pipeline-dtype --rdzv-backend --rdzv-conf "
     "--rdzv-endpoint --rdzv-id --redirects --relative-attention-max-distance "
     "--relative-attention-num-buckets "
     "--reset-iteration --reset-position-ids --reset-progress --result-rejected-tracker-filename "
     "--reweight-loss-based-on-position-frequency --no-rope-fusion --role --rope-scaling-factor --rope-type "
     "--rotary-base "
     "--rotary-interleaved --rotary-percent --rotary-position-embeddings-theta --rotary-scaling-factor "
     "--rotary-seq-len-interpolation-factor --runtime-time-unit --s3-cache-path --scattered-embeddings "
     "--seed "
     "--skip-train --skip-train-iteration-range --skip-warmup --softmax-scale --standalone "
     "--start-eval-at-iter "
     "--start-step --store-param-remainders --swin-backbone-type --sync-tp-duplicated-parameters --task "
     "--te-rng-tracker --tee --test-mode --throughput-window-size --tile-factor "
     "--torch-fsdp2-no-reshard-after-forward --tp-comm-bootstrap-backend --tp-comm-bulk-dgrad "
     "--tp-comm-bulk-wgrad --tp-comm-overlap-ag --tp-comm-overlap-rs --tp-only-amax-red --trust-remote-code "
     "--use-contiguous-buffers-in-ddp --use-cpu-initialization --use-gloo-process-groups "
     "--use-kitchen-attention "
     "--use-legacy-models --use-mamba-mem-eff-path --use-mcore --use-mcore-models --use-one-sent-docs "
     "--use-pin-memory --use-rope-scaling --use-same-sampling-seed-across-dp-ranks --use-te "
     "--use-te-rng-tracker "
     "--validation-set-names --verify-integrity --window-attn-skip-freq --yarn-beta-fast --yarn-beta-slow "
     "--yarn-correction-range-round-to-int --yarn-original-max-position-embeddings "
     "--zero-contigious-gradients "
     "--zero-reduce-scatter ",
     FlagEffect::None, "", ""},
});

constexpr std::array kAliases = std::to_array<MegatronAlias>({
    {"--checkpoint-activations", "--recompute-granularity full"},
    {"--activations-checkpoint-method", "--recompute-granularity full --recompute-method", true},
    {"--activations-checkpoint-num-layers", "--recompute-num-layers", true},
    {"--checkpoint-num-layers", "--recompute-num-layers", true},
    {"--model-parallel-size", "--tensor-model-parallel-size", true},
    {"--batch-size", "--micro-batch-size", true},
    {"--pipe-parallel-size", "--pipeline-model-parallel-size", true},
    {"--num-key-value-heads", "--group-query-attention --num-query-groups", true},
    {"--moe-expert-parallel-size", "--expert-model-parallel-size", true},
    {"--topk", "--moe-router-topk", true},
    {"--moe-train-capacity-factor", "--moe-expert-capacity-factor", true},
    {"--pad-vocab-size-to", "--padded-vocab-size", true},
    {"--use-custom-fsdp", "--use-megatron-fsdp"},
    {"--layernorm-epsilon", "--norm-epsilon", true},
    {"--fp32-allreduce", "--accumulate-allreduce-grads-in-fp32"},
    {"--virtual-pipeline-model-parallel-size", "--num-virtual-stages-per-pipeline-rank", true},
    {"--num-layers-in-first-pipeline-stage", "--decoder-first-pipeline-num-layers", true},
    {"--num-layers-in-last-pipeline-stage", "--decoder-last-pipeline-num-layers", true},
    {"--num-moe-experts", "--num-experts", true},
    {"--fp8-hybrid", "--fp8-format hybrid"},
    {"--fp8-e4m3", "--fp8-format e4m3"},
    {"--disable-add-bias-linear", "--disable-bias-linear"},
    {"--no-add-bias-linear", "--disable-bias-linear"},
});

// The first that is a part of a program's name.
constexpr std::array kPrograms = std::to_array<MegatronProgram>({
    {"pretrain_bert", ""},
    {"pretrain_t5", ""},
    {"pretrain_prefix_lm", ""},
    {"pretrain_vision", "vision models"},
    {"pretrain_vlm", "models of images and text"},
    {"pretrain_mimo", "models of images and text"},
    {"pretrain_ict", "retrieval"},
    {"pretrain_realm", "retrieval"},
    {"pretrain_retro", "retrieval"},
    {"pretrain_mamba", "hybrid models"},
    {"pretrain_hybrid", "hybrid models"},
    {"pretrain_gpt", ""},
    {"finetune_t0", ""},
    {"finetune", ""},
    {"train_rl", ""},
    {"analyze_data", "the preparation of data"},
    {"preprocess_data", "the preparation of data"},
    {"text_generation", "inference"},
    {"generate", "inference"},
    {"inference", "inference"},
    {"evaluate", "evaluation"},
    {"checkpoint", "the conversion of checkpoints"},
});

struct FlagTable {
  std::vector<std::string> names;
  std::map<std::string, MegatronFlag, std::less<>> flags;
};

FlagTable table_of_flags() {
  FlagTable table;
  for (const FlagRow& row : kFlagRows) {
    for (std::size_t begin = 0; begin < row.flags.size();) {
      const std::size_t end = std::min(row.flags.find(' ', begin), row.flags.size());
      const std::string name(row.flags.substr(begin, end - begin));
      begin = end + 1;
      table.flags[name] = {name, row.effect, row.what, row.unless};
    }
  }
  for (const auto& [name, flag] : table.flags) table.names.push_back(name);
  for (const MegatronAlias& alias : kAliases) table.names.emplace_back(alias.flag);
  return table;
}

const FlagTable& flag_table() {
  static const FlagTable table = table_of_flags();
  return table;
}

bool is_word_of(std::string_view words, std::string_view word) {
  for (std::size_t begin = 0; begin < words.size();) {
    const std::size_t end = std::min(words.find(' ', begin), words.size());
    if (words.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

const MegatronFlag* megatron_flag(std::string_view flag) {
  const auto found = flag_table().flags.find(flag);
  return found == flag_table().flags.end() ? nullptr : &found->second;
}

const std::vector<std::string>& megatron_flag_names() { return flag_table().names; }

bool asks_for(const MegatronFlag& flag, std::string_view value) {
  return !is_word_of("none None null false False 0 0.0", value) && !is_word_of(flag.unless, value);
}

const MegatronAlias* megatron_alias(std::string_view flag) {
  const auto found = std::ranges::find(kAliases, flag, &MegatronAlias::flag);
  return found == kAliases.end() ? nullptr : found;
}

const MegatronProgram* megatron_program(std::string_view name) {
  const auto found = std::ranges::find_if(
      kPrograms, [&](const MegatronProgram& p) { return name.find(p.name) != std::string_view::npos; });
  return found == kPrograms.end() ? nullptr : found;
}

}  // namespace pipesim
