"""What the site needs beside ``docs/``: a hook of MkDocs, which mkdocs.yml names.

The pages of ``docs/`` are written for a reader of the repository. So on the site

- README.md is the first page, and the other pages of the repository's root are there too;
- a file elsewhere in the repository that a page links to is there as it is;
- the sections between ``<!-- tabs -->`` and ``<!-- end of tabs -->`` are tabs.

A link to what isn't there fails the build, because mkdocs.yml is strict. So does a page that tells
where the site was made, or the host of a package registry, which its reader may not reach.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
}
"""Pages of the repository's root, and their names on the site."""
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)")
"""Where a link to a file leads, without its anchor."""
REGISTRY = re.compile(r"https?://[^/\s\"']*(?:pypi|pythonhosted|maven|npmjs|crates)")
TABS = re.compile(r"<!-- tabs -->\n(.*?)<!-- end of tabs -->", re.DOTALL)
SECTION = re.compile(r"^#+ (.+)\n", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root, and the files of the repository that pages link to."""
    for source, name in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=text))
    for page in list(files.documentation_pages()):
        for target in LINK.findall(page.content_string):
            path = _place(page.src_uri).joinpath(target).resolve()
            name = _name(path)
            if path.is_file() and files.get_file_from_path(name) is None:
                content = path.read_bytes()
                files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to where their files are on the site, and make tabs."""
    place = _place(page.file.src_uri)
    depth = page.file.src_uri.count("/")

    def moved(link: re.Match[str]) -> str:
        path = place.joinpath(link[1]).resolve()
        listed = path / "README.md"
        target = listed if listed.is_file() else path
        return "../" * depth + _name(target)

    return TABS.sub(lambda found: _tabs(found[1]), LINK.sub(moved, markdown))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Refuse a page that tells of this machine or of a registry."""
    strange = REGISTRY.search(output)
    if strange or f"{ROOT}/" in output:
        raise PluginError(f"{page.file.src_uri} names {strange[0] if strange else ROOT}")
    return output


def on_post_build(config: MkDocsConfig) -> None:
    """Leave out the maps of the theme's scripts: they are for who works on the theme."""
    for path in Path(config.site_dir).rglob("*.map"):
        path.unlink()


def _place(name: str) -> Path:
    """The directory in the repository of a page of the site."""
    return ROOT if name in PAGES.values() else (ROOT / "docs" / name).parent


def _name(path: Path) -> str:
    """The name on the site of a file of the repository."""
    if path.is_relative_to(ROOT / "docs"):
        return str(path.relative_to(ROOT / "docs"))
    if not path.is_relative_to(ROOT):
        return path.name
    name = str(path.relative_to(ROOT))
    return PAGES.get(name, name)


def _tabs(text: str) -> str:
    """Sections as tabs, each under its heading."""
    before, *parts = SECTION.split(text)
    lines = [before.strip()]
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        inner = "\n".join(f"    {line}".rstrip() for line in body.strip().splitlines())
        lines.append(f'=== "{heading}"\n\n{inner}\n')
    return "\n".join(lines)
