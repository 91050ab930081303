"""The embedded English-German corpus: minutes on a laptop, nothing is downloaded.

    t2t-jax train --config=configs/tiny.py --workdir=W
    python -m experiments.sweep quickstart --base=configs/tiny.py --workdir=W

Measured figures: see README.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """A small model of the embedded corpus, complete and locked."""
    config = ConfigDict()
    config.seed = 0  # of initial parameters, dropout and the order of the batches

    config.data = data = ConfigDict()
    # "translation" | "language_modelling" | "masked_language_modelling" | "classification"
    data.task = "translation"  # what is learned of the corpus
    data.source = "embedded"  # the grammar's corpus | "text": files in `directory` | "tfds"
    data.name = ""  # tfds only: dataset and its config, as TFDS writes them
    data.directory = ""  # of the text files; tfds: its data_dir
    data.mixture = ""  # not of the embedded corpus; "A=1,B=3": train is once A and three times B
    data.source_language = "en"  # "en" | "de"
    data.target_language = "de"  # "de" | "en"
    data.train = "train"  # file name before the ending, text files only
    data.dev = "dev"  # file name before the ending, text files only
    data.test = "test"  # file name before the ending, text files only
    data.corpus_seed = 0  # of the embedded grammar
    data.train_pairs = 20_000  # pairs, embedded corpus only
    data.vocabulary_kind = "bpe"  # "bpe" | "unigram" | "word" | "char"
    data.vocabulary_size = 2_000  # pieces, both languages share them
    data.character_coverage = 1.0  # share of the characters that get pieces
    data.vocabulary_sentences = 10_000_000  # of both languages, at most so many teach the pieces
    data.max_length = 64  # tokens, end included; longer training pairs are dropped
    data.cache = "~/.cache/t2t_jax"  # where the vocabulary and the token ids are kept
    data.batching = "bucketed"  # by length | "packed": several pairs in a row
    data.packed_length = 256  # packed: tokens of a target row; the source's follows from the corpus
    data.source_tokens_per_batch = 1_024  # tokens, padding included
    data.target_tokens_per_batch = 1_024  # tokens, padding included
    data.num_buckets = 4  # bucketed: batch shapes, hence compilations of the training step
    data.mask_rate = 0.15  # masked_language_modelling: share of the tokens to be guessed

    config.model = model = ConfigDict()
    model.family = "encoder_decoder"  # | "decoder_only" | "encoder_only" | "recurrent"
    model.vocabulary_rows = 2_048  # rows of the embedding, at least vocabulary_size
    model.num_encoder_layers = 2  # N (paper section 3.1)
    model.num_decoder_layers = 2  # N (paper section 3.1)
    model.d_model = 128  # width of every sub-layer's output (section 3.1)
    model.d_ff = 256  # width inside the feed-forward layers (section 3.3)
    model.num_heads = 4  # h (section 3.2.2)
    model.d_k = 32  # of one head's queries and keys (section 3.2.2)
    model.d_v = 32  # of one head's values (section 3.2.2)
    model.num_self_attentions = 1  # self-attention sub-layers in each layer (section 3.1)
    # "sinusoidal" | "sinusoidal_concatenated" | "sinusoidal_tensor2tensor" | "learned" | "rotary"
    # | "relative" | "alibi" | "none"
    model.positions = "sinusoidal"  # section 3.5
    model.first_position = 0  # where the sinusoids begin
    model.relative_buckets = 32  # of positions "relative" (T5)
    model.relative_max_distance = 128  # tokens, of positions "relative"
    model.max_positions = 256  # rows of the table of learned positions, tokens
    model.norm = "post"  # "post": LayerNorm(x + Sublayer(x)) (section 3.1); "pre"
    model.norm_epsilon = 1e-6  # added to the variance; the paper does not say
    model.activation = "relu"  # of the feed-forward layers, equation 2
    model.attention_init = "separate"  # "fused": Glorot of query, key, value as one; "separate"
    model.attention_biases = True  # in the four projections
    model.feed_forward_biases = True  # b_1 and b_2 of equation 2
    model.tied_embeddings = "all"  # "all" (section 3.4) | "decoder" | "none"
    model.embedding_init = "inverse_sqrt_d_model"  # standard deviation; "unit": 1
    model.scale_embeddings = True  # times sqrt(d_model) (section 3.4)
    model.embedding_norm = False  # layer norm of embeddings + positions, as in BERT
    model.scale_logits = False  # over sqrt(d_model)
    model.output_bias = False  # one number for each logit
    model.pooling = "none"  # encoder_only: "none" predicts masked tokens; "cls" | "mean" | "query"
    model.pooler_activation = "tanh"  # of the layer after pooling: "tanh" | "relu" | "none"
    model.num_classes = 2  # encoder_only with pooling
    model.recurrent_cell = "lstm"  # recurrent: "tanh" | "gru" | "lstm"
    model.recurrent_attention = True  # recurrent: the decoder attends to the source
    model.dropout_rate = 0.0  # P_drop (section 5.4); so short a run does not overfit
    model.attention_dropout_rate = 0.0  # on attention weights; not in the paper
    model.feed_forward_dropout_rate = 0.0  # on hidden feed-forward units; not in the paper
    model.rematerialise = False  # compute layers again for their gradients, to save memory
    model.dtype = "float32"  # of the computation; parameters, softmax and loss stay float32

    config.training = training = ConfigDict()
    training.steps = 1_100  # updates
    training.label_smoothing = 0.1  # eps_ls (section 5.4)
    training.label_smoothing_mass = "others"  # eps / (V - 1); "all": eps / V; "others_but_padding"
    training.loss_chunk_tokens = 512  # target tokens whose logits are held at once; 0: all
    training.microbatches = 1  # parts a batch is computed in, one after another; 0: as few as fit
    training.schedule = "linear"  # equation 3 would still warm up when the run ends
    training.warmup_steps = 100  # updates
    training.learning_rate_scale = 1.0  # factor on equation 3, schedule "paper" only
    training.peak_learning_rate = 0.003  # at the end of warm-up, schedules "peak" and "linear"
    training.adam_beta1 = 0.9  # section 5.3
    training.adam_beta2 = 0.98  # section 5.3
    training.adam_epsilon = 1e-9  # section 5.3
    training.log_every_steps = 50  # updates between lines of training metrics
    training.evaluate_every_steps = 100  # updates between dev perplexities
    training.checkpoint_every_steps = 550  # updates
    training.keep_checkpoints = 2  # the newest so many stay on disk
    training.patience = 0  # dev evaluations without a better one before stopping; 0: never stop

    config.decoding = decoding = ConfigDict()
    decoding.beam_size = 4  # hypotheses kept (section 6.1)
    decoding.length_penalty = 0.6  # alpha of ((5 + n) / 6)^alpha (section 6.1)
    decoding.length_penalty_formula = "gnmt"  # ((5 + n) / 6)^alpha; "power": n^alpha
    decoding.max_extra_tokens = 50  # longest output = source tokens + this (section 6.1)
    decoding.max_tokens = 0  # longest output whatever the source; 0: source + max_extra_tokens
    decoding.n_best = 1  # translations given per sentence
    decoding.tokens_per_batch = 8_192  # source tokens x beams at once
    decoding.average_checkpoints = 1  # the last n; 1: the last alone

    config.evaluation = evaluation = ConfigDict()
    evaluation.bleu_tokenizer = "13a"  # of sacreBLEU
    evaluation.bleu_lowercase = False  # BLEU regards case
    evaluation.bleu_on_dev = False  # translating test is enough
    evaluation.bleu_on_long = False  # as much work again as test; embedded corpus only
    evaluation.num_probes = 500  # of each kind, when test is scored; embedded corpus only

    config.devices = devices = ConfigDict()
    devices.data = -1  # copies of the model, over which a batch is cut; -1: as many as fit
    devices.fsdp = 1  # devices over which a copy's parameters are cut
    devices.tensor = 1  # devices over which each matrix product is cut
    devices.compile = "jit"  # | "pmap": data alone, one host

    return config.lock()
