"""Which language a text is in, by its script and its function words: enough to describe a domain, not to filter by.

A script of one language decides by itself. Elsewhere the language wins whose function words cover most of the text, a word
of several lists counting as a share of each; a text with too few of them is `und`: source code, tables, names, a language
that is not listed. Codes are those of ISO 639-1.
"""
from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache

import numpy as np

UNKNOWN = "und"
LEAST_WORDS = 3     # function words of a language that a text must hold ...
LEAST_SHARE = 0.08  # ... and share of its words; running text has 30 to 50 % of them, comments in source code a few
LEAST_LETTERS = 10  # of a script that decides by itself
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")

# first and last code point of a block of letters, and its script (Unicode 16, Blocks.txt)
BLOCKS = (
    (0x0041, 0x024F, "latin"), (0x0370, 0x03FF, "el"), (0x0400, 0x052F, "cyrillic"), (0x0530, 0x058F, "hy"), (0x0590, 0x05FF, "he"),
    (0x0600, 0x06FF, "arabic"), (0x0900, 0x097F, "devanagari"), (0x0980, 0x09FF, "bn"), (0x0A80, 0x0AFF, "gu"), (0x0B80, 0x0BFF, "ta"),
    (0x0C00, 0x0C7F, "te"), (0x0C80, 0x0CFF, "kn"), (0x0D00, 0x0D7F, "ml"), (0x0E00, 0x0E7F, "th"), (0x10A0, 0x10FF, "ka"), (0x1780, 0x17FF, "km"),
    (0x1E00, 0x1EFF, "latin"), (0x1F00, 0x1FFF, "el"), (0x3040, 0x30FF, "kana"), (0x4E00, 0x9FFF, "han"), (0xAC00, 0xD7AF, "ko"))
KANA_SHARE = 0.05  # of Han and kana together; over it the text is Japanese

FUNCTION_WORDS = {
    "en": "the of and to in is that it for was on are as with be by this from or have an they which not you were at has but had we their can there would been will if more when who",
    "fr": "le la les de des du et en un une est que qui dans pour pas sur au aux par ne se ce cette sont avec plus il elle nous vous ou mais être leur ses son sa comme l'on c'est n'est",
    "de": "der die das und in den von zu mit ist des im für auf ein eine nicht dem sich als auch es an werden aus er hat dass sie nach wird bei einer um am sind noch wie einem über oder",
    "es": "el la los las de del y en que un una es por con para se no su al lo como más pero sus este esta son entre cuando muy sin sobre también me hasta hay desde ser fue",
    "pt": "o a os as de do da dos das e em um uma que é para com não por se no na nos nas ao mais como mas foi ele ela são pelo pela seu sua ou também já muito quando",
    "it": "il lo la i gli le di del della dei delle e in un una che è per con non si da dal nel nella al alla sono come più ma anche questo questa ha suo sua o ed essere",
    "nl": "de het een en van in is dat op te met voor niet aan er zijn als ook door maar bij of om uit naar dan wordt nog worden deze ze hij heeft kan werd meer hun over",
    "ca": "el la els les de del dels i en un una que és per amb no es al als com més però aquest aquesta són també ser ha seva seu entre molt perquè on",
    "sv": "och att det i som en på är av för med den till inte har de ett om men var jag sig från vi så kan han när eller ut hade skulle vid också efter nu mycket",
    "da": "og i at det er en til af på der de den med for ikke som et har var han fra jeg sig men om vi kan hun så når blev efter eller også skal ud meget",
    "nb": "og i det er på som en til av at for med de den ikke var har et om jeg men seg fra vi så kan han ble når etter eller også skal ut mye hva",
    "fi": "ja on ei se että oli hän mutta ovat kun tai joka myös sen en olla mitä niin kuin ole ne hänen tämä siitä jos vain voi sitä niiden sekä",
    "pl": "i w na z się nie do to że jest o jak po co ale za od przez dla są był tego jego tym ma być oraz które który czy już lub tylko może",
    "cs": "a v na se je že to do z o jako za pro ale by s tak jeho po jsou i byl od které který co nebo však až také při jen být jsem",
    "ro": "și în de la a cu nu pe un o este care să din mai pentru că sunt prin au ca fi dar sau ale al fost lui se le cele acest",
    "hu": "a az és hogy nem is egy ez meg de volt csak már mint vagy van ha el azt még ki be mert lehet amely minden után pedig kell",
    "tr": "ve bir bu için ile da de olarak çok ne daha gibi olan kadar en ama var değil sonra her ya ki o şu mi ise veya olduğu tarafından",
    "id": "dan yang di dari untuk dengan ini itu pada tidak dalam adalah ke oleh juga akan sebagai atau karena bisa ada mereka kami saya telah lebih tersebut dapat",
    "vi": "và của là có trong cho không được một các với những người này đã khi để từ cũng như về đến ra thì vào ở sẽ bị nhiều",
    "ru": "и в не на что с как это по но из у за от о для его к же так или то все был бы если они мы только она при есть были еще",
    "uk": "і в не на що з як це та до за від або його для у був про але які ми вони є й щоб при того так вже їх більше може також",
    "bg": "и в на се да за от е с не че по са как ще при като но към или това до има той си тя беше те след които може само",
    "sr": "и у је да се на за су од са као не који а то што би из или али о до по због није бити које само више након",
    "ar": "في من على إلى أن عن هذا هذه التي الذي ما لا كان مع هو هي أو كل بين بعد قد كما لم ذلك عند غير حتى كانت لكن",
    "fa": "و در به از که این را با است برای آن یک خود تا بر هم می نیز بود شد کرد های هر اما شده یا ما باید کند",
    "ur": "کے میں کی ہے اور سے کا کو اس یہ نے پر ہیں کہ ایک بھی تھا جو تو ہو کر نہیں گیا ان تھے ہی کیا لیے",
    "hi": "के में की है और से का को इस यह ने पर हैं कि एक भी था जो तो हो कर नहीं गया उन थे ही क्या लिए",
    "mr": "आणि आहे या च्या ते हे व मध्ये तो ही नाही आहेत होते होता त्या एक की पण केले साठी असे काही असून त्याच्या",
}
LATIN = ("en", "fr", "de", "es", "pt", "it", "nl", "ca", "sv", "da", "nb", "fi", "pl", "cs", "ro", "hu", "tr", "id", "vi")
WRITTEN_IN = {"latin": LATIN, "cyrillic": ("ru", "uk", "bg", "sr"), "arabic": ("ar", "fa", "ur"), "devanagari": ("hi", "mr")}


