"""Language models: text to tokens and back, and text that goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _ferry



def _text(path: Any) -> str:
    return os.fsdecode(os.fspath(path))


class Tokenizer:
    """What Hugging Face's tokenizer.json describes.

        tokenizer = ferry.Tokenizer("tokenizer.json")
        ids = tokenizer.encode("Hello, world")
        tokenizer.decode(ids)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._held = _ferry.Tokenizer(_text(path))

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """The numbers of the text's tokens, with those that the file puts around a text."""
        return self._held.encode(text, bool(add_special_tokens))

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """The text of tokens."""
        return self._held.decode([int(each) for each in ids], bool(skip_special_tokens))

    def token_to_id(self, token: str) -> int | None:
        """The number of a token as the vocabulary has it; None where there is none."""
        found = self._held.find(token)
        return None if found < 0 else found

    def id_to_token(self, id: int) -> str | None:
        """The token as the vocabulary has it; None where there is none."""
        return self._held.text_of(int(id))

    def __len__(self) -> int:
        return self._held.size()


@dataclass(frozen=True)
class Generated:
    """A text that a model made, without its prompt. `reason` says why it ended: "max-tokens", "stop-token",
    "stop-word", "window" (the model's) or "caller"."""

    text: str
    ids: list[int]
    prompt_ids: list[int]
    reason: str
    prompt_seconds: float  # to the first token
    seconds: float  # from there to the last

    def __str__(self) -> str:
        return self.text


class Generator:
    """A language model (a decoder, .onnx) with its tokenizer; the one beside the model where none is given.

        generator = ferry.Generator("model.onnx", "tokenizer.json")
        print(generator.generate("Once upon a time", max_tokens=50, temperature=0.8, seed=7))

    `names` says which input or output is input_ids, attention_mask, position_ids, use_cache_branch, past_length,
    total_length or logits, and `caches` which output goes into which input in the next step, where names do not tell.
    """

    def __init__(self, model: str | os.PathLike[str], tokenizer: str | os.PathLike[str] | None = None, *,
                 threads: int = 0, provider: str = "cpu", names: Mapping[str, str] | None = None,
                 caches: Mapping[str, str] | None = None) -> None:
        path = _text(model)
        beside = os.path.join(os.path.dirname(path), "tokenizer.json") if tokenizer is None else _text(tokenizer)
        self._held = _ferry.Generator(path, beside, int(threads), provider, dict(names or {}),
                                      list((caches or {}).items()))

    def generate(self, prompt: str, *, max_tokens: int = 256, temperature: float = 0.0, top_k: int = 0,
                 top_p: float = 1.0, min_p: float = 0.0, repetition_penalty: float = 1.0, seed: int = 0,
                 stop: str | Sequence[str] = (), context: int = 0, add_special_tokens: bool = True,
                 on_text: Callable[[str], Any] | None = None) -> Generated:
        """Goes on with the prompt. `on_text` is told of text as it comes and ends it by returning False. Without a
        temperature the likeliest token is taken; with one, the same seed gives the same text."""
        numbers = {"max_tokens": max_tokens, "context": context, "temperature": temperature, "top_k": top_k,
                   "top_p": top_p, "min_p": min_p, "repetition_penalty": repetition_penalty}
        words = [stop] if isinstance(stop, str) else list(stop)
        return Generated(**self._held.generate(prompt, {name: float(value) for name, value in numbers.items()},
                                               int(seed), words, bool(add_special_tokens), on_text))

    @property
    def window(self) -> int | None:
        """How many tokens prompt and text may have together, where the model says so."""
        return self._held.window() or None
