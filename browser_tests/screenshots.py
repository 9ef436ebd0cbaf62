"""The pictures of the page in docs/images: ``python -m browser_tests.screenshots``."""

from pathlib import Path

from browser_tests import data, surroundings

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WIDE, NARROW = {"width": 1200, "height": 780}, {"width": 375, "height": 780}
TALL = {"width": 1200, "height": 1150}
LOAD_S = 100.0

PICTURES = (
    ("overview-light", "/", "light", WIDE),
    ("group-dark", "/group?id=billing", "dark", WIDE),
    ("queue-light", "/group?id=packers", "light", TALL),
    ("records-light", "/records?topic=orders&where=city = Porto and id > 2000", "light", WIDE),
    ("topic-phone", "/topics/orders", "light", NARROW),
)


def main() -> None:
    """Take every picture of a broker that has been busy for a while."""
    IMAGES.mkdir(exist_ok=True)
    with (
        surroundings.site(is_large=False, is_hostile=False) as site,
        surroundings.browser() as browser,
        browser.new_context() as watching,
    ):
        watching.new_page().goto(site.url)  # an open overview, for a point every 2 s
        data.load(site.bootstrap, LOAD_S)
        for name, address, scheme, size in PICTURES:
            with browser.new_context(color_scheme=scheme, viewport=size) as context:
                page = context.new_page()
                page.goto(site.url + address)
                page.screenshot(path=IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()
