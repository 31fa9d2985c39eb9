import { escapeHtml } from '../pages/escape-html.ts';
import type { StaticContent } from '../pages/static-content.ts';
import type { RenderedPage, Section } from './render-markdown.ts';

/** A page in the navigation. */
export type PageLink = { title: string; href: string };

/** Pages under a title in the navigation. */
export type PageGroup = { title: string; pages: readonly PageLink[] };

/** The parts that all pages share: navigation, in order, and assets. */
export type Frame = {
  groups: readonly PageGroup[];
  site: readonly PageLink[];
  /** The path of the documentation, without a trailing slash. */
  home: string;
  /** Style sheets in order, and the icon. */
  assets: readonly string[];
};

/** The page that is generated from the OpenAPI document. Other pages are at `<home>/<name>`. */
export type ReferencePage = { frame: Frame; home: string; index: number; canonical: string };

/** Fails with `SERVICE_UNAVAILABLE`. */
export type RenderReference = (page: ReferencePage) => Promise<StaticContent>;

type Page = RenderedPage & {
  /** Its place among the pages of all groups, if it has one. */
  index?: number;
  /** Its public address, if it has one. */
  canonical?: string;
  /** The deepest level of headings in its list of sections. */
  listedDepth?: number;
};

export const pageType = 'text/html; charset=utf-8';
const serviceName = 'Inference service';

/** Returns the HTML document of a page. It has no script and nothing inline, so its content security policy allows neither. */
export function layOutPage({ title, body, sections, index, canonical, listedDepth = 2 }: Page, frame: Frame): string {
  const { groups, site, home, assets } = frame;
  const pages = groups.flatMap((group) => group.pages);
  const listed = sections.filter(({ depth }) => depth > 1 && depth <= listedDepth);
  const all = groupLists(groups, index === undefined ? undefined : pages[index]);
  const own = sectionList(listed);
  const links = site.map(({ title, href }) => `<li><a href="${escapeHtml(href)}">${escapeHtml(title)}</a></li>`);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)} – ${serviceName}</title>
${[...(canonical === undefined ? [] : [canonicalLink(canonical)]), ...assets.map(assetLink)].join('\n')}
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header class="top">
<a class="name" href="${escapeHtml(home)}">${serviceName} <span>documentation</span></a>
<nav aria-label="Service"><ul class="links">${links.join('')}</ul></nav>
</header>
<div class="columns">
<nav class="pages wide" aria-label="Pages">${all}</nav>
<details class="narrow"><summary>All pages</summary><nav aria-label="All pages">${all}</nav></details>
${own && `<details class="narrow"><summary>On this page</summary><nav aria-label="Parts of this page">${own}</nav></details>`}
<main id="content" tabindex="-1">
${body}
${index === undefined ? '' : neighbours(pages, index)}
</main>
${own && `<nav class="sections wide" aria-label="On this page"><p class="list-title">On this page</p>${own}</nav>`}
</div>
</body>
</html>
`;
}

function canonicalLink(href: string): string {
  return `<link rel="canonical" href="${escapeHtml(href)}">`;
}

function assetLink(href: string): string {
  return `<link rel="${href.endsWith('.css') ? 'stylesheet' : 'icon'}" href="${escapeHtml(href)}">`;
}

function groupLists(groups: readonly PageGroup[], current: PageLink | undefined): string {
  const lists = groups.map(({ title, pages }) => {
    const items = pages.map((page) => {
      const mark = page === current ? ' aria-current="page"' : '';
      return `<li><a href="${escapeHtml(page.href)}"${mark}>${escapeHtml(page.title)}</a></li>`;
    });
    const name = escapeHtml(title);
    return `<p class="list-title">${name}</p><ul class="links" aria-label="${name}">${items.join('')}</ul>`;
  });
  return lists.join('');
}

function sectionList(sections: readonly Section[]): string {
  if (sections.length === 0) return '';
  const items = sections.map(
    ({ id, text, depth }) => `<li class="depth-${depth}"><a href="#${escapeHtml(id)}">${escapeHtml(text)}</a></li>`,
  );
  return `<ul class="links">${items.join('')}</ul>`;
}

function neighbours(pages: readonly PageLink[], index: number): string {
  const link = (page: PageLink | undefined, relation: 'prev' | 'next', word: string) =>
    page === undefined
      ? ''
      : `<a rel="${relation}" href="${escapeHtml(page.href)}"><span>${word}</span> ${escapeHtml(page.title)}</a>`;
  const previous = link(pages[index - 1], 'prev', 'Previous:');
  const next = link(pages[index + 1], 'next', 'Next:');
  return `<nav class="neighbours" aria-label="Previous and next page">${previous}${next}</nav>`;
}
