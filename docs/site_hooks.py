"""Hooks of MkDocs: navigation from docs/index.md, pages outside docs/, and Markdown as GitHub reads it."""  # noqa: INP001 - a script

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import Any

from index_pages import ROOT, list_pages, llms_page, make_navigation, rewrite_links, to_site
from markdown_of_github import to_python_markdown
from mkdocs.structure.files import File, Files


def on_config(config: Any) -> Any:
    """Set the navigation."""
    config.nav = make_navigation()
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages outside docs/."""
    for name, file in list_pages().items():
        if files.get_file_from_path(name) is None:
            files.append(File.generated(config, name, abs_src_path=str(file)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Link to pages of the site, and to other files in the repository if ``repo_url`` is set."""
    here = page.file.src_uri

    def link(label: str, path: str, anchor: str) -> str:
        target = to_site(path)
        if files.get_file_from_path(target) is not None:
            return f"[{label}]({posixpath.relpath(target, posixpath.dirname(here) or '.')}{anchor})"
        return f"[{label}]({config.repo_url.rstrip('/')}/blob/main/{path}{anchor})" if config.repo_url else label

    return rewrite_links(to_python_markdown(markdown), list_pages()[here], link)


def on_post_build(config: Any) -> None:
    """Write the sources of the pages and llms.txt, for programs that read Markdown."""
    site, pages = Path(config.site_dir), list_pages()
    for name, file in pages.items():
        copy = site / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    text = rewrite_links(
        llms_page(), ROOT / "llms.txt", lambda label, path, anchor: f"[{label}]({to_site(path)}{anchor})"
    )
    (site / "llms.txt").write_text(text, encoding="utf-8")
