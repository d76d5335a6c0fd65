"""Base of the providers of every family: a row of data, an access, and the connections that their models share."""

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, Self, TypeAlias, cast
from urllib.parse import urlencode, urlsplit

from sagent.errors import UsageError
from sagent.lib.json import as_object, as_str
from sagent.providers.access import NO_KEY, Access, access_from_key, check_text, check_url, either, first_set, loopback
from sagent.providers.keys import Keys
from sagent.providers.rows import MAKERS, Row, is_own_address, maker_abilities, row_of, transport_by_sdk
from sagent.providers.wire.encoding import Dialect, EncodingCache
from sagent.providers.wire.exchange import OnWaiting, Timeouts, fetch, ignore_wait
from sagent.providers.wire.faults import ExchangeFailed, Origin
from sagent.providers.wire.transport import DirectTransport, Transport, proxy_for

GivenTransport: TypeAlias = Transport | Literal["direct", "sdk"] | None
"""The transport of requests: our own connections, or the provider's official SDK."""

_OWN_HEADER = ("anthropic", "google")  # families with their own header for keys
_PAGES = 20  # of a listing that are read
AUTHS = ("key", "bearer", "credentials")


class Endpoint:
    """An endpoint of some family. `row_name` is the row of the class; a subclass adds models and their listing."""

    row_name: ClassVar[str]
    _key_header: ClassVar[str] = ""
    """The header of a key that is not a bearer token."""
    counts: bool = True
    """Whether to use its own token count; False once it has given none."""
    lessons: int = 0
    """The number of failed calls, which may change the encoding of the next request."""
    searches: bool = True
    """Whether to use its own tool search: at its own address, or if a person's data say so; False once it was
    refused."""

    if not TYPE_CHECKING:  # for callers who guess; a type checker knows the constructor

        def __new__(cls, *given: object, **named: object) -> Self:
            own, name = cls.__init__ is not Endpoint.__init__, cls.__name__  # a plan is made with its login
            if not own and not isinstance(named.get("row", *given[:1]), Row):
                raise UsageError(f'{name} is created with {name}.from_key("...") or from_env()')
            return super().__new__(cls)

    def __init__(
        self, row: Row, access: Access, *, transport: GivenTransport = None, timeouts: Timeouts | None = None
    ) -> None:
        self.row = row
        self.access = access
        self.keys = Keys((access.key, *access.others), access.variable)
        self.timeouts = timeouts or Timeouts()
        self.transport = _open(row, access, transport, self.timeouts)
        self.on_waiting: OnWaiting = ignore_wait  # why a call waits, if the server reports it
        self._encodings: dict[Dialect, EncodingCache] = {}
        self.refused_parts = defaultdict[str, dict[str, object]](dict)  # by model: parts of requests, and why
        self.searches = row.abilities != maker_abilities(row.name) or is_own_address(row.name, access.base_url)
        self._set_up()

    def _set_up(self) -> None:
        """Make the parts that the models of a family share; the end of construction."""

    def encodings(self, dialect: Dialect) -> EncodingCache:
        """Return the cache of conversations encoded in a dialect."""
        if (known := self._encodings.get(dialect)) is None:
            known = self._encodings[dialect] = EncodingCache(dialect)
        return known

    @classmethod
    def from_env(
        cls,
        *,
        base_url: str | None = None,
        auth: str | None = None,
        environ: Mapping[str, str] | None = None,
        transport: GivenTransport = None,
        timeouts: Timeouts | None = None,
    ) -> Self:
        """Read the access from the row's variables, by default NAME_API_KEY and NAME_BASE_URL.

        `auth` is "key", "bearer" or "credentials" (from_credentials). A server on this machine needs no key. Raises
        UsageError naming the variable that is missing.
        """
        row = row_of(cls.row_name)
        access = read_access(row, base_url=base_url, auth=auth, environ=environ)
        return cls(row, access, transport=transport, timeouts=timeouts)

    @classmethod
    def from_key(
        cls,
        key: str,
        *,
        base_url: str | None = None,
        auth: str | None = None,
        transport: GivenTransport = None,
        timeouts: Timeouts | None = None,
    ) -> Self:
        """Use a key. Raises UsageError if the key is impossible, or if there is no address."""
        row = row_of(cls.row_name)
        access = read_access(row, key=key, base_url=base_url, auth=auth)
        return cls(row, access, transport=transport, timeouts=timeouts)

    @classmethod
    def from_credentials(
        cls, *, base_url: str | None = None, environ: Mapping[str, str] | None = None, timeouts: Timeouts | None = None
    ) -> Self:
        """Use the credentials that the official SDK finds: a profile, a workload identity, a cloud login."""
        return cls.from_env(base_url=base_url, auth="credentials", environ=environ, timeouts=timeouts)

    @property
    def name(self) -> str:
        return self.row.name

    def headers(self) -> dict[str, str]:
        """Return the headers of every request. A local server that requires a key accepts any."""
        key = self.keys.current or NO_KEY
        own = {"authorization": f"Bearer {key}"} if self.access.bearer else {self._key_header: key}
        return {**self.row.headers, **({} if self.access.delegated else own)}

    def origin(self, model_id: str) -> Origin:
        return Origin(self.row.name, model_id, self.keys.current, self.keys.variable)

    async def fetch(self, url: str) -> object:
        """Fetch a JSON document other than a model's answer. Raises ModelError."""
        return await fetch(self.transport, url, self.headers(), self.origin(""), self.timeouts)

    async def fetch_pages(
        self, url: str, query: Mapping[str, str], parameter: str, following: str
    ) -> list[Mapping[str, object]]:
        """Fetch the pages of a listing. A page's value at `following` is the `parameter` of the next request."""
        pages, asked = list[Mapping[str, object]](), dict(query)
        while len(pages) < _PAGES:
            pages.append(as_object(await self.fetch(f"{url}?{urlencode(asked)}")))
            if not (token := as_str(pages[-1].get(following))):
                break
            asked[parameter] = token
        return pages

    async def aclose(self) -> None:
        await self.transport.aclose()


