"""Which proxy a URL is reached through."""

from __future__ import annotations

import pytest

from headrace.endpoints.proxies import proxy_for
from headrace.errors import SpecError

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    "url", ["http://localhost:8/v1", "http://127.0.0.1/v1", "http://127.9.9.9/v1", "https://[::1]/v1", "http://a.localhost/v1"]
)
def test_loopback_is_reached_directly(url: str) -> None:
    assert proxy_for(url, {"HTTP_PROXY": PROXY, "HTTPS_PROXY": PROXY, "ALL_PROXY": PROXY}) is None


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("http://h/v1", {"HTTP_PROXY": PROXY}, PROXY),
        ("http://h/v1", {"http_proxy": PROXY, "HTTP_PROXY": "http://other"}, PROXY),
        ("https://h/v1", {"HTTP_PROXY": PROXY}, None),
        ("https://h/v1", {"HTTPS_PROXY": PROXY}, PROXY),
        ("https://h/v1", {"ALL_PROXY": PROXY}, PROXY),
        ("http://h/v1", {"HTTP_PROXY": "proxy:3128"}, PROXY),
        ("http://h/v1", {"HTTP_PROXY": ""}, None),
        ("http://h/v1", {}, None),
    ],
)
def test_the_variable_of_the_scheme_decides(url: str, environ: dict[str, str], proxy: str | None) -> None:
    assert proxy_for(url, environ) == proxy


@pytest.mark.parametrize(
    ("excluded", "direct"),
    [
        ("*", True),
        ("api.corp", True),
        (".corp", True),
        ("*.corp", True),
        ("corp", True),
        ("other, api.corp", True),
        ("api.corp:8443", True),
        ("api.corp:1", False),
        ("pi.corp", False),
        ("api.corp.evil", False),
        ("", False),
    ],
)
def test_no_proxy(excluded: str, direct: bool) -> None:
    found = proxy_for("https://api.corp:8443/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": excluded})
    assert (found is None) is direct


def test_no_proxy_knows_networks() -> None:
    assert proxy_for("http://10.1.2.3/v1", {"HTTP_PROXY": PROXY, "no_proxy": "10.0.0.0/8"}) is None
    assert proxy_for("http://11.1.2.3/v1", {"HTTP_PROXY": PROXY, "no_proxy": "10.0.0.0/8"}) == PROXY


def test_a_socks_proxy_is_refused_without_its_credentials() -> None:
    with pytest.raises(SpecError) as caught:
        proxy_for("http://h/v1", {"ALL_PROXY": "socks5://user:SECRET@proxy"})
    assert "SECRET" not in str(caught.value)
