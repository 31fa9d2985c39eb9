import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { endpoints } from '../../shared/endpoints/endpoints.ts';
import { failingTime } from '../../shared/store/records/webhooks.ts';
import type { Product } from '../console/session/browser.ts';
import { escapeHtml } from '../documentation/code-block.ts';
import { audiences, linkedPage, readPages, reference } from '../documentation/page-list.ts';
import { renderReference } from '../documentation/reference/render-reference.ts';
import type { ExampleModels } from '../documentation/reference/request-example.ts';
import { writeReference } from '../documentation/reference/write-reference.ts';
import {
  createProse,
  fillPlaceholders,
  type Placeholders,
  type RenderedPage,
  renderMarkdown,
} from '../documentation/render-markdown.ts';
import { withoutSlash } from '../listener/request-headers.ts';
import { collectBrowserModules } from './browser-modules.ts';
import { type Audience, type Frame, layOutPage, type PageGroup, type PageLink } from './page-layout.ts';
import { listPages, type NamedPage, withAbsoluteLinks, withoutRoles } from './page-texts.ts';
import { buildSearchIndex } from './search-entries.ts';
import { contentSecurityPolicy } from './serve-content.ts';
import { createAssetSet, createStaticContent, type StaticContent } from './static-content.ts';

/** `document` is the OpenAPI document, as plain JSON. */
export type SiteRequest = { links: DocumentationLinks; product: Product; models: ExampleModels; document: object };

/** The content that is served under `/docs`. */
export type Site = {
  /** By name; the first page also by an empty name. */
  pages: ReadonlyMap<string, StaticContent>;
  /** Each page as Markdown (`<name>.md`), and the list of them for language models (`llms.txt`). */
  texts: ReadonlyMap<string, StaticContent>;
  /** The page for every other path. */
  missing: StaticContent;
  /** Style sheets, modules, the search index and the icon, by names that contain a hash. */
  assets: ReadonlyMap<string, StaticContent>;
  /** The content security policy of all pages. */
  policy: string;
};

/**
 * Reads and renders all pages. Takes about a second of CPU time. Throws for an unknown placeholder, a link to a page that does not exist,
 * and a document that is not OpenAPI.
 */
export function makeSite({ links, product, models, document }: SiteRequest): Site {
  const { docsUrl } = links;
  const home = new URL(docsUrl).pathname.replace(/\/$/, '');
  const ofReference = renderReferencePages({ links, product, models, document }, home);
  const pages = [
    ...renderPages({ links, product, models }, { home, known: ofReference.map(({ name }) => name) }),
    ...ofReference,
  ];
  const readers = audiencesOf(pages, home);
  const { assets, addresses } = makeSiteAssets({ home, searchIndex: buildSearchIndex(pages) });
  const site = siteLinks(links, product, home);
  const frame: Frame = { home, audiences: readers, site, product, assets: addresses };
  const content = new Map(
    pages.map((page) => {
      const { name } = page;
      const html = layOutPage(
        {
          ...page,
          href: `${home}/${name}`,
          canonical: `${docsUrl}/${name}`,
          hasSides: name.startsWith(`${reference.name}/`),
          isFirst: page === pages[0],
        },
        frame,
      );
      return [name, createStaticContent(html, pageType)] as const;
    }),
  );
  const [first] = content.values();
  return {
    pages: first === undefined ? content : new Map([['', first], ...content]),
    texts: makeTexts(pages, links, product),
    missing: createStaticContent(layOutPage(renderMissing(home, product), frame), pageType),
    assets,
    policy: contentSecurityPolicy({ product }),
  };
}

function makeTexts(
  pages: readonly NamedPage[],
  links: DocumentationLinks,
  { name }: Product,
): Map<string, StaticContent> {
  const { docsUrl, baseUrl } = links;
  const list = listPages(pages, { name, docsUrl, baseUrl: withoutSlash(baseUrl) });
  return new Map([
    ...pages.map(({ name, markdown }) => [`${name}.md`, createStaticContent(markdown, markdownType)] as const),
    ['llms.txt', createStaticContent(list, 'text/plain; charset=utf-8')],
  ]);
}

const pageType = 'text/html; charset=utf-8';
const markdownType = 'text/markdown; charset=utf-8';

type Places = { home: string; known: readonly string[] };

function renderPages({ links, product, models }: Omit<SiteRequest, 'document'>, { home, known }: Places): NamedPage[] {
  const values = placeholders(links, models);
  const written = readPages();
  const names = new Set([...written.map(({ name }) => name), ...known]);
  const hrefFrom = (from: string) => (link: string) => {
    const name = linkedPage(from, link);
    if (!names.has(name)) throw new Error(`There is no page "${name}".`);
    return `${home}/${name}`;
  };
  const fill = (text: string) => fillPlaceholders(text, values);
  return written.map(({ name, markdown }) => ({
    name,
    markdown: withAbsoluteLinks(withoutRoles(fill(markdown)), { name, docsUrl: links.docsUrl }),
    ...withSupport(renderMarkdown(markdown, { hrefOf: hrefFrom(name), fill, drawingAt }), product),
  }));
}

/** The drawing at this path beside the pages. It is ours, so its markup is used as it is. */
function drawingAt(path: string): string {
  return read(`../documentation/${path}`);
}

