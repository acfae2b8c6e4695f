"""Language models in Python."""
import json
import unittest

import support  # noqa: F401
import ferry

DATA = "tests/data/generate/"


class GenerateTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.generator = ferry.Generator(DATA + "model.onnx", threads=1)

    def test_text_and_back(self):
        tokenizer = ferry.Tokenizer(DATA + "tokenizer.json")
        self.assertEqual(tokenizer.decode(tokenizer.encode("Grüße, 世界!")), "Grüße, 世界!")
        self.assertEqual(len(tokenizer), 1024)
        self.assertEqual(tokenizer.token_to_id("<|endoftext|>"), 0)
        self.assertIsNone(tokenizer.token_to_id("no such token"))
        self.assertEqual(tokenizer.id_to_token(0), "<|endoftext|>")
        self.assertIsNone(tokenizer.id_to_token(1024))
        with self.assertRaises(ValueError):
            tokenizer.decode([1024])

    def test_same_tokens_as_pytorch(self):
        with open(DATA + "expected.json", encoding="utf-8") as file:
            one = json.load(file)[0]
        made = self.generator.generate(one["prompt"], max_tokens=200)
        self.assertEqual(made.ids, one["ids"])
        self.assertEqual(made.prompt_ids, one["prompt_ids"])
        self.assertEqual(made.reason, "max-tokens")

    def test_stream_stop_and_seed(self):
        parts = []
        made = self.generator.generate("Return the", max_tokens=30, on_text=parts.append)
        self.assertEqual("".join(parts), str(made))
        stopped = self.generator.generate("Return the", max_tokens=30, stop=made.text[10:16])
        self.assertEqual((stopped.reason, stopped.text), ("stop-word", made.text[:10]))
        self.assertEqual(self.generator.generate("Return the", on_text=lambda text: False).reason, "caller")
        drawn = [self.generator.generate("The", max_tokens=20, temperature=1.0, seed=seed).ids for seed in (5, 5, 6)]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])

    def test_errors(self):
        with self.assertRaises(ZeroDivisionError):
            self.generator.generate("x", on_text=lambda text: 1 / 0)
        with self.assertRaises(ValueError):
            self.generator.generate("x", top_p=7)
        with self.assertRaises(FileNotFoundError):
            ferry.Tokenizer("missing.json")


if __name__ == "__main__":
    unittest.main()
