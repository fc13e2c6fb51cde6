"""Where the farm is: the URLs of index, broker, results and store, from the settings or the embedded farm."""

from __future__ import annotations

from dataclasses import dataclass

from farm.embedded import state
from farm.errors import FarmUnavailable, InputError
from farm.settings import Settings, sibling_url


@dataclass(frozen=True, slots=True)
class Addresses:
    """The four URLs of a farm."""

    index_url: str
    broker_url: str
    result_url: str
    store_url: str

    @classmethod
    def find(cls, settings: Settings) -> Addresses:
        """Take the URLs of the settings; with none set, those of the embedded farm that is up.

        Raises:
            FarmUnavailable: neither is there: start a farm or say where one is.
            InputError: an index is named but no store: the settings are incomplete.
        """
        _check_broker(settings)
        if settings.index_url is None:
            return cls._embedded(settings)
        if settings.store_url is None:
            raise InputError(
                "FARM_INDEX_URL is set but FARM_STORE_URL is not",
                fix="set FARM_STORE_URL to the farm's store, for example file:///mnt/opfarm",
            )
        return cls(
            settings.index_url,
            settings.broker_url or sibling_url(settings.index_url, 1),
            settings.result_url or sibling_url(settings.index_url, 2),
            settings.store_url,
        )

    @classmethod
    def _embedded(cls, settings: Settings) -> Addresses:
        up = state.read(settings.state_dir)
        if up is None:
            raise FarmUnavailable(
                f"no farm: FARM_INDEX_URL is not set and no embedded farm is up in {settings.state_dir}",
                fix="start one with: celery -A farm up   or set FARM_INDEX_URL and FARM_STORE_URL",
            )
        return cls(up.index_url, up.broker_url, up.result_url, settings.store_url or up.store_url)


#: Brokers that carry messages between machines; what Celery takes besides (memory, filesystem) would lose them.
_BROKERS = ("redis", "rediss", "redis+socket", "sentinel", "amqp", "amqps", "pyamqp")


def _check_broker(settings: Settings) -> None:
    for name, valid in (("broker_url", _BROKERS), ("result_url", (*_BROKERS[:4], "rpc"))):
        url = getattr(settings, name)
        scheme = (url or "").partition("://")[0].partition(";")[0]
        if url is not None and (scheme not in valid or "://" not in url):
            raise InputError(
                f"FARM_{name.upper()}: scheme {scheme[:40]!r} is not one that the farm uses",
                fix=f"use one of: {', '.join(f'{one}://' for one in valid)}",
            )
