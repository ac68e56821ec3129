#!/bin/bash
NODES=${NODES:-2}; GPUS=8
WORLD=$((NODES * GPUS))
MODEL_ARGS=(
    --num-layers 32
    --hidden-size 4096 # width
)
if [ "$WORLD" -gt 8 ]; then TP=4; else TP=1; fi
for SIZE in 7b 13b; do
  case $SIZE in
    7b) LAYERS=32 ;;
    *) LAYERS=40 ;;
  esac
done
launch() { torchrun --nproc_per_node $GPUS pretrain_gpt.py "$@"; }
cat <<EOF > ds.json
{"train_batch_size": $((WORLD * 2)), "zero_optimization": {"stage": 1}}
EOF
launch ${MODEL_ARGS[@]} --tensor-model-parallel-size $TP --num-layers ${LAYERS} --deepspeed_config ds.json
