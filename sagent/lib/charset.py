"""The encoding of bytes that are text but not UTF-8, guessed from what the text would say.

Each encoding that was in use decodes the bytes, and its text is judged by what people write: words are of one alphabet,
capitals come first, and letters are those of a language. So a line or a word is enough, where statistics of bytes fail.
"""

import re
from bisect import bisect
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from sagent.lib.dataclass import dataclass

_MAX_SAMPLE_BYTES = 1_500
_FIRST_BYTES = 240
_STILL_LIKELY = 0.3
_SHARED = 0.4
_MIN_SCORE = 0.45  # below it no text is believed
_MIN_UNBROKEN = 7  # bytes that are not ASCII for each that has no meaning
_ESCAPES = re.compile("[\udc80-\udcff\uf8f0-\uf8f3]")  # the last are those of cp932 for bytes without meaning
_CLEAR_MARGIN = 0.12
_ENOUGH_LETTERS = 3  # for a guess that is called probable

_ENCODINGS = {
    "cp1252": 1.0, "gb18030": 0.99, "cp932": 0.99, "cp1251": 0.99, "euc_kr": 0.99, "cp949": 0.985, "big5": 0.985,
    "euc_jp": 0.985, "koi8_r": 0.985, "koi8_u": 0.98, "iso8859_2": 0.96, "cp1250": 0.965, "cp1254": 0.955,
    "cp1253": 0.96, "iso8859_7": 0.955, "cp1255": 0.95, "cp1256": 0.95, "cp874": 0.95, "cp866": 0.955,
    "iso8859_5": 0.94, "cp1257": 0.93, "cp850": 0.925, "cp852": 0.9, "iso8859_15": 0.92, "mac_roman": 0.9,
    "cp437": 0.89, "big5hkscs": 0.9,
}  # fmt: skip
"""What is considered, with how willingly."""

_NAMES = {
    "cp932": "cp932 (Shift-JIS)", "cp949": "cp949 (EUC-KR)", "gb18030": "gb18030 (GBK)", "euc_kr": "euc-kr",
    "euc_jp": "euc-jp", "koi8_r": "koi8-r", "koi8_u": "koi8-u", "mac_roman": "Mac Roman",
}  # fmt: skip

