"""A training step of our Transformer in PyTorch, written out by hand, for `plain_step`.

It is a program of its own that needs only PyTorch, so that it can be started with other libraries
preloaded. It reads one JSON line of sizes, then for each further line runs a step, times some more
and answers with their seconds per step.
"""

# pyright: reportMissingImports=false

import json
import sys
import time
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    """Multi-head attention, with one product for queries, keys and values of the same input."""

    def __init__(self, sizes: dict[str, Any]) -> None:
        super().__init__()
        d = sizes["d_model"]
        self.heads, self.dropout = sizes["num_heads"], sizes["attention_dropout_rate"]
        self.inputs, self.output = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x: Tensor, memory: Tensor | None, mask: Tensor | None) -> Tensor:
        """Attention of (B, T, D) to a memory (B, S, D) or itself; causal without a mask."""
        if memory is None:
            query, key, value = self.inputs(x).chunk(3, dim=-1)
        else:
            d = x.shape[-1]
            weight, bias = self.inputs.weight, self.inputs.bias
            query = F.linear(x, weight[:d], bias[:d])
            key, value = F.linear(memory, weight[d:], bias[d:]).chunk(2, dim=-1)
        query, key, value = (
            y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in (query, key, value)
        )
        dropout = self.dropout if self.training else 0.0
        is_causal = mask is None
        heads = F.scaled_dot_product_attention(query, key, value, mask, dropout, is_causal)
        return self.output(heads.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Sub-layers with residual sums and post-norm (paper section 3.1)."""

    def __init__(self, sizes: dict[str, Any], num_attentions: int) -> None:
        super().__init__()
        d = sizes["d_model"]
        self.attentions = nn.ModuleList(Attention(sizes) for _ in range(num_attentions))
        self.inner, self.outer = nn.Linear(d, sizes["d_ff"]), nn.Linear(sizes["d_ff"], d)
        norms = range(num_attentions + 1)
        self.norms = nn.ModuleList(nn.LayerNorm(d, eps=sizes["norm_epsilon"]) for _ in norms)
        self.dropout = nn.Dropout(sizes["dropout_rate"])

    def forward(
        self, x: Tensor, own_mask: Tensor | None, memory: Tensor | None, mask: Tensor | None
    ) -> Tensor:
        """The layer applied to (B, T, D); `own_mask` is None for causal self-attention."""
        seen = [(None, own_mask), (memory, mask)]
        for attention, norm, (looked_at, allowed) in zip(
            self.attentions, self.norms, seen, strict=False
        ):
            x = norm(x + self.dropout(attention(x, looked_at, allowed)))
        return self.norms[-1](x + self.dropout(self.outer(F.relu(self.inner(x)))))


class Transformer(nn.Module):
    """Encoder and decoder between an embedding table and its transpose."""

    def __init__(self, sizes: dict[str, Any]) -> None:
        super().__init__()
        self.sizes = sizes
        rows, d = sizes["vocabulary_rows"], sizes["d_model"]
        self.table = nn.Parameter(torch.randn(rows, d) * d**-0.5)
        encoder, decoder = range(sizes["num_encoder_layers"]), range(sizes["num_decoder_layers"])
        self.encoder = nn.ModuleList(Layer(sizes, 1) for _ in encoder)
        self.decoder = nn.ModuleList(Layer(sizes, 2) for _ in decoder)
        self.dropout = nn.Dropout(sizes["dropout_rate"])
        self.register_buffer("positions", torch.tensor(sizes["positions"]))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """The mean loss per token for (B, S) and (B, T), both padded with 0."""
        is_source = (source != 0)[:, None, None]
        memory = self.embedded(source)
        for layer in self.encoder:
            memory = layer(memory, is_source, None, None)
        x = self.embedded(F.pad(target, (1, -1), value=1))
        for layer in self.decoder:
            x = layer(x, None, memory, is_source)
        return F.cross_entropy(
            (x @ self.table.T).flatten(0, 1),
            target.flatten(),
            ignore_index=0,
            label_smoothing=self.sizes["label_smoothing"],
        )

    def embedded(self, ids: Tensor) -> Tensor:
        """Scaled embeddings of (B, T), plus positions."""
        x = F.embedding(ids, self.table) * self.sizes["d_model"] ** 0.5
        return self.dropout(x + self.positions[: ids.shape[1]])


def main() -> None:
    """Answers until there are no more lines."""
    sizes = json.loads(sys.stdin.readline())
    torch.set_num_threads(sizes["num_threads"])
    model = Transformer(sizes)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)
    source, target = torch.randint(4, sizes["vocabulary_rows"], (2, *sizes["shape"]))

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=sizes["rounds"]):
            loss = model(source, target)
        loss.backward()
        optimizer.step()

    for _ in sys.stdin:
        step()
        started = time.perf_counter()
        for _ in range(sizes["steps"]):
            step()
        print((time.perf_counter() - started) / sizes["steps"], flush=True)


if __name__ == "__main__":
    main()