function renderReferencePages({ links, models, document }: SiteRequest, home: string): NamedPage[] {
  const nameAt = new Map<string, string>(endpoints.map(({ path, name }) => [path, name]));
  const examples = {
    baseUrl: withoutSlash(links.baseUrl),
    models,
    modelAt: (path: string) => models[nameAt.get(path) ?? ''],
  };
  const texts = writeReference({ document, examples });
  const pages = renderReference({
    document,
    examples,
    href: `${home}/${reference.name}`,
    errorsHref: `${home}/errors`,
    prose: createProse((name) => `${home}/${name}`),
  });
  return pages.map((page) => ({
    ...page,
    markdown: withAbsoluteLinks(texts.get(page.name) ?? '', { name: '', docsUrl: links.docsUrl }),
  }));
}

/** The navigation by readers. Pages of the reference are the last group of the first. */
function audiencesOf(pages: readonly NamedPage[], home: string): Audience[] {
  const byName = new Map(pages.map((page) => [page.name, page]));
  const linkTo = ({ name, title }: NamedPage): PageLink => ({
    title: name === reference.name ? 'Overview' : title,
    href: `${home}/${name}`,
  });
  const readers = audiences.map(({ title, groups }) => ({
    title,
    groups: groups.map((group): PageGroup => {
      const own = group.names.flatMap((name) => byName.get(name) ?? []);
      return { title: group.title, pages: own.map(linkTo) };
    }),
  }));
  const generated = pages.filter(({ name }) => name === reference.name || name.startsWith(`${reference.name}/`));
  readers[0]?.groups.push({ title: reference.title, pages: generated.map(linkTo) });
  return readers;
}

/** Where a page says to ask the operator, it links to where one can. */
function withSupport(page: RenderedPage, { supportUrl }: Product): RenderedPage {
  if (supportUrl === undefined) return page;
  const href = escapeHtml(supportUrl);
  const html = page.html.replace(
    /\b(ask|give)(\s+)(the\s+operator)\b/gi,
    (_, verb: string, space: string, operator: string) => `${verb}${space}<a href="${href}">${operator}</a>`,
  );
  return { ...page, html };
}

function renderMissing(home: string, product: Product): RenderedPage {
  const text =
    '# Page not found\n\nThere is no page at this address. The [first page](start.md) says where to begin. If a link led here, ask the operator.';
  return withSupport(renderMarkdown(text, { hrefOf: (name) => `${home}/${name}` }), product);
}

function siteLinks({ baseUrl, consoleUrl }: DocumentationLinks, { supportUrl }: Product, home: string): PageLink[] {
  return [
    { title: 'Console', href: consoleUrl },
    { title: reference.title, href: `${home}/${reference.name}` },
    { title: 'openapi.json', href: `${withoutSlash(baseUrl)}/openapi.json` },
    ...(supportUrl === undefined ? [] : [{ title: 'Support', href: supportUrl }]),
  ];
}

/** Public addresses; `docsUrl` has no trailing slash. */
export type DocumentationLinks = {
  baseUrl: string;
  authUrl: string;
  consoleUrl: string;
  topupUrl: string;
  docsUrl: string;
};

/**
 * The values of placeholders. The API's address has no trailing slash, so that a path can follow. `model` is for chat, and
 * `<endpoint>_model` for another endpoint. `endpoint_names` are those that the plan file can list.
 */
export function placeholders(links: DocumentationLinks, models: ExampleModels): Placeholders {
  const { baseUrl, authUrl, consoleUrl, topupUrl, docsUrl } = links;
  return {
    ...Object.fromEntries(Object.entries(models).map(([endpoint, model]) => [`${endpoint}_model`, model])),
    model: models.chat ?? '',
    endpoint_names: Object.keys(models).join(', '),
    webhook_days: failingTime.text,
    base_url: withoutSlash(baseUrl),
    auth_url: authUrl,
    console_url: consoleUrl,
    topup_url: topupUrl,
    docs_url: docsUrl,
  };
}

/** The assets by their names with a hash, and their addresses below the path of the documentation. */
type SiteAssets = { assets: ReadonlyMap<string, StaticContent>; addresses: Frame['assets'] };

const browser = fileURLToPath(new URL('../documentation/browser', import.meta.url));
/** The theme comes first, so that the documentation's own rules override it. */
const styles = new Map([
  ['theme.css', './theme.css'],
  ['layout.css', '../documentation/styles/layout.css'],
  ['text.css', '../documentation/styles/text.css'],
  ['reference.css', '../documentation/styles/reference.css'],
  ['search.css', '../documentation/styles/search.css'],
]);
const icon = 'icon.svg';
const index = 'search-index.json';

function makeSiteAssets({ home, searchIndex }: { home: string; searchIndex: string }): SiteAssets {
  const modules = collectBrowserModules({ directory: browser, entry: 'main.ts' });
  const files = new Map([
    ...[...styles].map(([name, path]) => [name, read(path)] as const),
    ...modules,
    [icon, read('./icon.svg')],
    [index, searchIndex],
  ]);
  const { assets, nameOf } = createAssetSet(files);
  const address = (name: string) => `${home}/assets/${nameOf(name)}`;
  return {
    assets,
    addresses: {
      styles: [...styles.keys()].map(address),
      modules: [...modules.keys()].map(address),
      icon: address(icon),
      index: address(index),
    },
  };
}

function read(path: string): string {
  return readFileSync(new URL(path, import.meta.url), 'utf8');
}
