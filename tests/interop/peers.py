"""Models of other libraries with random weights, of small sizes that all differ, on disk."""

import torch
import transformers

from tests.interop.tokenizers import (
    save_bert_tokenizer,
    save_gpt2_tokenizer,
    save_marian_tokenizer,
)


def randomise(model, seed=0, deviation=0.3):
    """Draws every number anew, biases and norms too: a library's own start leaves them 0 and 1."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.is_floating_point() and "embed_positions" not in name:
            noise = torch.randn(tensor.shape, generator=generator) * deviation
            is_scale = tensor.ndim == 1 and name.endswith("weight")
            tensor.data.copy_(1 + noise if is_scale else noise)
    return model.eval()


def save_marian(directory, **changes):
    """A MarianMT; returns the model."""
    num_tokens = save_marian_tokenizer(directory)
    values = dict(
        vocab_size=num_tokens,
        d_model=12,
        encoder_layers=2,
        decoder_layers=3,
        encoder_attention_heads=3,
        decoder_attention_heads=3,
        encoder_ffn_dim=20,
        decoder_ffn_dim=20,
        pad_token_id=num_tokens - 1,
        decoder_start_token_id=num_tokens - 1,
        eos_token_id=0,
        forced_eos_token_id=0,
        max_position_embeddings=64,
        activation_function="swish",
        scale_embedding=True,
    )
    config = transformers.MarianConfig(**(values | changes))
    return _saved(transformers.MarianMTModel(config), directory)


def save_gpt2(directory, **changes):
    """A GPT-2; returns the model."""
    num_tokens = save_gpt2_tokenizer(directory)
    end = num_tokens - 1
    values = dict(n_positions=24, n_embd=15, n_layer=2, n_head=5, n_inner=22)
    values |= dict(vocab_size=num_tokens, bos_token_id=end, eos_token_id=end)
    return _saved(
        transformers.GPT2LMHeadModel(transformers.GPT2Config(**(values | changes))), directory
    )


def save_bert(directory, kind="BertForMaskedLM", **changes):
    """A BERT with one of its heads; returns the model."""
    # One row more than tokens, as in models whose table was rounded up.
    values = dict(vocab_size=save_bert_tokenizer(directory) + 1)
    values |= dict(hidden_size=14, num_hidden_layers=2, num_attention_heads=7)
    values |= dict(intermediate_size=22, max_position_embeddings=16)
    config = transformers.BertConfig(**(values | changes))
    return _saved(getattr(transformers, kind)(config), directory)


def save_distilbert(directory, kind="DistilBertForMaskedLM", **changes):
    """A DistilBERT with one of its heads; returns the model."""
    values = dict(vocab_size=save_bert_tokenizer(directory))
    values |= dict(dim=14, hidden_dim=22, n_layers=2, n_heads=7, max_position_embeddings=16)
    config = transformers.DistilBertConfig(**(values | changes))
    return _saved(getattr(transformers, kind)(config), directory)


def _saved(model, directory):
    randomise(model)
    model.save_pretrained(directory)
    return model
