"""Allowed hosts: entries of an allow list, a client's target, and the addresses that a name may resolve to.

An entry is "example.org", "*.example.org" (subdomains only) or a literal address ("10.0.0.5", "[::1]"), each with an
optional ":PORT"; without one it means ports 80 and 443. A name's owner decides where it resolves, so a name reaches
public addresses only. An entry with a port was written for one service, so it also reaches private addresses (an
intranet's registry is "registry.corp:443"). No name reaches loopback, link-local addresses or a cloud's metadata
service, except "localhost", which is this machine. List anything else as an address.
"""

import re
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Literal, TypeAlias

from sagent.lib.dataclass import dataclass

Address: TypeAlias = IPv4Address | IPv6Address
Reach: TypeAlias = Literal["public", "private", "forbidden"]

_AUTHORITY = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<name>[^\s:@/\\\[\]%*]+))(?::(?P<port>[0-9]{1,5}))?")
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?!.{{254}})(?:{_LABEL}\.)*{_LABEL}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")  # what makes the system read a host that ends so as an IPv4 address
_WEB = (80, 443)
_DEFAULT_PORTS = (*_WEB, 8080, 8443)  # ports where public web pages are served

_GLOBAL_V6 = ip_network("2000::/3")
_NAT64 = ip_network("64:ff9b::/96")
# 198.18.0.0/15: VPN clients resolve all names to it.
_PRIVATE = tuple(
    map(ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "198.18.0.0/15", "fc00::/7"))
)
# Metadata services of Alibaba, Azure, Oracle, AWS and Google that are not link-local.
_METADATA = tuple(
    map(ip_network, ("100.100.100.200", "168.63.129.16", "192.0.0.0/24", "fd00:ec2::/32", "fd20:ce::254"))
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A host and a port that a client asks for. A name is in lower case, in ASCII and without a dot at its end."""

    host: str | Address
    port: int

    def __str__(self) -> str:
        return f"{_spelled(self.host)}:{self.port}"

    @property
    def fixed(self) -> tuple[Address, ...]:
        """The addresses of the host, if no name server decides them."""
        if self.host == "localhost":
            return (IPv4Address("127.0.0.1"), IPv6Address("::1"))
        return () if isinstance(self.host, str) else (self.host,)

    @property
    def must_be_named(self) -> bool:
        """True if only an entry that names it exactly allows it: this machine, a private address, an unusual port."""
        return self.port not in _DEFAULT_PORTS or any(reach(address) != "public" for address in self.fixed)

    @property
    def wanted(self) -> str:
        """The shortest entry that covers it."""
        return _spelled(self.host) if self.port in _WEB else str(self)

    @classmethod
    def parse(cls, text: str, port: int | None = None) -> "Endpoint":
        """Parse "HOST:PORT", or "HOST" if there is a default port. Raises ValueError."""
        host, given = _parse(text)
        if (port := given or port) is None:
            raise ValueError(f"{text!r} has no port")
        return cls(host, port)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of an allow list; `below` are the subdomains of a host, and not the host."""

    host: str | Address
    port: int | None = None
    below: bool = False

    @classmethod
    def parse(cls, text: str) -> "Entry":
        """Read an entry. Raises ValueError that names it."""
        below = text.startswith("*.")
        host, port = _parse(text.removeprefix("*."))
        if below and not isinstance(host, str):
            raise ValueError(f"{text!r} is not a host: an address has no subdomains")
        return cls(host, port, below)

    def rules_out(self, other: "Entry") -> bool:
        """Return True if a denial of this endpoint applies to a host of the other entry: at any port if it has none."""
        if self.port and self.port not in ((other.port,) if other.port else _WEB):
            return False
        return _is_among(other, self) or _is_among(self, other)

    def covers(self, endpoint: Endpoint) -> bool:
        """Return True if this entry allows a host at a port."""
        if endpoint.port not in ((self.port,) if self.port else _WEB):
            return False
        if self.below:
            return isinstance(endpoint.host, str) and endpoint.host.endswith(f".{self.host}")
        return endpoint.host == self.host


def is_within(entry: str, limit: str) -> bool:
    """Return True if entry `limit` allows all that `entry` allows. An entry with a port is never within one without,
    because it also reaches private addresses. Text that is no entry is only within itself."""
    if entry == limit:
        return True
    try:
        own, wider = Entry.parse(entry), Entry.parse(limit)
    except ValueError:
        return False
    if own.port != wider.port:
        return False
    below = wider.below and isinstance(own.host, str) and own.host.endswith(f".{wider.host}")
    return below or (own.host, own.below) == (wider.host, wider.below)


def _is_among(some: Entry, all_: Entry) -> bool:
    """Return True if entry `all_` allows entry `some` or a part of it."""
    if all_.below and isinstance(some.host, str):
        return some.host.endswith(f".{all_.host}") or (some.below and some.host == all_.host)
    return _plain(some.host) == _plain(all_.host) and not some.below


def _plain(host: str | Address) -> str | Address:
    """Return the IPv4 address that an IPv6 address wraps, or the address itself."""
    return (host.ipv4_mapped or host) if isinstance(host, IPv6Address) else host


def reach(address: Address) -> Reach:
    """Classify an address, through whatever spelling of an IPv4 address in IPv6."""
    if isinstance(address, IPv6Address):
        inner = IPv4Address(int(address) & 0xFFFF_FFFF) if address in _NAT64 else None
        address = inner or address.ipv4_mapped or address.sixtofour or address
    if any(address in network for network in _METADATA):
        return "forbidden"
    if any(address in network for network in _PRIVATE):
        return "private"
    public = address.is_global and not address.is_multicast
    return "public" if public and (isinstance(address, IPv4Address) or address in _GLOBAL_V6) else "forbidden"


def _parse(text: str) -> tuple[str | Address, int | None]:
    if not (match := _AUTHORITY.fullmatch(text)):
        raise ValueError(f"{text!r} is not a host")
    port = int(match["port"]) if match["port"] else None
    if port is not None and not 0 < port < 65536:
        raise ValueError(f"{text!r} has no port between 1 and 65535")
    try:
        return IPv6Address(match["v6"]) if match["v6"] else _named(match["name"]), port
    except ValueError:
        raise ValueError(f"{text!r} is not a host") from None


def _named(text: str) -> str | IPv4Address:
    """Return a name in lower case, or an address in its canonical spelling. Raises ValueError."""
    name = text.encode("idna").decode("ascii").lower().removesuffix(".")
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        return IPv4Address(name)
    if not _NAME.fullmatch(name):
        raise ValueError
    return name


def _spelled(host: str | Address) -> str:
    return f"[{host}]" if isinstance(host, IPv6Address) else str(host)
