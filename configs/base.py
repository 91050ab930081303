"""The base model of the paper on WMT14 English-German, as in Table 3 (paper sections 5 and 6).

Every key, with its unit or section of the paper; every other config is this one with other values.

    t2t-jax prepare --config=configs/base.py
    t2t-jax train --config=configs/base.py --workdir=W
    python -m experiments.sweep table3 --base=configs/base.py --workdir=W

TensorFlow Datasets downloads the corpus. For text files of your own, one sentence a line, add
--config.data.directory=DIR.

The paper: 100,000 steps, 12 hours on 8 P100; perplexity 4.92 and BLEU 25.8 on newstest2013.
Measured figures: docs/MEASURED.md.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """The paper's base model, complete and locked."""
    config = ConfigDict()
    config.seed = 0  # for initial parameters, dropout and batch order

    config.data = data = ConfigDict()
    # "translation" | "language_modelling" | "masked_language_modelling" | "classification"
    data.task = "translation"  # what to learn from the corpus
    data.source = "tfds"  # | "text": files in `directory` | "embedded": the grammar's corpus
    data.name = "wmt14_translate/de-en"  # tfds: dataset and its config, as in TFDS
    data.directory = ""  # of the text files; tfds: its data_dir, "": TFDS's default
    data.mixture = ""  # training corpora, times read per epoch: "A=1,B=3"; "": one corpus
    data.source_language = "en"  # to translate from; the ending of text files
    data.target_language = "de"  # to translate to; the ending of text files
    data.train = "train"  # split, or file name before the ending; 4.5 million pairs (section 5.1)
    data.dev = "validation"  # newstest2013, as in Table 3
    data.test = "test"  # newstest2014, as in Table 2
    data.corpus_seed = 0  # seed of the embedded grammar
    data.train_pairs = 20_000  # pairs, embedded corpus only
    data.vocabulary_kind = "bpe"  # "bpe" | "unigram" | "word" | "char"; section 5.1: byte pairs
    data.vocabulary_size = 37_000  # pieces, shared by both languages (section 5.1)
    data.character_coverage = 1.0  # share of characters that get pieces
    data.lowercase = False  # True: all text becomes lower case, translations too
    data.vocabulary_sentences = 10_000_000  # at most, both languages, to learn the pieces from
    data.max_length = 256  # tokens, end included; longer training pairs are dropped
    data.cache = "~/.cache/t2t_jax"  # of prepared data; T2T_JAX_CACHE replaces it, unless typed
    data.batching = "bucketed"  # by length | "packed": several pairs share a row
    data.packed_length = 512  # packed: tokens per target row; source rows follow from the corpus
    data.source_tokens_per_batch = 25_000  # tokens, padding included (section 5.1)
    data.target_tokens_per_batch = 25_000  # tokens, padding included (section 5.1)
    data.num_buckets = 36  # batch shapes; 8 leave 23 % padding; packed: only of dev and test
    data.length_multiple = 1  # tokens; lengths are multiples of it; 8 fills tiles, packed 128
    data.mask_rate = 0.15  # masked_language_modelling: share of tokens to guess

    config.model = model = ConfigDict()
    model.family = "encoder_decoder"  # | "decoder_only" | "encoder_only" | "recurrent"
    model.ensemble_size = 1  # models trained apart on the same batches; their logits are averaged
    model.vocabulary_rows = 40_960  # rows of the embedding; Table 3's parameter counts need this
    model.num_encoder_layers = 6  # N (section 3.1)
    model.num_decoder_layers = 6  # N (section 3.1)
    model.d_model = 512  # width of every sub-layer's output (section 3.1)
    model.d_ff = 2048  # width inside the feed-forward layers (section 3.3)
    model.num_heads = 8  # h (section 3.2.2)
    model.d_k = 64  # per head, queries and keys (section 3.2.2)
    model.d_v = 64  # per head, values (section 3.2.2)
    model.score_divisor = "sqrt_d_k"  # equation 1; | "sqrt_d_model" | "none"
    model.num_self_attentions = 1  # self-attention sub-layers per layer (section 3.1)
    model.feed_forward = True  # False: attention-only layers
    model.residual = True  # x + Sublayer(x) (section 3.1); False: Sublayer(x)
    # "sinusoidal" | "sinusoidal_concatenated" | "sinusoidal_tensor2tensor" | "learned" | "rotary"
    # | "relative" | "alibi" | "counted" | "scaled" | "none"
    model.positions = "sinusoidal"  # section 3.5
    model.first_position = 0  # where sinusoids begin
    model.relative_buckets = 32  # for positions "relative" (T5)
    model.relative_max_distance = 128  # tokens, for positions "relative"
    model.max_positions = 1_024  # rows of learned positions; divisor of "scaled" ones
    model.norm = "post"  # LayerNorm(x + Sublayer(x)) (section 3.1); "pre" | "none": in no layer
    model.norm_kind = "layer"  # | "rms": divides by the root mean square, no mean, no bias
    model.norm_epsilon = 1e-6  # added to the variance; the paper does not say
    model.activation = "relu"  # equation 2; | "gelu" | "gelu_tanh" | "swish" | "none"
    model.attention_init = "fused"  # "fused": Glorot for query, key, value as one; "separate"
    model.attention_biases = True  # in the four projections; Table 3's parameter counts need them
    model.feed_forward_biases = True  # b_1 and b_2 of equation 2
    model.tied_embeddings = "all"  # "all" (section 3.4) | "decoder" | "none"
    model.embedding_init = "inverse_sqrt_d_model"  # standard deviation; "unit": 1
    model.scale_embeddings = True  # times sqrt(d_model) (section 3.4)
    model.embedding_norm = False  # layer norm of embeddings + positions, as in BERT
    model.scale_logits = False  # True: divided by sqrt(d_model)
    model.output_bias = False  # one number per logit
    model.pooling = "none"  # encoder_only: "none" predicts masked tokens; "cls" | "mean" | "query"
    model.pooler_activation = "tanh"  # of the layer after pooling: "tanh" | "relu" | "none"
    model.num_classes = 2  # encoder_only with pooling
    model.recurrent_cell = "lstm"  # recurrent: "tanh" | "gru" | "lstm"
    model.recurrent_attention = True  # recurrent: decoder attends to the source
    model.dropout_rate = 0.1  # P_drop: sub-layer outputs, embeddings + positions (section 5.4)
    model.attention_dropout_rate = 0.0  # on attention weights; not in the paper
    model.feed_forward_dropout_rate = 0.0  # on hidden feed-forward units; not in the paper
    model.dropout_bits = 32  # random bits per element; 16 or 8 round the rate to so many bits
    model.attention_kernel = "einsum"  # "fused": in training, in bfloat16, one kernel
    model.fused_projections = False  # query, key, value as one product; same parameters
    model.scan_layers = False  # compile one layer and loop over it; same parameters
    model.rematerialise = False  # recompute layers for their gradients (gradient checkpointing)
    model.dtype = "float32"  # | "bfloat16"; parameters, softmax and loss stay float32

    config.training = training = ConfigDict()
    training.steps = 100_000  # updates (section 5.2)
    training.label_smoothing = 0.1  # eps_ls (section 5.4)
    training.label_smoothing_mass = "others"  # eps / (V - 1); "all": eps / V; "others_but_padding"
    training.loss_chunk_tokens = 0  # target tokens whose logits a device holds at once; 0: all
    training.logits_dtype = "float32"  # | "bfloat16": in storage, with model.dtype bfloat16
    training.microbatches = 1  # parts of a batch (gradient accumulation); 0: as few as fit
    training.schedule = "paper"  # "paper": equation 3; "peak": same, set by its peak; "linear"
    training.warmup_steps = 4_000  # updates (section 5.3)
    training.learning_rate_scale = 1.0  # factor on equation 3, schedule "paper" only
    training.peak_learning_rate = 7e-4  # at the end of warm-up, schedules "peak" and "linear"
    training.optimizer = "adam"  # section 5.3 | "adamw" | "adafactor" | "lion" | "muon"
    training.adam_beta1 = 0.9  # section 5.3; read by all but adafactor
    training.adam_beta2 = 0.98  # section 5.3; read by all but adafactor
    training.adam_epsilon = 1e-9  # section 5.3; read by adam, adamw and muon
    training.weight_decay = 0.0  # of matrices, per step, times the rate; not with adam
    training.gradient_clip_norm = 0.0  # of all gradients together, per token; 0: no clipping
    training.log_every_steps = 100  # updates between log entries; printed at most once in 10 s
    training.evaluate_every_steps = 1_000  # updates between dev perplexities
    training.checkpoint_every_steps = 1_000  # updates; the paper: every 10 minutes (section 6.1)
    training.checkpoint_every_minutes = 0.0  # instead of by steps; 0: by steps
    training.keep_checkpoints = 5  # the newest; plus one, so that a stop displaces none
    training.patience = 0  # early stopping: dev evaluations without improvement; 0: never
    training.nonfinite = "stop"  # at a non-finite loss or gradient; | "skip" | "rewind"
    training.max_nonfinite = 10  # "skip": steps in a row, "rewind": times in a run; then it stops

    config.decoding = decoding = ConfigDict()
    decoding.beam_size = 4  # hypotheses kept (section 6.1)
    decoding.length_penalty = 0.6  # alpha of ((5 + n) / 6)^alpha (section 6.1)
    decoding.length_penalty_formula = "gnmt"  # ((5 + n) / 6)^alpha; "power": n^alpha
    decoding.max_extra_tokens = 50  # longest output = source tokens + this (section 6.1)
    decoding.max_tokens = 0  # longest output for any source; 0: source + max_extra_tokens
    decoding.n_best = 1  # translations per sentence
    decoding.tokens_per_batch = 16_384  # source tokens x beams, at once
    decoding.average_checkpoints = 1  # the last n; 1: no averaging, as in Table 3 (Table 2: 5)
    decoding.weights_dtype = "float32"  # | "bfloat16": a search's products, summed in float32

    config.evaluation = evaluation = ConfigDict()
    evaluation.bleu_tokenizer = "13a"  # of sacreBLEU; | "intl" | "char" | "zh" | "none"
    evaluation.bleu_lowercase = False  # False: cased BLEU
    evaluation.bleu_on_dev = True  # newstest2013, which Table 3 reports
    evaluation.bleu_on_long = False  # as much extra work as test; embedded corpus only
    evaluation.num_probes = 0  # per kind, when scoring test; embedded corpus only

    config.devices = devices = ConfigDict()
    devices.data = -1  # copies of the model, which split a batch; -1: as many as fit
    devices.fsdp = 1  # devices that split a copy's parameters
    devices.tensor = 1  # devices that split each matrix product
    devices.compile = "jit"  # | "pmap": only data, one host
    devices.matmul_precision = "highest"  # for float32; | "high" | "default": docs/CLUSTERS.md

    return config.lock()
