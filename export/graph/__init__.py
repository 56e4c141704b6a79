"""ONNX graphs of Qwen2/2.5, Qwen3 and Qwen3.5 text that end in the readout of a decision.

What goes in and out (`interface` lists it for a model; B rows, T new tokens, S slots of past):

`tokens` [B, T], `lengths` [B], `past_lengths` [P]: row b has the new tokens tokens[b, :lengths[b]],
at least one; what stands behind them is padding, any legal id. They follow a past of past_lengths
tokens, from which their positions go on; 0 is a past like any other.

`past.*` and `new.*`: per full-attention layer `key` and `value`, [P, S, kv_heads, D], of which the
first past_lengths[p] slots are true; per hybrid layer `state` [P, value_heads, Dk, Dv] and `tail`
[P, conv - 1, C]. **P is 1 or B**: a past of one row is shared by all rows, and its keys and values
are broadcast by the product, never copied (the contrib operator needs copies). Keys and values
of the past may be longer than the true ones, so rows with different pasts go together.

`new.*.key` and `value` [B, T, ..] are those of the **new tokens only**: new[b, :lengths[b]] is
appended to the past by whoever keeps it. So B questions about a shared state don't hand the state
back B times, and a tree of pasts is kept as its pieces. `state` and `tail` are what the next
tokens continue from. All are exact for each row's own length: padding is at the end, causal
attention doesn't see it, and it neither decays a state, nor writes to it, nor enters the tail.

`label_ids` [B, L], `label_counts` [B], `prior` [B, L], `temperature` [B] give `logits` [B, L], raw,
and `probabilities` [B, L], softmax((z - prior) / T) over the first label_counts[b] labels; behind
them both are 0. With `LabelBank` the inputs stay and only those labels' rows are in the file (any
other id fails when it runs); with `FixedLabels` labels, prior and temperature are constants. The
caller checks lengths, counts and temperatures: a graph can't refuse.

How: one `make_*` a block, nodes named after the module (`model.layers.0.self_attn.q_proj/MatMul`).
In the last layer only the row that is read asks. The delta rule runs in chunks of 64 inside a Scan,
each inverse by block recursion (`inverse`); the graph has one size for all lengths. Standard graphs
are opset 17 and run on ONNX Runtime from 1.15 (tried: 1.15.0, 1.18.1, 1.19.2, 1.32.0), and from
1.19 beside numpy 2. The contrib flavour (`GatedDeltaNet`, `CausalConvWithState`, and
`GroupQueryAttention` with lengths of queries) was tried on 1.32.0 only; int4 on 1.18.1 and later.

Precision: weights, products and the attention's past in fp32; in fp16; weights in int8 with a scale
an output, and each row of the input in 8 bits with a scale of its own (standard), or both in blocks
(`MatMulNBits`, contrib; 4 bits always so). Everything else is fp32: residuals, norms, softmax,
decays and their projections, states, tails, readout. Memory grows with T · (S + T): long states
are run in parts, each continuing the last, best at multiples of 64.

`model.build_model` makes a graph and `save.save` writes it. Nothing is imported here: `interface`
and `options` serve where neither torch nor onnx is installed.
"""
