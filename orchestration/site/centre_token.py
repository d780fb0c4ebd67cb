"""Tokens that authenticate a vantage point at the centre.

Tokens are signed (HS512) with the secret that the Edge worker already has ([api_auth] jwt_secret). They have
a separate audience: Airflow's interfaces do not accept them, and the inputs' interface does not accept
Airflow's tokens. White space around the secret is ignored, because Airflow keeps the newline that
`jwt_secret_cmd` prints.
"""

from __future__ import annotations

import time

from firstflight.errors import FirstflightError

AUDIENCE = "firstflight-inputs"
VALID_S = 60
LEEWAY_S = 60
# Stands for the run in a token for the opt-out list; it is not a valid name for a run.
OPTOUT = "(optout)"


class TokenRefused(FirstflightError):
    """The token is not accepted; the message gives the reason."""


def sign(secret: str, run: str) -> str:
    """Return a token for the inputs of `run`, valid for a minute."""
    import jwt

    now = int(time.time())
    claims = {"aud": AUDIENCE, "iat": now, "nbf": now, "exp": now + VALID_S, "run": run}
    return jwt.encode(claims, secret.strip(), algorithm="HS512")


def sign_optout(secret: str) -> str:
    """Return a token for the site's opt-out list, valid for a minute."""
    return sign(secret, OPTOUT)


def verify(secret: str, token: str, run: str) -> None:
    """Check a token; TokenRefused if it is not accepted."""
    import jwt

    try:
        claims = jwt.decode(
            token,
            secret.strip(),
            algorithms=["HS512"],
            audience=AUDIENCE,
            leeway=LEEWAY_S,
            options={"require": ["exp", "iat", "nbf", "run"]},
        )
    except (jwt.ExpiredSignatureError, jwt.ImmatureSignatureError) as error:
        raise TokenRefused(
            "the token is not valid now: compare the clocks of vantage point and centre"
        ) from error
    except jwt.InvalidTokenError as error:
        raise TokenRefused(
            "the token is not signed with this site's secret, or has another audience"
        ) from error
    if claims["run"] != run:
        raise TokenRefused("the token is for another run")
