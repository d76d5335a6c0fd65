"""Text in older encodings: found, named with its certainty, and written back byte for byte."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sagent.lib.charset import guess
from sagent.lib.encoding import Binary, Text, decode, decode_output, readable

SAMPLES = [
    ("cp1251", "/* Открыть файл и прочитать заголовок */\nint open_it(void);\n"),
    ("cp1251", "Привет"),
    ("koi8-r", "# настройки сервера\nx = 1\n"),
    ("koi8-r", "Привет, мир\n"),
    ("cp866", "Привет, мир. Открыть файл\n"),
    ("latin-1", "Größe, Öl, Übung\n"),
    ("latin-1", "name = 'café'\n"),
    ("cp1252", "“quoted” — café naïve…\n"),
    ("cp1252", "it’s\n"),
    ("cp1252", "Preis: 5 €\n"),
    ("cp1252", "“quoted” — text"),
    ("cp1252", "\x1b[31mréd\x1b[0m\n"),
    ("koi8-r", "\x1b[1;33mпредупреждение\x1b[m\n"),
    ("cp1252", "© 2024 Acme"),
    ("latin-1", "20 °C, § 5\n"),
    ("cp1252", "• item one\n• item two"),
    ("cp1251", "// връща броя на записите\n"),
    ("koi8-r", "int остаток = 0;\n"),
    ("cp1250", "Üres sorok kezelése, elírások javítva\n"),
    ("big5", "移除沒有用到的程式碼\n"),
    ("euc-kr", "로그인 화면 깨짐 현상 해결\n"),
    ("gbk", "# 中文注释，测试文件编码\nx = 1\n"),
    ("gbk", "你好"),
    ("gbk", "# 配置\n"),
    ("big5", "# 中文註解，測試檔案編碼\nx = 1\n"),
    ("big5", "你好世界"),
    ("shift_jis", "# 日本語のコメント\nx = 1\n"),
    ("shift_jis", "設定ファイル"),
    ("euc-jp", "こんにちは世界"),
    ("euc-kr", "# 한국어 주석입니다\nx = 1\n"),
    ("euc-kr", "안녕하세요"),
    ("iso-8859-2", "Příliš žluťoučký kůň\n"),
    ("iso-8859-2", "Łódź i okolice, gęś\n"),
    ("cp1250", "Zażółć gęślą jaźń\n"),
    ("cp1253", "Καλημέρα κόσμε\n"),
    ("cp1254", "Türkçe ışık ğ\n"),
    ("cp1255", "שלום עולם\n"),
    ("cp1256", "مرحبا بالعالم\n"),
    ("tis-620", "สวัสดีชาวโลก\n"),
]


@pytest.mark.parametrize(("codec", "text"), SAMPLES)
def test_older_encodings_are_found(codec: str, text: str) -> None:
    data = text.encode(codec)
    decoded = decode(data)
    assert isinstance(decoded, Text)
    assert decoded.text == text
    assert decoded.encoding.name.startswith(("probably ", "perhaps "))
    assert decoded.encoding.encode(decoded.text) == data
    assert readable(data) == text
    assert decode_output(data).text == text


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-16", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize("text", ["größe\nzwei\n", "# 中文注释\nx = 1\n", "Привет\n"])
def test_wide_encodings_with_and_without_mark(codec: str, text: str) -> None:
    decoded = decode(text.encode(codec))
    assert isinstance(decoded, Text)
    assert decoded.text == text
    assert decoded.encoding.encode(text) == text.encode(codec)
    assert decode_output(text.encode(codec)).text.removeprefix("\ufeff") == text


@pytest.mark.parametrize(
    "head",
    [
        "# -*- coding: iso-8859-15 -*-\n",
        '<?xml version="1.0" encoding="iso-8859-15"?>\n',
        '<meta charset="iso-8859-15">\n',
        "// vim: set fileencoding=iso-8859-15 :\n",
    ],
)
def test_declared_encoding_is_certain(head: str) -> None:
    data = f"{head}# 5 € für Öl\n".encode("iso-8859-15")
    decoded = decode(data)
    assert isinstance(decoded, Text)
    assert "5 € für" in decoded.text
    assert decoded.encoding.name == "iso8859-15"


def test_wrong_declaration_is_not_believed() -> None:
    decoded = decode("# coding: euc-jp\n# Größe und Übung\n".encode("cp1252"))
    assert isinstance(decoded, Text)
    assert "Größe" in decoded.text


BINARY = [
    b"\x7fELF\x02\x01\x01" + bytes(50),
    b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    b"\x1f\x8b\x08\x00" + bytes(range(256)) * 3,
    bytes(range(256)) * 8,
    bytes((n * 167 + n * n * 31) % 256 for n in range(2000)),
    b"\x01\x00\x00\x00\x02\x00\x00\x00" * 20,
]


@pytest.mark.parametrize("data", BINARY)
def test_binary_data_stays_binary(data: bytes) -> None:
    assert isinstance(decode(data), Binary)


@given(st.binary(max_size=300))
@example("髙橋".encode("cp932") + b"\x87\x90\x81\xe0\xee\xe0 x\n")  # characters with two spellings
@example("日本語のテスト".encode("cp932") + b"\x87\x90\n")
@example(b"caf\xe9 \x81\x8d\n")
@example("# 中文注释".encode("gbk") + b"\xff\x80 x\n")
def test_text_is_written_back_the_same(data: bytes) -> None:
    decoded = decode(data)
    if isinstance(decoded, Text):
        assert decoded.encoding.encode(decoded.text) == data


@given(st.sampled_from(SAMPLES), st.binary(min_size=1, max_size=3), st.data())
def test_broken_bytes_of_old_text_are_kept(sample: tuple[str, str], broken: bytes, data: st.DataObject) -> None:
    whole = sample[1].encode(sample[0])
    place = data.draw(st.integers(0, len(whole)))
    damaged = whole[:place] + broken + whole[place:]
    decoded = decode(damaged)
    if isinstance(decoded, Text):
        assert decoded.encoding.encode(decoded.text) == damaged


@pytest.mark.parametrize(
    ("codec", "text", "broken"),
    [
        ("cp932", "日本語のテスト", b"\xff\xfd"),
        ("cp1251", "Ошибка: нет файла", b"\x98"),
        ("gbk", "中文注释测试", b"\xff\x80"),
        ("euc-kr", "큰 오류가 있습니다", b"\xff"),
    ],
)
def test_text_with_one_broken_byte_is_read(codec: str, text: str, broken: bytes) -> None:
    data = f"{text}\n".encode(codec) + broken + b"\n"
    decoded = decode(data)
    assert isinstance(decoded, Text)
    assert decoded.text.startswith(text)
    assert decoded.encoding.encode(decoded.text) == data


@given(st.binary(max_size=400))
def test_output_of_any_bytes_is_valid_text(data: bytes) -> None:
    texts = (decode_output(data).text, readable(data))
    assert not [text for text in texts if re.search("[\ud800-\udfff]", text)]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=200), st.binary(max_size=40))
def test_output_keeps_its_utf8_lines(text: str, other: bytes) -> None:
    whole = ["plain", *text.split("\n"), "größe"]
    data = "\n".join(whole).encode() + b"\n" + other.replace(b"\n", b"").replace(b"\0", b"")
    assert decode_output(data).text.split("\n")[:-1] == whole


@pytest.mark.parametrize(
    ("kept", "foreign", "codec"),
    [
        ("# Größe\n# Größe\n", "# Übung Ärger\n# Übung Ärger\n", "latin-1"),
        ("Straße\n", "naïve café\n", "latin-1"),
        ("Привет\n", "Привет мир это\n", "cp1251"),
        ("“quoted”\n", "naïve café, Größe\n", "cp1252"),
        ("中文注释\n", "日本語のコメント\n", "cp932"),
    ],
)
def test_file_with_lines_of_utf8_is_utf8(kept: str, foreign: str, codec: str) -> None:
    """Its other lines are shown with escapes, and not the whole file in an encoding that it does not have."""
    data = foreign.encode(codec) + kept.encode()
    found = decode(data)
    assert isinstance(found, Text)
    assert kept in found.text and found.encoding.name == "utf-8 with invalid bytes"
    assert found.encoding.encode(found.text) == data


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        ("gbk", "联通\n打开文件并读取标题\n返回结果\n如果文件不存在则报错\n"),
        ("koi8-r", "её\nещё один вопрос\n"),
        ("cp1251", "«США»\nРФ\nПётр\nвопрос\n"),
        ("cp1252", "ß\nÄ\nKäse\n"),
    ],
)
def test_line_that_could_be_utf8_decides_nothing(codec: str, text: str) -> None:
    found = decode(text.encode(codec))
    assert isinstance(found, Text)
    assert found.text == text


def test_lines_of_mixed_encodings_are_read() -> None:
    lines = ["plain", "Größe in UTF-8", "plain"] * 2
    data = "\n".join(lines).encode() + b"\n" + "Größe, Übung\n".encode("latin-1") + b"x\n" * 6
    data += "Открыть файл\n".encode("cp1251")
    output = decode_output(data)
    assert output.text == "\n".join(lines) + "\nGröße, Übung\n" + "x\n" * 6 + "Открыть файл\n"
    assert output.guesses == ("probably cp1252", "probably cp1251")


@pytest.mark.parametrize(
    ("text", "codec"), [("ß und Straße", "latin-1"), ("Открыть файл", "cp1251"), ("à côté", "cp1252")]
)
def test_line_of_two_encodings_is_doubted(text: str, codec: str) -> None:
    data = "ü é ".encode() + text.encode(codec)
    decoded = decode(data)
    assert isinstance(decoded, Text)
    assert decoded.encoding.mixed or decoded.encoding.name.startswith("perhaps "), decoded
    assert not [each for each in decode_output(data).guesses if each.startswith("probably ")]


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_output_cut_within_a_character(cut: int) -> None:
    data = "日本語\nplain\n日本語".encode()
    assert decode_output(data[cut:-cut], cut=True).guesses == ()
    assert "plain" in decode_output(data[cut:-cut], cut=True).text


@pytest.mark.parametrize("text", ["caf\u00e9", "\u00a9 2024", "plain\n\u00dc", "\u00fcber\nplain"])
def test_output_keeps_its_last_letter(text: str) -> None:
    output = decode_output(text.encode("latin-1"))
    assert output.text == text
    assert output.guesses


@given(st.text(st.sampled_from("ab./ \n\x1b\u00e9\u4e2d"), min_size=16), st.integers(1, 3))
def test_output_keeps_final_zero_bytes(text: str, zeros: int) -> None:
    """As `find -print0` writes them: no character was cut there."""
    data = (text + "\0" * zeros).encode()
    assert decode_output(data).text == data.decode()


def test_one_strange_ascii_byte_is_kept() -> None:
    data = b"x = 1\ny = '\x81'\n"
    decoded = decode(data)
    assert isinstance(decoded, Text)
    assert decoded.text.startswith("x = 1\ny = '")
    assert decoded.encoding.encode(decoded.text) == data


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        ("mac_cyrillic", "Однажды весною, в час небывало жаркого заката, в Москве появились два гражданина.\n"),
        ("cp1257", "Ķīniešu valodas mācību grāmata. Šodien ir jauka diena, un mēs ejam uz mežu.\n"),
        ("iso8859-13", "Šiandien graži diena, mes einame į mišką. Ąžuolas, ėglis, įstatymas, žmogus.\n"),
        ("cp775", "Šiandien graži diena, mes einame į mišką. Ąžuolas, ėglis, įstatymas, žmogus.\n"),
        ("cp850", "Die Straße führt über die Brücke. Größe, Übung, Äpfel und Öl. Schöne Grüße.\n"),
        ("cp437", "Die Straße führt über die Brücke. Größe, Übung, Äpfel und Öl. Schöne Grüße.\n"),
        ("cp866", "Однажды весною, в час небывало жаркого заката, в Москве появились два гражданина.\n"),
        ("mac_latin2", "Zażółć gęślą jaźń. Dzisiaj jest piękny dzień i idziemy do lasu na grzyby.\n"),
        ("mac_turkish", "Bugün hava çok güzel, ormana gidiyoruz. Şişli, ığdır.\n"),
        ("cp737", "Σήμερα είναι ωραία μέρα και πάμε στο δάσος.\n"),
        ("cp862", "היום יום יפה ואנחנו הולכים לפארק.\n"),
        ("mac_greek", "Σήμερα είναι ωραία μέρα και πάμε στο δάσος.\n"),
        ("cp037", "Hello World, this is written on a mainframe\n"),
    ],
)
def test_rare_encoding_is_read_or_doubted(codec: str, text: str) -> None:
    for part in (text, text * 4, text[:24], text.partition(" ")[0]):
        data = f"key = 1\n{part}".encode() if part.isascii() and codec != "cp037" else part.encode(codec)
        decoded = decode(data)
        if isinstance(decoded, Text):
            assert decoded.encoding.encode(decoded.text) == data
            is_right = decoded.text == data.decode(codec, "replace")
            short = sum(byte > 127 for byte in data) < 20
            assert is_right or short or not decoded.encoding.name.startswith("probably")


def test_guess_names_a_near_second_best() -> None:
    found = guess("kůň".encode("cp1250"))
    assert found is not None
    assert found.words.startswith("perhaps ")


@pytest.mark.parametrize(
    ("codec", "text"),
    [("iso2022_jp", "日本語の設定\nx = 1\n"), ("iso2022_jp_ext", "日本ｶﾅ\n"), ("iso2022_kr", "한국어 파일\nx = 1\n")],
)
def test_shifted_text_is_read_and_written(codec: str, text: str) -> None:
    data = text.encode(codec)
    decoded = decode(data)
    assert isinstance(decoded, Text)
    assert decoded.text == text
    assert decoded.encoding.encode(decoded.text.replace("x = 1", "x = 2")) == text.replace("x = 1", "x = 2").encode(
        codec
    )
    assert decode_output(data).text == text
    assert decode_output(b"\x1b[31mred\x1b[0m \x1b$ no shift\n").text == "\x1b[31mred\x1b[0m \x1b$ no shift\n"


WIDE = ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]


@pytest.mark.parametrize("codec", ["utf-8-sig", *WIDE])
@pytest.mark.parametrize("size", [1_023, 2_046, 2_047, 2_048, 2_049, 5_001])
def test_long_output_loses_no_letter(codec: str, size: int) -> None:
    text = f"größe {'x' * size} END"
    assert decode_output(text.encode(codec)).text == text


@pytest.mark.parametrize("codec", WIDE)
@pytest.mark.parametrize("size", [20, 5_000])
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_output_ending_in_letter_is_read(codec: str, size: int, cut: int) -> None:
    text = f"größe {'x' * size} END"
    data = text.encode(codec)[:-cut]
    lost = -(-cut // (4 if "32" in codec else 2))
    part = cut % (4 if "32" in codec else 2) != 0
    assert decode_output(data).text == text[:-lost] + "\ufffd" * part


@pytest.mark.parametrize("codec", ["utf-16", "utf-32"])
def test_short_marked_output_may_be_cut(codec: str) -> None:
    assert decode_output("ö\n".encode(codec)[:-1]).text == "ö\ufffd"
