"""Tokens by which a vantage point shows the centre that it is one.

Signed with the secret that the Edge worker has already ([api_auth] jwt_secret, HS512), for an audience of
their own: Airflow's interfaces take none of them, and the inputs' interface takes none of Airflow's.
"""

from __future__ import annotations

import time

from firstflight.errors import FirstflightError

AUDIENCE = "firstflight-inputs"
VALID_S = 60
LEEWAY_S = 60


class Refused(FirstflightError):
    """The token does not open the door; the sentence says why."""


def sign(secret: str, run: str) -> str:
    """A token that opens the inputs of `run` for a minute."""
    import jwt

    now = int(time.time())
    claims = {"aud": AUDIENCE, "iat": now, "nbf": now, "exp": now + VALID_S, "run": run}
    return jwt.encode(claims, secret, algorithm="HS512")


def verify(secret: str, token: str, run: str) -> None:
    """Check a token; Refused with one sentence otherwise."""
    import jwt

    try:
        claims = jwt.decode(
            token,
            secret,
            algorithms=["HS512"],
            audience=AUDIENCE,
            leeway=LEEWAY_S,
            options={"require": ["exp", "iat", "nbf", "run"]},
        )
    except (jwt.ExpiredSignatureError, jwt.ImmatureSignatureError) as error:
        raise Refused("the token is not valid now: compare the clocks of vantage point and centre") from error
    except jwt.InvalidTokenError as error:
        raise Refused("the token is not signed by this site's secret, or not for this") from error
    if claims["run"] != run:
        raise Refused("the token is for another run")
