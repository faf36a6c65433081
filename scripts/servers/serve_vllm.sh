#!/bin/bash
# serve_vllm.sh VENV PORT MODEL_DIR [more vllm arguments]. Ready after about 20 s: poll /health.
# A measured recipe: --block-size 32, since the CPU's default of 128 hides short prefixes from the prefix cache.
# Start it in its own process group and end the whole group: killing only the first process leaves its engine and worker running.
set -eu
# Threads that wait for one another do not spin: on busy cores that is many times slower.
export GOMP_SPINCOUNT=0 OMP_WAIT_POLICY=PASSIVE
VENV=$1; PORT=$2; MODEL=$3; shift 3
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_CPU_KVCACHE_SPACE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
exec "$VENV/bin/python" "$VENV/bin/vllm" serve "$MODEL" --host 127.0.0.1 --port "$PORT" --served-model-name local --max-model-len 2048 \
  --max-num-seqs 16 --block-size 32 --enable-prompt-tokens-details --enforce-eager "$@"
