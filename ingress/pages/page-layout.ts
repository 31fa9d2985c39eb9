import type { Product } from '../console/session/browser.ts';
import { escapeHtml } from '../documentation/code-block.ts';
import type { RenderedPage, Section } from '../documentation/render-markdown.ts';

/** A page in the navigation. */
export type PageLink = { title: string; href: string };

/** Pages under a title in the navigation. */
export type PageGroup = { title: string; pages: readonly PageLink[] };

/** The groups for one kind of reader. */
export type Audience = { title: string; groups: readonly PageGroup[] };

/** The parts that all pages share: navigation, in order, and assets. */
export type Frame = {
  /** The first has the first page. */
  audiences: readonly Audience[];
  site: readonly PageLink[];
  /** The path of the documentation, without a trailing slash. */
  home: string;
  product: Product;
  /** The addresses of style sheets in order, of modules with the entry first, of the icon, and of the search index. */
  assets: { styles: readonly string[]; modules: readonly string[]; icon: string; index: string };
};

type Page = RenderedPage & {
  /** Its address, if it is in the navigation. */
  href?: string;
  /** Its public address, if it has one. */
  canonical?: string;
  /** Examples stand beside the text. Only very wide windows have room for the list of sections, too. */
  hasSides?: boolean;
  /** The first page of the documentation: its first list is shown as cards. */
  isFirst?: boolean;
};

/** Returns the HTML document of a page. It is complete without its script, which adds the search, tabs and buttons that copy. */
export function layOutPage(page: Page, frame: Frame): string {
  const { title, html, sections, href, canonical, hasSides = false, isFirst = false } = page;
  const { audiences, site, home, assets, product } = frame;
  const name = escapeHtml(product.name);
  const reader = audiences.find(({ groups }) => pagesOf(groups).some((one) => one.href === href));
  const { groups = [] } = reader ?? audiences[0] ?? {};
  const all = readerList(audiences, reader) + groupLists(groups, href);
  const own = sectionList(sections.filter(({ depth }) => depth === 2));
  const links = site.map((link) => `<li>${anchor(link)}</li>`);
  const aside = `<nav class="sections wide" aria-label="On this page"><p class="list-title">On this page</p>${own}</nav>`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)} – ${name}</title>
${[...(canonical === undefined ? [] : [canonicalLink(canonical)]), ...assetLinks(assets)].join('\n')}
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header class="top">
<a class="name" href="${escapeHtml(home === '' ? '/' : home)}">${mark(product, assets)}${name} <span>documentation</span></a>
<div class="search" data-index="${escapeHtml(assets.index)}" data-home="${escapeHtml(home)}"></div>
<nav aria-label="Service"><ul class="links">${links.join('')}</ul></nav>
</header>
<div class="columns${hasSides ? ' has-sides' : ''}">
<nav class="pages wide" aria-label="Pages">${all}</nav>
<details class="narrow"><summary>All pages</summary><nav aria-label="All pages">${all}</nav></details>
${own && `<details class="narrow"><summary>On this page</summary><nav aria-label="Parts of this page">${own}</nav></details>`}
<main id="content"${isFirst ? ' class="first"' : ''} tabindex="-1">
${href === undefined ? '' : pageActions(href)}${html}
${href === undefined ? '' : neighbours(groups, href)}
</main>
${own && aside}
</div>
</body>
</html>
`;
}

function mark({ logoUrl }: Product, { icon }: Frame['assets']): string {
  if (logoUrl === undefined) return `<img src="${escapeHtml(icon)}" alt="" width="24" height="24">`;
  return `<img class="logo" src="${escapeHtml(logoUrl)}" alt="" height="24">`;
}

function canonicalLink(href: string): string {
  return `<link rel="canonical" href="${escapeHtml(href)}">`;
}

function assetLinks({ styles, modules, icon }: Frame['assets']): string[] {
  const [entry = '', ...others] = modules.map(escapeHtml);
  return [
    `<link rel="icon" href="${escapeHtml(icon)}" type="image/svg+xml">`,
    ...styles.map((href) => `<link rel="stylesheet" href="${escapeHtml(href)}">`),
    ...others.map((href) => `<link rel="modulepreload" href="${href}">`),
    `<script type="module" src="${entry}"></script>`,
  ];
}

/** The page as Markdown. The script adds a button that copies it. */
function pageActions(href: string): string {
  return `<p class="page-actions">${anchor({ title: 'View as Markdown', href: `${href}.md` }, ' class="as-markdown" type="text/markdown"')}</p>\n`;
}

/** Links to the first page for each kind of reader. */
function readerList(audiences: readonly Audience[], current: Audience | undefined): string {
  const items = audiences.map((reader) => {
    const [first] = pagesOf(reader.groups);
    const href = first?.href ?? '';
    return `<li>${anchor({ title: reader.title, href }, reader === current ? ' aria-current="true"' : '')}</li>`;
  });
  return `<ul class="readers links" aria-label="Readers">${items.join('')}</ul>`;
}

function pagesOf(groups: readonly PageGroup[]): PageLink[] {
  return groups.flatMap(({ pages }) => pages);
}

function anchor({ title, href }: PageLink, attributes = ''): string {
  return `<a href="${escapeHtml(href)}"${attributes}>${escapeHtml(title)}</a>`;
}

/** Each group can be folded. The first is open, and the one with the current page; without a current page all are. */
function groupLists(groups: readonly PageGroup[], current: string | undefined): string {
  const lists = groups.map(({ title, pages }, index) => {
    const items = pages.map((page) => `<li>${anchor(page, page.href === current ? ' aria-current="page"' : '')}</li>`);
    const isOpen = index === 0 || current === undefined || pages.some(({ href }) => href === current);
    const name = escapeHtml(title);
    const list = `<ul class="links" aria-label="${name}">${items.join('')}</ul>`;
    return `<details class="group"${isOpen ? ' open' : ''}><summary>${name}</summary>${list}</details>`;
  });
  return lists.join('');
}

function sectionList(sections: readonly Section[]): string {
  if (sections.length === 0) return '';
  const items = sections.map(({ id, text }) => `<li>${anchor({ title: text, href: `#${id}` })}</li>`);
  return `<ul class="links">${items.join('')}</ul>`;
}

function neighbours(groups: readonly PageGroup[], href: string): string {
  const pages = pagesOf(groups);
  const index = pages.findIndex((page) => page.href === href);
  const link = (page: PageLink | undefined, relation: 'prev' | 'next', word: string) =>
    page === undefined
      ? ''
      : `<a rel="${relation}" href="${escapeHtml(page.href)}"><span>${word}</span> ${escapeHtml(page.title)}</a>`;
  const previous = link(pages[index - 1], 'prev', 'Previous:');
  const next = link(pages[index + 1], 'next', 'Next:');
  return `<nav class="neighbours" aria-label="Previous and next page">${previous}${next}</nav>`;
}
