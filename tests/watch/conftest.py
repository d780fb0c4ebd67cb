"""The loopback world of campaigns, for watches."""

from tests.campaign_loopback.conftest import world as world
