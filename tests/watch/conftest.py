"""The loopback world of the campaign tests, for watches."""

from tests.campaign_loopback.conftest import world as world
