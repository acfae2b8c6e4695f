"""Networks of timm and transformers, captured by torch.export, exported by Ferry, and held against eager PyTorch.

    python3 tests/torch/export_zoo.py build/ferry [--keep FOLDER] [NAME…]

Needs PyTorch 2 with timm and transformers; weights are random, nothing is downloaded. A line for each network: 'equal',
'refused' by Ferry, 'not captured' by PyTorch, or 'WRONG'; exit status 1 when any is wrong or refused.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch

TIMM = [
    "resnet18", "efficientnet_b0", "mobilenetv3_small_100", "vit_tiny_patch16_224", "convnext_atto", "regnetx_002",
    "densenet121", "swin_tiny_patch4_window7_224", "mixer_s32_224", "ghostnet_100", "repvgg_a0", "levit_128s",
    "poolformer_s12", "edgenext_xx_small", "mobilevit_xxs", "xcit_nano_12_p16_224", "inception_v3", "vgg11",
    "hrnet_w18_small", "tf_efficientnetv2_b0", "cait_xxs24_224", "res2net50_26w_4s", "crossvit_tiny_240",
]
SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 120}
TRANSFORMERS = {
    "BertModel": SMALL,
    "RobertaModel": SMALL,
    "ElectraModel": SMALL,
    "AlbertModel": {**SMALL, "embedding_size": 32},
    "DistilBertModel": {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 96, "vocab_size": 120},
    "MPNetModel": SMALL,
    "DebertaV2Model": SMALL,
    "GPT2LMHeadModel": {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 120},
    "GPTNeoXForCausalLM": SMALL,
    "OPTForCausalLM": {**SMALL, "ffn_dim": 96, "word_embed_proj_dim": 64},
    "LlamaForCausalLM": {**SMALL, "num_key_value_heads": 2},
    "MistralForCausalLM": {**SMALL, "num_key_value_heads": 2},
    "Qwen2ForCausalLM": {**SMALL, "num_key_value_heads": 2},
    "GemmaForCausalLM": {**SMALL, "num_key_value_heads": 2, "head_dim": 16},
    "PhiForCausalLM": SMALL,
    "T5EncoderModel": {"d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4, "vocab_size": 120},
    "CLIPTextModel": SMALL,
    "ViTModel": {**SMALL, "image_size": 32, "patch_size": 8},
    "Dinov2Model": {**SMALL, "image_size": 28, "patch_size": 14},
}


class FirstOutput(torch.nn.Module):
    """A network of transformers with its first output only, as a plain tensor."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x, return_dict=True)[0]


def from_timm(name):
    import timm

    network = timm.create_model(name, pretrained=False, num_classes=10).eval()
    size = network.default_cfg["input_size"]
    return network, lambda batch: torch.randn(batch, *size)


def from_transformers(name):
    import transformers

    kind = getattr(transformers, name)
    config = kind.config_class(**TRANSFORMERS[name])
    for option, value in {"use_cache": False, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}.items():
        setattr(config, option, value)
    network = FirstOutput(kind(config).eval())
    if "image_size" in TRANSFORMERS[name]:
        side = TRANSFORMERS[name]["image_size"]
        return network, lambda batch: torch.randn(batch, 3, side, side)
    return network, lambda batch: torch.randint(3, 100, (batch, 12))


def give_weights(network):
    """Random ones where the network starts with zeros, which would hide what comes before them."""
    with torch.no_grad():
        for weight in network.parameters():
            if weight.dim() > 1 and not weight.any():
                weight.normal_(std=0.1)


def capture(network, make_input):
    """The program, and the batch sizes it takes: any where PyTorch can, else the captured one."""
    batch = torch.export.Dim("batch", min=2, max=64)
    try:
        return torch.export.export(network, (make_input(2),), dynamic_shapes=({0: batch},)), [2, 3]
    except Exception:
        return torch.export.export(network, (make_input(2),)), [2]


def ferry(*arguments):
    return subprocess.run([str(a) for a in arguments], capture_output=True, text=True)


def verdict(binary, name, folder):
    network, make_input = (from_transformers if name in TRANSFORMERS else from_timm)(name)
    give_weights(network)
    try:
        program, batches = capture(network, make_input)
        torch.export.save(program, folder / "model.pt2")
    except Exception as problem:
        return "not captured", str(problem).splitlines()[0]
    exported = ferry(binary, "export", folder / "model.pt2", "-o", folder / "model.onnx")
    if exported.returncode != 0:
        return "refused", exported.stderr.strip()
    worst = 0.0
    for batch in batches:
        x = make_input(batch)
        recording = folder / f"io_{batch}.npz"
        with torch.no_grad():
            y = network(x).numpy()
        numpy.savez(recording, in0=x.numpy(), out0=y)
        atol = 1e-4 * numpy.abs(y).max()
        compared = ferry(binary, "compare", folder / "model.onnx", "--data", recording, "--atol", atol, "--json")
        if compared.returncode == 3:
            return "WRONG", compared.stderr.strip()
        told = json.loads(compared.stdout)
        if not told["within"]:
            return "WRONG", f"batch {batch}: largest difference {told['max_abs']:.3g}, atol {atol:.3g}"
        worst = max(worst, told["max_abs"] / numpy.abs(y).max())
    return "equal", f"batches {batches}, largest difference {worst:.2g} of the largest output"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ferry")
    parser.add_argument("--keep", type=pathlib.Path, help="keep programs, models and recordings here")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    counts = {}
    for name in asked.names or [*TIMM, *TRANSFORMERS]:
        torch.manual_seed(1)
        with tempfile.TemporaryDirectory() as made:
            folder = asked.keep / name if asked.keep else pathlib.Path(made)
            folder.mkdir(parents=True, exist_ok=True)
            try:
                result, why = verdict(pathlib.Path(asked.ferry).resolve(), name, folder)
            except Exception as problem:
                result, why = "not captured", f"{type(problem).__name__}: {problem}".splitlines()[0]
        counts[result] = counts.get(result, 0) + 1
        print(f"{result:12} {name}: {why}", flush=True)
    print(", ".join(f"{count} {result}" for result, count in sorted(counts.items())))
    return 1 if counts.get("WRONG") or counts.get("refused") else 0


if __name__ == "__main__":
    sys.exit(main())