def language(text: str) -> str:
    """The code of the language of most of `text`, or UNKNOWN."""
    script, letters = _script(text)
    if script not in WRITTEN_IN:
        return script if letters >= LEAST_LETTERS else UNKNOWN
    words = Counter(WORD.findall(text.lower()))
    scores: dict[str, list[float]] = {}
    for word, count in words.items():
        known = [code for code in _codes().get(word, ()) if code in WRITTEN_IN[script]]
        for code in known:
            score = scores.setdefault(code, [0.0, 0])
            score[0] += count / len(known)
            score[1] += count
    best = max(scores, key=lambda code: (scores[code][0], code), default=UNKNOWN)
    if best == UNKNOWN or scores[best][1] < max(LEAST_WORDS, LEAST_SHARE * words.total()):
        return UNKNOWN
    return best


def held(texts: Sequence[str]) -> dict[str, int]:
    """UTF-8 bytes of texts in each language."""
    found: Counter[str] = Counter()
    for text in texts:
        found[language(text)] += len(text.encode())
    return dict(sorted(found.items()))


def _script(text: str) -> tuple[str, int]:
    """The script of most letters, or the language that it alone writes; and how many letters."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    place = np.searchsorted(_starts(), points, side="right") - 1
    inside = (place >= 0) & (points <= _ends()[np.maximum(place, 0)])
    counts: Counter[str] = Counter()
    for block, count in enumerate(np.bincount(place[inside], minlength=len(BLOCKS)).tolist()):
        counts[BLOCKS[block][2]] += count
    kana, han = counts.pop("kana", 0), counts.pop("han", 0)
    counts["ja" if kana > KANA_SHARE * (kana + han) else "zh"] += kana + han
    return max(counts.items(), key=lambda each: (each[1], each[0]))


@cache
def _starts() -> np.ndarray:
    return np.array([start for start, _, _ in BLOCKS], np.uint32)


@cache
def _ends() -> np.ndarray:
    return np.array([end for _, end, _ in BLOCKS], np.uint32)


@cache
def _codes() -> dict[str, tuple[str, ...]]:
    """Function word -> the languages that have it."""
    found: dict[str, list[str]] = {}
    for code, words in FUNCTION_WORDS.items():
        for word in dict.fromkeys(words.split()):
            found.setdefault(word, []).append(code)
    return {word: tuple(codes) for word, codes in found.items()}
