"""The networks of the comparison as PyTorch has them, with random weights, and what they are asked."""
import torch
import torchvision
import transformers


class Field(torch.nn.Module):
    """One field of what a network of transformers answers."""

    def __init__(self, network, name):
        super().__init__()
        self.network, self.name = network, name

    def forward(self, x):
        options = {"use_cache": False} if hasattr(self.network.config, "use_cache") else {}
        return getattr(self.network(x, **options), self.name)


class Segmented(torch.nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x)["out"]


class Decoder(torch.nn.Module):
    """One token over a cache that comes in and goes out as tensors."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x, *past):
        cache = transformers.DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        made = self.network(x, past_key_values=cache, use_cache=True)
        return (made.logits, *[t for layer in made.past_key_values.layers for t in (layer.keys, layer.values)])


def image(batch):
    return (torch.randn(batch, 3, 224, 224),)


def tokens(batch):
    return (torch.randint(1, 1000, (batch, 128)),)


def one_token(batch):
    return (torch.randint(1, 1000, (batch, 1)), *[torch.randn(batch, 4, 128, 64) for _ in range(24)])


def bert(**sizes):
    return Field(transformers.BertModel(transformers.BertConfig(**sizes)), "last_hidden_state")


def whisper():
    config = transformers.WhisperConfig(d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536)
    return Field(transformers.models.whisper.modeling_whisper.WhisperEncoder(config), "last_hidden_state")


def llama():
    config = transformers.LlamaConfig(vocab_size=32000, hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
                                      num_key_value_heads=4, intermediate_size=2048, max_position_embeddings=2048)
    return Decoder(transformers.LlamaForCausalLM(config))


def deeplab():
    make = torchvision.models.segmentation.deeplabv3_mobilenet_v3_large
    return Segmented(make(weights=None, weights_backbone=None))


CONVOLUTIONAL = ["resnet50", "mobilenet_v2", "efficientnet_b0", "convnext_tiny", "regnet_y_400mf", "densenet121",
                 "deeplabv3_mobilenet"]
NETWORKS = {name: (getattr(torchvision.models, name), image)
            for name in CONVOLUTIONAL[:-1] + ["vit_b_16", "swin_t"]}
NETWORKS |= {
    "deeplabv3_mobilenet": (deeplab, image),
    "bert_base": (bert, tokens),
    "minilm_l6": (lambda: bert(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536),
                  tokens),
    "gpt2_prefill": (lambda: Field(transformers.GPT2LMHeadModel(transformers.GPT2Config()), "logits"), tokens),
    "clip_vit_b32": (lambda: Field(transformers.CLIPVisionModel(transformers.CLIPVisionConfig()), "last_hidden_state"),
                     image),
    "whisper_tiny_encoder": (whisper, lambda batch: (torch.randn(batch, 80, 3000),)),
    "llama_160m_decode": (llama, one_token),
}
# Sizes that the ONNX files leave open, beside the batch; files that leave none open have batch 1.
DIMS = {"bert_base": ["seq=128"], "minilm_l6": ["seq=128"], "gpt2_prefill": ["seq=128"],
        "llama_160m_decode": ["past=128"]}
BATCH_OF_ONE = ["whisper_tiny_encoder"]
