"""What an allow list covers, and where a name may lead."""

import socket
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.sandbox.hosts import Endpoint, Entry, reach
from sagent.sandbox.profile import Profile


def covered(entry: str, asked: str) -> bool:
    return Entry.parse(entry).covers(Endpoint.parse(asked))


@pytest.mark.parametrize(
    ("entry", "asked"),
    [
        ("example.org", "example.org:443"),
        ("example.org", "EXAMPLE.org.:80"),
        ("Example.ORG.", "example.org:443"),
        ("example.org:8080", "example.org:8080"),
        ("*.example.org", "a.example.org:443"),
        ("*.example.org", "a.b.example.org:443"),
        ("*.example.org:22", "a.example.org:22"),
        ("bücher.example", "xn--bcher-kva.example:443"),
        ("*.BÜCHER.example", "a.xn--bcher-kva.example:443"),
        ("127.0.0.1:5432", "127.0.0.1:5432"),
        ("[::1]:8080", "[0:0:0:0:0:0:0:1]:8080"),
        ("10.0.0.5", "10.0.0.5:443"),
        ("registry", "registry:443"),
        ("_dmarc.example.org", "_dmarc.example.org:443"),
    ],
)
def test_covers(entry: str, asked: str) -> None:
    assert covered(entry, asked)


@pytest.mark.parametrize(
    ("entry", "asked"),
    [
        ("example.org", "a.example.org:443"),
        ("example.org", "example.org:22"),
        ("example.org:8080", "example.org:443"),
        ("*.example.org", "example.org:443"),
        ("*.example.org", "badexample.org:443"),
        ("*.example.org", "example.org.evil.example:443"),
        ("*.example.org", ".example.org.evil:443"),
        ("localhost:80", "127.0.0.1:80"),
        ("127.0.0.1", "localhost:80"),
        ("127.0.0.1", "[::ffff:127.0.0.1]:80"),
        ("[::1]:80", "127.0.0.1:80"),
        ("example.org", "xn--bcher-kva.example:443"),
    ],
)
def test_does_not_cover(entry: str, asked: str) -> None:
    try:
        assert not covered(entry, asked)
    except ValueError:
        assert asked.startswith(".")


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            ":443",
            "a b:443",
            "user@example.org:443",
            "user:pw@example.org:443",
            "example.org:0",
            "example.org:65536",
        ),
        *(
            "example.org:+1",
            "example.org:4_4",
            "example.org:٤٤٣",
            "example.org:443:443",
            "example..org:443",
            "-a.org:443",
        ),
        *(
            "2130706433:80",
            "0x7f.1:80",
            "0x7f000001:80",
            "0177.0.0.1:80",
            "127.1:80",
            "127.0.0.1.1:80",
            "127.0.0.01:80",
        ),
        *("256.1.1.1:80", "example.0x:80", "a.1:80", "0x:80", "1.:80", "::1:80", "[::1:80", "[::1]", "[127.0.0.1]:80"),
        *("[fe80::1%25eth0]:80", "[fe80::1%eth0]:80", "[::1]x:80", "[]:80", "exa%6dple.org:80", "a\\b:80", "a/b:80"),
        *("a\0b:80", "a\r\nb:80", "*.example.org:443", "*:443", f"{'a' * 64}.org:80", f"{'a.' * 127}aa:80", "①②⑦.1:80"),
    ],
)
def test_ambiguous_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a host|no port"):
        Endpoint.parse(text)


@pytest.mark.parametrize(
    "text", ["", "*", "*.", "*.1.2.3.4", "*.[::1]", "a.*.org", "*a.org", "http://a.org", "a.org/x"]
)
def test_meaningless_entry_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="not a host"):
        Entry.parse(text)


