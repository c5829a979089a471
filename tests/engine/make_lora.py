"""Make a rank-8 LoRA adapter with random weights for the model of make_model.py: make_lora.py FOLDER SEED."""

from __future__ import annotations

import json
import sys
from pathlib import Path

RANK = 8
WIDTH = 64
OUTPUT_WIDTHS = {"q_proj": 64, "v_proj": 32}


def main() -> None:
    import torch
    from safetensors.torch import save_file

    folder, seed = Path(sys.argv[1]), int(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    tensors = {}
    for layer in range(2):
        for module, width in OUTPUT_WIDTHS.items():
            place = f"base_model.model.model.layers.{layer}.self_attn.{module}"
            tensors[f"{place}.lora_A.weight"] = torch.randn(RANK, WIDTH, dtype=torch.bfloat16) / 2
            tensors[f"{place}.lora_B.weight"] = torch.randn(width, RANK, dtype=torch.bfloat16) / 2
    save_file(tensors, str(folder / "adapter_model.safetensors"))
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "tiny",
        "r": RANK,
        "lora_alpha": 16,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted(OUTPUT_WIDTHS),
        "modules_to_save": None,
        "use_rslora": False,
        "use_dora": False,
    }
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1))


if __name__ == "__main__":
    main()
