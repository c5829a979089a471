#!/bin/bash
# serve.sh VENV MODEL_FOLDER PORT [more options of vllm serve]: serves the folder as "tiny" on 127.0.0.1.
# The shell is replaced by the server, so the id of this process is the server's.
# CPU attention takes block sizes that are multiples of 32. Memory: about 1.7 GB.
set -euo pipefail
venv=$1 model=$2 port=$3
shift 3
export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 VLLM_SERVER_DEV_MODE=1
exec "$venv/bin/vllm" serve "$model" --served-model-name tiny --host 127.0.0.1 --port "$port" \
  --block-size 32 --enable-prefix-caching --enable-prompt-tokens-details --enforce-eager \
  --max-num-seqs 8 --kv-cache-memory-bytes 64M "$@"