LABELS = st.sampled_from(
    ["example", "org", "evil", "a", "1", "127", "0x7f", "0", "localhost", "xn--a", "EXAMPLE", "é", ""]
)
HOSTS = st.one_of(
    st.lists(LABELS, max_size=5).map(".".join),
    st.text("019abx.:[]-_@/%\\*\0 é。①", max_size=16),
    st.ip_addresses().map(str),
    st.ip_addresses(v=6).map(lambda address: f"[{address}]"),
)
ENTRIES = st.lists(st.sampled_from(["example.org", "*.example.org", "a", "localhost:80", "127.0.0.1:80", "[::1]"]))


@given(HOSTS, st.sampled_from(["80", "443", "8080", "22", "", "x"]), ENTRIES)
def test_only_listed_hosts_pass(host: str, port: str, entries: list[str]) -> None:
    try:
        asked = Endpoint.parse(f"{host}:{port}")
    except ValueError:
        return
    assert asked.port == int(port)
    if isinstance(asked.host, str):  # what goes to a resolver is never read as an address there
        with pytest.raises(OSError, match="illegal"):
            socket.inet_aton(asked.host)
        assert asked.host.isascii()
        assert asked.host == asked.host.lower()
    if any(Entry.parse(entry).covers(asked) for entry in entries):
        names = {"example.org", "a"} & {*entries}
        fixed = {name for name in ("localhost", "127.0.0.1") if f"{name}:80" in entries and port == "80"}
        fixed |= {"::1"} & {entry.strip("[]") for entry in entries}
        below = "*.example.org" in entries and str(asked.host).endswith(".example.org")
        assert str(asked.host) in names | fixed or below
        assert port in ("80", "443")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("93.184.216.34", "public"),
        ("2606:2800:220:1::1", "public"),
        ("64:ff9b::5db8:d822", "public"),  # 93.184.216.34 by NAT64
        *((text, "private") for text in ("10.0.0.1", "172.16.9.1", "192.168.1.1", "100.64.0.1", "198.18.0.1")),
        *((text, "private") for text in ("fc00::1", "fd12::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::")),
        *((text, "forbidden") for text in ("127.0.0.1", "127.9.9.9", "0.0.0.0", "0.1.2.3", "169.254.169.254")),
        *((text, "forbidden") for text in ("100.100.100.200", "168.63.129.16", "224.0.0.1", "239.1.1.1", "240.0.0.1")),
        *((text, "forbidden") for text in ("255.255.255.255", "192.0.2.1", "192.0.0.192", "::", "::1", "fe80::1")),
        *((text, "forbidden") for text in ("fe80::1%eth0", "fec0::1", "ff02::1", "fd00:ec2::254", "fd20:ce::254")),
        *((text, "forbidden") for text in ("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "4000::1")),
        *((text, "forbidden") for text in ("64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::", "2001:0:4136:e378::1")),
    ],
)
def test_addresses_and_their_hosts(address: str, expected: str) -> None:
    assert reach(ip_address(address)) == expected


_PORTS = st.sampled_from(["", ":80", ":443", ":22"])
_HOSTS = st.sampled_from(["a.org", "b.a.org", "c.b.a.org", "xa.org", "A.org", "10.0.0.5"])
_ENTRIES = st.builds(
    lambda host, port, below: f"*.{host}{port}" if below and host[0] != "1" else host + port,
    _HOSTS,
    _PORTS,
    st.booleans(),
)


@given(
    st.lists(_ENTRIES, max_size=3),
    st.lists(_ENTRIES, max_size=3),
    st.builds("{}:{}".format, _HOSTS, st.sampled_from([80, 443, 22])),
)
def test_profiles_share_only_common_hosts(one: list[str], two: list[str], asked: str) -> None:
    both = Profile(domains=tuple(one)).within(Profile(domains=tuple(two))).domains

    def covering(domains: list[str] | tuple[str, ...], *, private: bool) -> bool:
        return any(covered(each, asked) for each in domains if not private or Entry.parse(each).port)

    assert covering(both, private=False) <= (covering(one, private=False) and covering(two, private=False))
    assert covering(both, private=True) <= (covering(one, private=True) and covering(two, private=True))
    if all(Entry.parse(each).port is None for each in (*one, *two)):
        assert covering(both, private=False) == (covering(one, private=False) and covering(two, private=False))
