"""The texts of a page, in English and German."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

Language = Literal["en", "de"]
LANGUAGES: tuple[str, ...] = get_args(Language)


class Stage(NamedTuple):
    """A stage of the data's path: its equation, and a title and two plain sentences per language.

    In an equation, _{...} is a subscript and ^{...} a superscript.
    """

    name: str
    equation: str
    title: Mapping[str, str]
    text: Mapping[str, str]


def _stage(name: str, equation: str, en: tuple[str, str], de: tuple[str, str]) -> Stage:
    return Stage(name, equation, {"en": en[0], "de": de[0]}, {"en": en[1], "de": de[1]})


# In the order of the data.
STAGES: tuple[Stage, ...] = (
    _stage(
        "text",
        "text → (id_{1}, …, id_{n})",
        (
            "Text, pieces and ids",
            "The vocabulary cuts the text into pieces of words, and each piece has a number, its "
            "id. ▁ or Ġ stands for the space before a word, and the start and end tokens are "
            "pieces like all others.",
        ),
        (
            "Text, Wortstücke und Nummern",
            "Das Vokabular zerlegt den Text in Wortstücke, und jedes Stück hat eine Nummer, seine "
            "ID. ▁ oder Ġ steht für das Leerzeichen vor einem Wort, und Start- und Endzeichen "
            "sind Stücke wie alle anderen.",
        ),
    ),
    _stage(
        "embedding",
        "x_{i} = √d_{model} · E[id_{i}]",
        (
            "Embedding",
            "Each id picks a row of a learned table: the vector that stands for the piece. Pieces "
            "that are used in similar ways come to point in similar directions, which the cosine "
            "measures.",
        ),
        (
            "Embedding",
            "Jede ID wählt eine Zeile einer gelernten Tabelle: den Vektor, der für das Stück "
            "steht. Stücke, die ähnlich gebraucht werden, zeigen am Ende in ähnliche Richtungen; "
            "das misst der Kosinus.",
        ),
    ),
    _stage(
        "positions",
        "PE_{(pos, 2i)} = sin(pos / 10000^{2i/d}),  PE_{(pos, 2i+1)} = cos(pos / 10000^{2i/d})",
        (
            "Positions",
            "Attention alone does not know where a token stands, so the model is told. With "
            "sinusoids each pair of columns is a wave of its own length, and how similar two "
            "positions are depends only on their distance.",
        ),
        (
            "Positionen",
            "Die Attention allein weiß nicht, wo ein Token steht; das muss man dem Modell sagen. "
            "Bei Sinuskurven ist jedes Spaltenpaar eine Welle eigener Länge, und wie ähnlich zwei "
            "Positionen einander sind, hängt nur von ihrem Abstand ab.",
        ),
    ),
    _stage(
        "attention",
        "Attention(Q, K, V) = softmax(Q K^{T} / √d_{k}) V",
        (
            "One head, step by step",
            "Each token asks with its query and is found by its key: their product, divided by "
            "√d_{k}, is the score. Where the mask forbids looking there is no score, and the "
            "softmax turns the other scores of a row into weights whose sum is one.",
        ),
        (
            "Ein Kopf, Schritt für Schritt",
            "Jedes Token fragt mit seiner Query und wird an seinem Key gefunden: Das Produkt der "
            "beiden, geteilt durch √d_{k}, ist der Score. Wo die Maske den Blick verbietet, gibt "
            "es keinen Score, und die Softmax macht aus den übrigen einer Zeile Gewichte, deren "
            "Summe eins ist.",
        ),
    ),
    _stage(
        "heads",
        "MultiHead(Q, K, V) = Concat(head_{1}, …, head_{h}) W^{O}",
        (
            "All heads",
            "Several heads look at the same time, each through projections of its own. Point at a "
            "token to see what it looks at: each head has its colour, and the stronger the line, "
            "the larger the weight.",
        ),
        (
            "Alle Köpfe",
            "Mehrere Köpfe schauen gleichzeitig, jeder durch eigene Projektionen. Zeigen Sie auf "
            "ein Token, um zu sehen, wohin es schaut: Jeder Kopf hat seine Farbe, und je kräftiger "
            "die Linie, desto größer das Gewicht.",
        ),
    ),
    _stage(
        "residual",
        "LayerNorm(x + Sublayer(x))",
        (
            "Residual and norm",
            "A sub-layer adds something to the vector that it is given, so what the vector held is "
            "not lost on the way. The angle says how far the sub-layer and its norm turn it; the "
            "ratio, how long the addition is compared with the vector.",
        ),
        (
            "Residualverbindung und Norm",
            "Eine Teilschicht addiert etwas zu dem Vektor, den sie bekommt; so geht sein Inhalt "
            "unterwegs nicht verloren. Der Winkel sagt, wie weit die Teilschicht und ihre Norm ihn "
            "drehen; das Verhältnis, wie lang das Addierte gemessen am Vektor ist.",
        ),
    ),
    _stage(
        "feed_forward",
        "FFN(x) = max(0, x W_{1} + b_{1}) W_{2} + b_{2}",
        (
            "Feed-forward",
            "A small network works on each position by itself, and each of its d_{ff} units "
            "answers to a pattern of its own. The share of active units, those above zero, says "
            "how many answer to a token.",
        ),
        (
            "Feed-Forward-Netz",
            "Ein kleines Netz bearbeitet jede Position für sich, und jede seiner d_{ff} Einheiten "
            "spricht auf ein eigenes Muster an. Der Anteil der aktiven Einheiten, also derer über "
            "null, sagt, wie viele auf ein Token ansprechen.",
        ),
    ),
    _stage(
        "contexts",
        "z_{i} = Σ_{j} a_{ij} v_{j},  cos(z_{i}, z_{j}) = z_{i} · z_{j} / (|z_{i}| |z_{j}|)",
        (
            "Contexts, and what is handed on",
            "What a token gathers by its weights is its context, and after the last layer the "
            "encoder hands one vector for each token to the decoder. Do tokens that look at each "
            "other become similar? Compare the weights with the cosines beside them.",
        ),
        (
            "Kontexte, und was weitergegeben wird",
            "Was ein Token nach seinen Gewichten einsammelt, ist sein Kontext, und nach der "
            "letzten Schicht gibt der Encoder für jedes Token einen Vektor an den Decoder weiter. "
            "Werden Token, die einander anschauen, einander ähnlich? Vergleichen Sie die Gewichte "
            "mit den Kosinuswerten daneben.",
        ),
    ),
    _stage(
        "steps",
        "P(y_{t} | y_{<t}) = softmax(E z_{t})",
        (
            "Token by token",
            "The text is written one token after another: the mask hides what is not there yet, "
            "and a translation also looks at the source. For each step the likeliest next tokens "
            "are shown, with their logits and probabilities.",
        ),
        (
            "Token für Token",
            "Der Text entsteht ein Token nach dem anderen: Die Maske verdeckt, was noch nicht "
            "dasteht, und eine Übersetzung schaut auch auf die Quelle. Zu jedem Schritt stehen "
            "hier die wahrscheinlichsten nächsten Token mit Logits und Wahrscheinlichkeiten.",
        ),
    ),
    _stage(
        "search",
        "score(y) = log P(y | x) / ((5 + |y|) / 6)^{α}",
        (
            "Greedy and beam search",
            "Greedy search takes the likeliest token at each step, beam search keeps several "
            "hypotheses side by side. Each branch says what ended it, and the best score wins: the "
            "log-probability divided by a length penalty.",
        ),
        (
            "Greedy-Suche und Beam-Suche",
            "Die Greedy-Suche nimmt in jedem Schritt das wahrscheinlichste Token, die Beam-Suche "
            "behält mehrere Hypothesen nebeneinander. Jeder Zweig sagt, was ihn beendet hat, und "
            "der beste Score gewinnt: die Log-Wahrscheinlichkeit geteilt durch die Längenstrafe.",
        ),
    ),
    _stage(
        "classes",
        "P(c | x) = softmax(W p + b)",
        (
            "Class",
            "All positions become one vector p, and its product with a vector for each class is "
            "the class's logit. The softmax makes the logits into probabilities.",
        ),
        (
            "Klasse",
            "Aus allen Positionen wird ein Vektor p, und sein Produkt mit dem Vektor einer Klasse "
            "ist deren Logit. Die Softmax macht aus den Logits Wahrscheinlichkeiten.",
        ),
    ),
    _stage(
        "guesses",
        "P(x_{i} | x_{1}, …, [MASK]_{i}, …, x_{n})",
        (
            "Guesses",
            "Each token in turn is masked, and the model guesses from the others what stood there. "
            "The likeliest tokens are shown with their logits and probabilities.",
        ),
        (
            "Vermutungen",
            "Ein Token nach dem anderen wird verdeckt, und das Modell errät aus den übrigen, was "
            "dort stand. Gezeigt werden die wahrscheinlichsten Token mit Logits und "
            "Wahrscheinlichkeiten.",
        ),
    ),
)

# Words and short sentences of the page, by name: English, German.
_LABELS: dict[str, tuple[str, str]] = {
    "title": ("A sentence inside the model", "Ein Satz im Inneren des Modells"),
    "language": ("Language", "Sprache"),
    "sentence": ("Sentence", "Satz"),
    "attention": ("Attention", "Attention"),
    "layer": ("Layer", "Schicht"),
    "head": ("Head", "Kopf"),
    "all_heads": ("all heads", "alle Köpfe"),
    "shown_heads": ("Heads shown", "Gezeigte Köpfe"),
    "numbers": ("Numbers", "Zahlen"),
    "contents": ("Contents", "Inhalt"),
    "encoder": ("encoder", "Encoder"),
    "decoder": ("decoder", "Decoder"),
    "cross": ("decoder → source", "Decoder → Quelle"),
    "pooling": ("pooling", "Pooling"),
    "source": ("The encoder reads", "Der Encoder liest"),
    "inputs": ("The decoder reads", "Der Decoder liest"),
    "outputs": ("What follows each token", "Was auf jedes Token folgt"),
    "output": ("Output", "Ausgabe"),
    "equation": ("Usually", "Üblich"),  # a config may depart from it
    "token": ("Token", "Token"),
    "id": ("id", "ID"),
    "cosine": ("cosine", "Kosinus"),
    "neighbours": ("Nearest in the table", "Nächste Nachbarn in der Tabelle"),
    "map": (
        "Map in two dimensions: tokens of the text, and neighbours in grey",
        "Karte in zwei Dimensionen: Token des Textes, Nachbarn in Grau",
    ),
    "vectors": ("Vectors, one row per token", "Vektoren, eine Zeile je Token"),
    "layout": ("Layout", "Anordnung"),
    "own_layout": ("this model's", "die dieses Modells"),
    "sinusoidal": ("paper: sine and cosine in turn", "Paper: Sinus und Kosinus im Wechsel"),
    "sinusoidal_concatenated": (
        "halves: sines left, cosines right",
        "Hälften: links Sinus, rechts Kosinus",
    ),
    "sinusoidal_tensor2tensor": (
        "tensor2tensor: halves, other lengths",
        "tensor2tensor: Hälften, andere Längen",
    ),
    "learned": ("learned", "gelernt"),
    "rotary": ("rotary", "rotierend (rotary)"),
    "relative": ("relative", "relativ"),
    "alibi": ("ALiBi", "ALiBi"),
    "counted": ("counted", "gezählt"),
    "scaled": ("counted, from 0 to 1", "gezählt, von 0 bis 1"),
    "none": ("none", "keine"),
    "no_positions": (
        "This model is not told any positions.",
        "Diesem Modell werden keine Positionen mitgeteilt.",
    ),
    "positions_map": ("Positions, one row each", "Positionen, eine Zeile je Position"),
    "waves": ("Waves: columns of the table", "Wellen: Spalten der Tabelle"),
    "position": ("position", "Position"),
    "likeness": ("Similarity of two positions", "Ähnlichkeit zweier Positionen"),
    "likeness_rotary": (
        "Share of the product of equal vectors left by rotation",
        "Anteil am Produkt gleicher Vektoren nach der Drehung",
    ),
    "by_distance": ("By distance", "Nach Abstand"),
    "distance": ("distance", "Abstand"),
    "bias": ("Added to the scores", "Addiert zu den Scores"),
    "query": ("Queries Q", "Queries Q"),
    "key": ("Keys K", "Keys K"),
    "raw": ("Scores Q Kᵀ", "Scores Q Kᵀ"),
    "divided": ("Scores over {}", "Scores durch {}"),
    "mask": ("Mask: what may be seen", "Maske: was zu sehen ist"),
    "weights": ("Weights (softmax)", "Gewichte (Softmax)"),
    "looking": ("tokens that look", "Token, die schauen"),
    "looked_at": ("tokens looked at", "Token, auf die geschaut wird"),
    "context_cosine": (
        "Cosine between this head's contexts",
        "Kosinus zwischen Kontexten dieses Kopfes",
    ),
    "state_cosine": (
        "Cosine between vectors after layer",
        "Kosinus zwischen Vektoren nach Schicht",
    ),
    "memory_cosine": (
        "Cosine between what the encoder hands on",
        "Kosinus zwischen dem, was der Encoder weitergibt",
    ),
    "angle": ("Angle of the turn, degrees", "Drehwinkel, Grad"),
    "share": (
        "Addition relative to the vector, |Sublayer(x)| / |x|",
        "Addiertes im Verhältnis zum Vektor, |Sublayer(x)| / |x|",
    ),
    "self_attention": ("self-attention", "Self-Attention"),
    "cross_attention": ("cross-attention", "Cross-Attention"),
    "feed_forward": ("feed-forward", "Feed-Forward"),
    "active": ("Share of active units", "Anteil aktiver Einheiten"),
    "step": ("Step", "Schritt"),
    "written": ("Written so far", "Bisher geschrieben"),
    "looks_back": ("Masked self-attention looks at", "Maskierte Self-Attention schaut auf"),
    "looks_across": ("Cross-attention looks at", "Cross-Attention schaut auf"),
    "next": ("Next token", "Nächstes Token"),
    "hidden": ("Hidden token", "Verdecktes Token"),
    "logit": ("logit", "Logit"),
    "probability": ("probability", "Wahrscheinlichkeit"),
    "chosen": ("chosen", "gewählt"),
    "given": ("given", "vorgegeben"),
    "class": ("class", "Klasse"),
    "greedy": ("Greedy search", "Greedy-Suche"),
    "beam": ("Beam search, width", "Beam-Suche, Breite"),
    "score": ("score", "Score"),
    "best": ("best", "beste"),
    "end": ("end token", "Endzeichen"),
    "limit": ("longest allowed, had to end", "Höchstlänge, musste enden"),
    "crowded_out": ("crowded out by likelier ones", "von wahrscheinlicheren verdrängt"),
    "cannot_win": ("cannot win any more", "kann nicht mehr gewinnen"),
    "not_searched": (
        "Nothing is searched here: the control reads the tokens that the model wrote.",
        "Hier wird nicht gesucht: Die Kontrolle liest die Token, die das Modell geschrieben hat.",
    ),
    "hint_cells": (
        "Point at a cell, or move with the arrow keys, to read its value.",
        "Zeigen Sie auf ein Feld oder nutzen Sie die Pfeiltasten, um seinen Wert zu lesen.",
    ),
    "control": (
        "control: queries, keys and values drawn at random",
        "Kontrolle: Queries, Keys und Values zufällig",
    ),
    "no_script": (
        "A script draws this page, and scripts are switched off.",
        "Ein Skript zeichnet diese Seite, und Skripte sind abgeschaltet.",
    ),
    "nothing_there": ("This model has no such part.", "Dieses Modell hat keinen solchen Teil."),
}


def labels(language: str) -> dict[str, str]:
    """The words of a page in one language."""
    return {name: texts[LANGUAGES.index(language)] for name, texts in _LABELS.items()}