def read_access(
    row: Row,
    *,
    key: str | None = None,
    base_url: str | None = None,
    auth: str | None = None,
    environ: Mapping[str, str] | None = None,
    source: str = "",
) -> Access:
    """Return the access to a row's provider: with the given key, else by the environment. Raises UsageError.

    `source` is the source of a given key, for messages.
    """
    if key is not None:
        check_text("key", key)
    if auth not in (None, *AUTHS):
        raise UsageError(f"auth is one of {', '.join(AUTHS)}, not {auth!r}.")
    if auth == "credentials" and not row.via and not (row.name in MAKERS and row.credentials):
        raise UsageError(f"{row.name} has no login other than its API key: give the key, or set {either(row.key)}.")
    if row.via or auth == "credentials":
        found, value = first_set(row.key, environ)
        if row.via and "," in (key or value):
            raise UsageError(
                f"{row.name} is used through its SDK, which takes one key: {source or either(row.key)} has several."
            )
        url = base_url or ("" if row.via else first_set(row.base, environ)[1])
        url = url and check_url(row.name, url)
        return Access(row.name, url, key or value, found, delegated=True, given=key is not None)
    own = row.family in _OWN_HEADER
    if key is not None:
        bearer, url = auth == "bearer" if own else True, base_url or row.base_url
        if not url:
            raise UsageError(f"{row.name} has no address of its own: give its base_url with the key.")
        if not key.strip() and not row.free and not loopback(url):
            raise UsageError(f"The key for {row.name} is empty: check that the variable it was read from is set.")
        return access_from_key(row.name, key, url, variable=source or either(row.key), bearer=bearer)
    return _from_env(row, base_url, auth if own else "bearer", environ)


def _from_env(row: Row, base_url: str | None, auth: str | None, environ: Mapping[str, str] | None) -> Access:
    """Return the access by the environment. A local server, or one of the user's own, needs no key."""
    (name, key), (_, token) = first_set(row.key, environ), first_set(row.token, environ)
    bearer = auth == "bearer" if auth else not key and bool(token)
    secret = (token or key) if bearer else (key or token)
    url = base_url or first_set(row.base, environ)[1] or row.base_url
    if not url:
        raise UsageError(f"{row.name} has no address of its own: set {either(row.base)}, or give --base-url.")
    if not secret and not row.free and not loopback(check_url(row.name, url)):
        more = " (any word, if it needs none)" if row.name == "openai-compatible" else f", or: sagent login {row.name}"
        raise UsageError(f"No key for {row.name}: set {either(row.key, row.token)}{more}.")
    variable = row.token if secret and secret == token != key else name
    return access_from_key(row.name, secret, url, variable=variable, bearer=bearer)


def _open(row: Row, access: Access, transport: GivenTransport, timeouts: Timeouts) -> Transport:
    if not isinstance(transport, str | None) and hasattr(transport, "post"):
        return transport
    if transport not in (None, "direct", "sdk"):
        raise UsageError(f"transport is direct or sdk, not {transport!r}.")
    sdk = access.delegated or transport == "sdk"
    try:
        proxy_for(urlsplit(access.base_url or "https://"), socks=sdk)
    except ExchangeFailed as error:
        raise UsageError(f"{error.reason}.") from error
    if not sdk:
        return DirectTransport(connect=timeouts.connect)
    if transport == "direct":
        raise UsageError(f"{row.name} uses a login of its own, which needs --transport sdk.")
    return cast("_BySdk", transport_by_sdk())(row.family, row.via, access, connect=timeouts.connect)


class _BySdk(Protocol):
    """A class of transports through official SDKs."""

    def __call__(self, family: str, via: str, access: Access, *, connect: float) -> Transport: ...
