"""Firefox (neqo) as a client: a script in the browser loads a resource, without rendering.

Run as `python -m testbed.stacks.browsers.firefox`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from downloader.clients.contract import ClientAnswer, Request
from firstflight.errors import FirstflightError
from firstflight.system import children
from testbed.stacks.browsers import session
from testbed.stacks.browsers.marionette import Marionette

PROGRAM = "firefox-esr"
_STOP_S = 5.0
# Turn off the vendor's services, contact with other addresses than the request's, and session resumption.
_SETTINGS: dict[str, bool | int | str] = {
    "app.update.enabled": False,
    "browser.aboutwelcome.enabled": False,
    "browser.safebrowsing.malware.enabled": False,
    "browser.safebrowsing.phishing.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "network.http.http3.enable": True,
    "network.http.http3.enable_0rtt": False,
    # Custom roots would disable HTTP/3.
    "network.http.http3.disable_when_third_party_roots_found": False,
    "network.http.http3.parallel_fallback_conn_limit": 0,
    "network.http.speculative-parallel-limit": 0,
    "network.proxy.type": 0,
    "network.ssl_tokens_cache_enabled": False,
    "network.trr.mode": 5,
    "services.settings.server": "",
    "toolkit.telemetry.enabled": False,
}
# Each request uses a new container number, and so a new connection.
_LOAD = """
const [url, agent, number, most] = arguments, done = arguments[arguments.length - 1];
const channel = NetUtil.newChannel({
  uri: url, loadUsingSystemPrincipal: true, contentPolicyType: Ci.nsIContentPolicy.TYPE_OTHER,
}).QueryInterface(Ci.nsIHttpChannel);
channel.loadInfo.originAttributes = {userContextId: number};
channel.loadFlags |= Ci.nsIRequest.LOAD_BYPASS_CACHE | Ci.nsIRequest.INHIBIT_CACHING
  | Ci.nsIRequest.LOAD_ANONYMOUS;
channel.setRequestHeader("User-Agent", agent, false);
const found = {size: 0, fields: {}};
channel.asyncOpen({
  onStartRequest() {},
  onDataAvailable(request, stream, offset, count) {
    const binary = Cc["@mozilla.org/binaryinputstream;1"].createInstance(Ci.nsIBinaryInputStream);
    binary.setInputStream(stream);
    binary.readByteArray(count);
    found.size += count;
    if (found.size >= most) request.cancel(Cr.NS_BINDING_ABORTED);
  },
  onStopRequest(request, code) {
    found.error = Components.isSuccessCode(code) ? null
      : Object.keys(Cr).find(name => Cr[name] === code) ?? "0x" + code.toString(16);
    try {
      found.status = channel.responseStatus;
      channel.visitResponseHeaders((name, value) => { found.fields[name] = value; });
    } catch (error) { found.status = null; }  // there was no response
    channel.QueryInterface(Ci.nsITimedChannel);
    for (const name of ["asyncOpen", "connectEnd", "responseStart", "responseEnd"])
      found[name] = channel[name + "Time"];
    done(found);
  },
});
"""
_CLOSE = 'Services.obs.notifyObservers(null, "net:cancel-all-connections");'
# Error names (xpcom/base/ErrorList.py) and the ends they mean; all others are `failed`.
_ENDS = {
    "NS_ERROR_CONNECTION_REFUSED": "connect_failed",
    "NS_ERROR_NET_TIMEOUT": "timeout",
    "NS_ERROR_NET_RESET": "reset",
    "NS_ERROR_NET_HTTP3_PROTOCOL_ERROR": "reset",
    "NS_ERROR_NET_INTERRUPT": "reset",
}
# Errors of TLS and of certificates have numbers from 0x805a0000 on, and no names here.
_TLS = "0x805a"
# The header field that the browser adds to HTTP/3 responses.
_BY_HTTP3 = "x-firefox-http3"


class Firefox:
    """A running Firefox."""

    def __init__(self, way: session.Way, home: Path, end: float) -> None:
        profile = home / "profile"
        session.make_trust_database(Path(way.roots), profile)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = {
            **_SETTINGS,
            "marionette.port": port,
            "network.dns.forceResolve": way.ip,
            "network.http.http3.alt-svc-mapping-for-testing": f"{way.host};h3=:{way.port}",
        }
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in settings.items()]
        (profile / "user.js").write_text("".join(lines), encoding="utf-8")
        argv = [session.program(PROGRAM), "--headless", "--no-remote", "--profile", str(profile)]
        self._process = children.start(
            [*argv, "--marionette", "--remote-allow-system-access"],
            own_session=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(home)},
        )
        self._requests = 0
        try:
            self._marionette = Marionette(port, end)
            self._marionette.command("WebDriver:NewSession", end, capabilities={})
            self._marionette.command("Marionette:SetContext", end, value="chrome")
        except (FirstflightError, TimeoutError):
            children.stop(self._process, _STOP_S)
            raise

    def close(self) -> None:
        """Stop the browser."""
        self._marionette.close()
        children.stop(self._process, _STOP_S)

    def load(self, request: Request, end: float) -> ClientAnswer:
        """Load a resource: see `session.Browser`."""
        self._requests += 1
        tools = self._marionette
        tools.command("WebDriver:SetTimeouts", end, script=int(request.timeout_s * 1000) + 1000)
        arguments = [request.url, request.user_agent, self._requests, request.max_bytes]

        def load_once() -> ClientAnswer:
            found = tools.command("WebDriver:ExecuteAsyncScript", end, script=_LOAD, args=arguments)["value"]
            return of_load(found, request.max_bytes)

        answer = session.repeated(request, load_once)
        tools.command("WebDriver:ExecuteScript", end, script=_CLOSE, args=[])
        return answer


def of_load(found: dict[str, Any], max_bytes: int) -> ClientAnswer:
    """Return the answer for the script's result."""
    opened_at = int(found["asyncOpen"])

    def us(name: str) -> int | None:
        return int(found[name]) - opened_at if found.get(name) else None

    error, status = found.get("error"), found.get("status")
    fields = {str(name).lower(): str(value) for name, value in found.get("fields", {}).items()}
    times: dict[str, Any] = {
        "started_at": opened_at * 1000,
        "tls_us": us("connectEnd"),
        "first_byte_us": us("responseStart"),
        "duration_us": us("responseEnd"),
    }
    if found["size"] >= max_bytes:
        end = "limit"
    elif error is None and _BY_HTTP3 in fields:
        end = "complete"
    elif error is None:
        end, error = "failed", "the browser did not ask by HTTP/3"
    else:
        end = "tls_failed" if error.startswith(_TLS) else _ENDS.get(error, "failed")
    return ClientAnswer(
        **{
            **times,
            **session.fields(fields),
            "end": end,
            "detail": error if end not in ("complete", "limit") else None,
            "status": status,
            "http_version": "3" if _BY_HTTP3 in fields else None,
            "tls_verified": True if status is not None else None,
            "body_bytes": int(found["size"]),
        }
    )


def version() -> str:
    """Return the browser's version."""
    return session.printed(PROGRAM, "--version").rpartition(" ")[2] or "unknown"


if __name__ == "__main__":
    session.serve("firefox", version, Firefox, sys.argv[1:])