_LATIN: tuple[dict[str, float], ...] = (
    {
        "äöüß": 1.0, "àâæçéèêëîïôœùûüÿ": 1.0, "áéíñóúü": 1.0, "ãáâàçéêíõóôúü": 1.0, "àèéìíîòóùú": 1.0,
        "åäöéü": 1.0, "æøåéèóôü": 1.0, "äëïöüéèáóíúêû": 0.98, "àéèíïóòúüç": 0.97, "áéíóúýþæöð": 0.85,
    },
    {
        "áčďéěíňóřšťúůýž": 1.0, "ąćęłńóśźż": 1.0, "áéíóöőúüű": 1.0, "áäčďéíĺľňóôŕšťúýž": 0.99, "čćđšž": 0.98,
        "ăâîșşțţ": 0.97,
    },
    {"çğıiöşüâî": 1.0},
    {"äõöüšž": 0.97, "āčēģīķļņšūž": 0.97, "ąčęėįšųūž": 0.97},
)  # fmt: skip
"""Letters of languages that ASCII has not, those that share encodings together, with how common the language is."""
_CYRILLIC = {
    **dict.fromkeys("оеаинтсрвлкмдпу", 1.0), **dict.fromkeys("яыьгзбчйхжшюцщэ", 0.85), **dict.fromkeys("ёіїєґў", 0.75),
    **dict.fromkeys("фъ", 0.6), **dict.fromkeys("јљњћџђѓќѕ", 0.4),
}  # fmt: skip
_VOWELS = frozenset("аеёиоуыэюяіїє")
_GREEK = {**dict.fromkeys("αοιετσνρκςπμληυάίόέή", 1.0), **dict.fromkeys("γδωχθφβξζψώύϊϋΐΰ", 0.85)}
_HEBREW = {**dict.fromkeys("יוהלארתבמשנ", 1.0), **dict.fromkeys("קדחפעכגטזסצםןךףץ", 0.85)}
_FINALS = frozenset("ךםןףץ")
_MARKS = frozenset("\xa0“”‘’„‚–—…•«»‹›€£§©®™·°¡¿±²³½¼×÷µ№¥ªº´™¢")
_BOXES = re.compile(r"[\u2500-\u259f]")
_HANZI = frozenset(
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方"
    "多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心本前开但因只从想实日军者意无力它与长把机十民第公此已工使情明"
    "性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果加月话合回特代内信表化老给世位次"
    "度门任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太量再感"
    "建务做接必场件计管期市直命金指克许统区保至队形便空决治展科司五基眼书非则听白却界达光放强即像难且权思王象完设式色路记品住"
    "告类求据程北边死张该交规万取望觉术领共确传师清今切院让识候带导争运测试配置注释码编译函错误读写输行线缓存密钥户录网络服器"
    "您世界好请谢版接口默认值串列符类型启停止登录"
)  # fmt: skip
_HANJI = frozenset(
    "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作裡用道行所然家種事成方"
    "多經麼去法學如都同現當沒動面起看定天分還進好小部其些主樣理心本前開但因只從想實日軍者意無力它與長把機十民第公此已工使情明"
    "性知全三又關點正業外將兩高間由問很最重並物手應戰向頭文體政美相見被利什二等產或新己制身果加月話合回特代內信表化老給世位次"
    "度門任常先海通教兒原東聲提立及比員解水名真論處走義各入幾口認條平系氣題活更別打女變四神總何電數安少報才結反受目太量再感建"
    "務做接必場件計管期市直命金指克許統區保至隊形便空決治展科司五基眼書非則聽白卻界達光放強即像難且權思王象完設式色路記品住告"
    "類求據程北邊死張該交規萬取望覺術領共確傳師清今切院讓識候帶導爭運測試配置註釋檔案碼編譯函錯誤讀寫輸線緩存密鑰戶錄網路服器您"
)  # fmt: skip
_KANJI = frozenset(
    "日一国人年大十二本中長出三時行見月後前生五間上東四今金九入学高円子外八六下来気小七山話女北午百書先名川千水半男西電校語土"
    "木聞食車何南万毎白天母火右読友左休父雨会事自社発者地業方新場員立開手力問代明動京目通言理体田主題意不作用度強公持野以思家"
    "世多正安院心界教文元重近考画海売知道集別物使品計死特私始朝運終台広住真有口少町料工建空急止送切転研究起着病質待試族映親験"
    "仕味写字答夜音注帰歌悪図週室歩風紙黒花春館屋色走設定追加変更削除処値列型数関済認証接続込保存取得実行結果対象表示一覧情報登録環境"
)  # fmt: skip
_HANGUL = frozenset(
    "이다는의에가을를하고서지로한기은사도자시인대아리어니나정해일라그수제부전면원장주여만상있것보소선구들유계과게내비성안경공동우"
    "방조미식모물신화오무불진세관습합석설파입력출읽쓰녕요글테스트값형"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Guess:
    """An encoding that bytes may have; `certain` where the file says it itself. `other` is the second best, where it is
    near."""

    codec: str
    certain: bool = False
    clear: bool = True
    other: str = ""

    @property
    def words(self) -> str:
        """The guess for people: "probably koi8-r", "perhaps cp1252, or cp1250"."""
        name = charset_name(self.codec)
        if self.certain:
            return name
        if self.clear:
            return f"probably {name}"
        return f"perhaps {name}" + (f", or {charset_name(self.other)}" if self.other else "")


def charset_name(codec: str) -> str:
    """Return the name by which people know a codec."""
    return _NAMES.get(codec, codec.replace("iso8859_", "iso-8859-"))


def guess(data: bytes) -> Guess | None:
    """Return the encoding that the bytes have most probably; None if they read as text in none that is known. The data
    is not UTF-8, and may be cut at its end."""
    if (declared := _declared(data)) and _decoded(data, declared) is not None:
        return Guess(declared, certain=True)
    sample = _sample(data)
    found = _rank(sample[:_FIRST_BYTES], _ENCODINGS)
    if len(sample) > _FIRST_BYTES and found:
        found = _rank(sample, [one.codec for one in found if one.score > found[0].score - _STILL_LIKELY])
    if not found or found[0].score < _MIN_SCORE:
        return None
    near = [one for one in found if one.score > found[0].score - _CLEAR_MARGIN]
    letters = sum(letter.isalpha() and not letter.isascii() for letter in found[0].text)
    other = near[1].codec if len(near) > 1 else ""
    return Guess(near[0].codec, clear=not other and letters >= _ENOUGH_LETTERS, other=other)


class _Reading(NamedTuple):
    """The text of a sample in an encoding, and how much it reads like one."""

    score: float
    codec: str
    text: str


def _rank(sample: bytes, encodings: Iterable[str]) -> list[_Reading]:
    """Return the different readings of a sample, the best first."""
    readings = {codec: text for codec in encodings if (text := _decoded(sample, codec)) is not None}
    judged = sorted(
        (_Reading(_score(codec, text) * _ENCODINGS[codec], codec, text) for codec, text in readings.items()),
        key=lambda one: -one.score,
    )
    texts: set[str] = set()
    return [one for one in judged if one.score and not (one.text in texts or texts.add(one.text))]


def _declared(data: bytes) -> str:
    """The codec that a text names for itself at its beginning or its end (PEP 263, XML, HTML, Emacs, Vim)."""
    import codecs

    ends = data[:1024] + b"\n" + (data[-256:] if len(data) > 1024 else b"")
    for name in re.findall(rb"(?:coding[:=]|encoding=|charset=)[ \t]*[\"']?([-\w.:]+)", ends, re.IGNORECASE):
        try:
            codec = codecs.lookup(name.decode("ascii", "replace").removesuffix("-unix").removesuffix("-dos")).name
        except (LookupError, ValueError):
            continue
        if codec not in ("utf-8", "ascii") and not codec.startswith(("utf-16", "utf-32", "utf-7")):
            wide = {"iso8859-1": "cp1252", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932"}
            return wide.get(codec, codec)
    return ""


def _decoded(data: bytes, codec: str) -> str | None:
    """Decode data, but for a character that is cut at the end; None where more than a few bytes have no meaning."""
    import codecs

    try:
        text = codecs.getincrementaldecoder(codec)("surrogateescape").decode(data)
    except (UnicodeDecodeError, LookupError):
        return None
    broken = len(_ESCAPES.findall(text))
    return None if broken * _MIN_UNBROKEN > len(data) - sum(map(str.isascii, text)) else text


def _sample(data: bytes) -> bytes:
    """The lines that say something about the encoding, as many as are looked at."""
    found = re.search(rb"[\x80-\xff]", data)
    start = max(0, found.start() - 200) if found else 0
    lines = [line[:400] for line in data[start : start + 64 * 1024].split(b"\n") if not line.isascii()]
    return b"\n".join(dict.fromkeys(lines))[:_MAX_SAMPLE_BYTES]


_WORD = re.compile(r"(?:[^\W\d_ªº²³¹¼½¾][\u0300-\u036f\u05b0-\u05c7\u064b-\u0652\u0e31-\u0e4e]*)+")
_SCRIPTS = (
    (0x41, "latin"), (0x250, ""), (0x370, "greek"), (0x400, "cyrillic"), (0x530, ""), (0x590, "hebrew"),
    (0x600, "arabic"), (0x700, ""), (0xE00, "thai"), (0xE80, ""), (0x1E00, "latin"), (0x1F00, ""),
)  # fmt: skip
"""Where the letters of an alphabet begin; "" for others."""
_SCRIPT_STARTS = [first for first, _ in _SCRIPTS]
_EAST = {
    "gb18030": _HANZI,
    "big5": _HANJI,
    "big5hkscs": _HANJI,
    "cp932": _KANJI,
    "euc_jp": _KANJI,
    "euc_kr": frozenset[str](),
    "cp949": frozenset[str](),
}
_COMMON_ROWS = {"gb18030": (0xB0, 0xD7), "big5": (0xA4, 0xC6), "big5hkscs": (0xA4, 0xC6), "euc_jp": (0xB0, 0xCF)}


def _score(codec: str, text: str) -> float:
    """Return how much a text reads like one, from 0 to 1: the mean over all that is not ASCII."""
    if re.search(r"[\x80-\x9f\ue000-\uf8ef\uf8f4-\uf8ff]", text):
        return 0.0
    values: list[float] = []
    accented: Counter[str] = Counter()
    rest = 0
    for found in _WORD.finditer(text):
        word = found[0]
        if word.isascii():
            continue
        others = [letter for letter in word if not letter.isascii()]
        rest += len(others)
        if codec in _EAST:
            values += _judge_eastern(codec, word)
            continue
        scripts = {_script(letter) for letter in word}
        script = scripts.pop()
        if scripts or not _is_cased(word):
            values += [0.0] * len(others)
        elif script == "latin":
            if re.search(r"[^\x00-\x7f]{3}", word) or (len(word) == 1 and word.isupper()):
                values += [0.1] * len(others)
            else:
                accented.update(letter.lower() for letter in others)
        else:
            loud = 0.6 if len(word) == 1 else 0.75 if word.isupper() else 1.0
            values += [loud * value for value in _judge_word(script, word.lower())]
    values += [0.0] * (2 * len(_ESCAPES.findall(text)))
    values += _judge_accents(accented)
    text = _ESCAPES.sub("", text)
    values += _judge_marks(text, sum(not sign.isascii() for sign in text) - rest)
    return sum(values) / len(values) if values else 0.0


def _script(letter: str) -> str:
    return _SCRIPTS[bisect(_SCRIPT_STARTS, ord(letter)) - 1][1]


def _judge_accents(accented: "Counter[str]") -> list[float]:
    """Judge the letters of a text in Latin letters by the language that has most of them."""
    best = 0.0
    for family in _LATIN:
        known = frozenset("".join(family))
        for alphabet, weight in family.items():
            values = {
                letter: weight if letter in alphabet else _SHARED if letter in known else 0.2 for letter in accented
            }
            best = max(best, sum(values[letter] * number for letter, number in accented.items()))
    return [best / accented.total()] * accented.total() if accented else []


def _judge_word(script: str, word: str) -> list[float]:
    """Judge each letter of a word, in lower case, of an alphabet that is not Latin."""
    match script:
        case "cyrillic":
            silent = len(word) > 3 and _VOWELS.isdisjoint(word)
            return [_CYRILLIC.get(letter, 0.2) * (0.4 if silent else 1) for letter in word]
        case "greek":
            ends = "ς" not in word[:-1] and not (len(word) > 1 and word.endswith("σ"))
            return [_GREEK.get(letter, 0.2) * (1 if ends else 0.3) for letter in word]
        case "hebrew":
            ends = _FINALS.isdisjoint(word[:-1]) and len(word) < 12
            sure = 1.15 if word[-1] in _FINALS else 1
            return [_HEBREW.get(letter, 0.6) * (sure if ends else 0.3) for letter in word]
        case "arabic":
            return [0.95 if "\u0621" <= letter <= "\u0652" else 0.4 for letter in word]
        case "thai":
            vowels = len(word) < 3 or re.search("[\u0e30-\u0e3a\u0e40-\u0e44]", word)
            broken = re.search("^[\u0e30-\u0e3a\u0e47-\u0e4e]|[เแโไใ](?![ก-ฮ])|[\u0e31\u0e34-\u0e3a]{2}|[ฃฅ฿๏๚๛]", word)
            return [0.3 if broken or not vowels or len(word) < 2 else 0.9] * len(word)
        case _:
            return [0.2] * len(word)


def _judge_eastern(codec: str, word: str) -> list[float]:
    """Judge each letter of a word that was decoded as Chinese, Japanese or Korean."""
    values: list[float] = []
    for place, letter in enumerate(word):
        if letter.isascii():
            continue
        around = word[max(0, place - 1) : place] + word[place + 1 : place + 2]
        alone = bool(around) and around.isascii()
        values.append(_judge_sign(codec, letter) * (0.3 if alone else 1))
    if codec in ("cp932", "euc_jp") and len(values) > 5 and not re.search(r"[\u3040-\u30ff]", word):
        return [value * 0.7 for value in values]
    return values


def _judge_sign(codec: str, letter: str) -> float:
    if "\uff66" <= letter <= "\uff9f":
        return 0.5 if codec == "cp932" else 0.1
    if "\u3005" <= letter <= "\u30ff":
        return 0.95 if codec in ("cp932", "euc_jp") else 0.25
    if "\uac00" <= letter <= "\ud7a3":
        return (1.0 if letter in _HANGUL else 0.5) if _has(letter, "euc_kr") else 0.1
    if "\u3400" <= letter <= "\u9fff":
        if letter in _EAST[codec]:
            return 1.0
        first, last = _COMMON_ROWS.get("euc_jp" if codec == "cp932" else codec, (1, 0))
        data = letter.encode("euc_jp" if codec == "cp932" else codec, "ignore")
        common = len(data) == 2 and first <= data[0] <= last and (codec != "gb18030" or data[1] > 0xA0)
        standard = codec != "gb18030" or _has(letter, "gb2312")
        return 0.55 if common else 0.2 if standard else 0.05
    return 0.2


def _has(letter: str, codec: str) -> bool:
    try:
        letter.encode(codec)
    except UnicodeEncodeError:
        return False
    return True


def _judge_marks(text: str, number: int) -> list[float]:
    """Judge the signs of a text that are neither letters nor ASCII; there are so many."""
    if not number:
        return []
    values: list[float] = []
    for place, sign in enumerate(text):
        if sign.isascii() or _WORD.fullmatch(f"a{sign}"):
            continue
        before, after = text[place - 1 : place], text[place + 1 : place + 2]
        inside = before.isalpha() and after.isalpha()
        if sign in _MARKS:
            values.append(0.95 if sign in "’·—–" else 0.1 if inside else 0.85)
        elif "\u3000" <= sign <= "\u303f" or "\uff01" <= sign <= "\uff65":
            values.append(0.8)
        elif _BOXES.match(sign):
            values.append(0.6 if _BOXES.match(before) or _BOXES.match(after) else 0.05)
        else:
            values.append(0.1)
    return values


def _is_cased(word: str) -> bool:
    """Return True if the capitals of a word stand where people write them."""
    return word.islower() or word.isupper() or word[1:].islower() or not (word.upper() != word or word.lower() != word)
