"""Small tokenizers of every kind, created on the spot and saved as their libraries do."""

import io
import json

import sentencepiece

TEXTS = [
    "The dog sleeps in the garden.",
    "A cat sees the old dog!",
    "Does the woman read a book?",
    "Der Hund schläft im Garten.",
    "Liest die Frau ein Buch?",
]
BERT_TOKENS = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
BERT_TOKENS += ["the", "dog", "##s", "sleep", "a", "cat", "##leep", "s", ".", "?", "read", "book"]


def save_gpt2_tokenizer(directory):
    """Bytes and a few merges; the special token is the last, as in GPT-2."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=270, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    vocabulary = model["vocab"] | {"<|endoftext|>": len(model["vocab"])}
    merges = "\n".join(" ".join(merge) for merge in model["merges"])
    (directory / "vocab.json").write_text(json.dumps(vocabulary), "utf-8")
    (directory / "merges.txt").write_text(f"#version: 0.2\n{merges}\n", "utf-8")
    return len(vocabulary)


def save_bert_tokenizer(directory):
    """Word pieces."""
    (directory / "vocab.txt").write_text("".join(f"{token}\n" for token in BERT_TOKENS), "utf-8")
    return len(BERT_TOKENS)


def save_marian_tokenizer(directory):
    """Two SentencePiece models and one list of pieces: end and unknown first, padding last."""
    vocabulary = {"</s>": 0, "<unk>": 1}
    for side, texts in (("source", TEXTS[:3]), ("target", TEXTS[3:])):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            vocab_size=40,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        (directory / f"{side}.spm").write_bytes(model.getvalue())
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        for number in range(processor.get_piece_size()):
            vocabulary.setdefault(processor.id_to_piece(number), len(vocabulary))
    vocabulary["<pad>"] = len(vocabulary)
    (directory / "vocab.json").write_text(json.dumps(vocabulary), "utf-8")
    languages = {"source_lang": "en", "target_lang": "de"}
    (directory / "tokenizer_config.json").write_text(json.dumps(languages), "utf-8")
    return len(vocabulary)
