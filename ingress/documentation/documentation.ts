import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { withoutSlash } from '../api/without-slash.ts';
import { createAssetSet } from '../pages/asset-set.ts';
import { onceMade } from '../pages/once-made.ts';
import { createStaticContent, type StaticContent } from '../pages/static-content.ts';
import type { ExampleModels } from './example-model.ts';
import { fillPlaceholders, type Placeholders } from './fill-placeholders.ts';
import { type Frame, layOutPage, type PageLink, pageType, type RenderReference } from './page-layout.ts';
import { linkedPage, pageGroups, pageNames, readPages, reference } from './page-list.ts';
import { type RenderedPage, renderMarkdown } from './render-markdown.ts';

/** The content that is served under `/docs`. */
export interface Documentation {
  /** Style sheets and the icon, by names that contain a hash. */
  assets: ReadonlyMap<string, StaticContent>;
  /**
   * Returns a page by its name, for an empty name the first page, and undefined for an unknown name. The reference is rendered at its first
   * request. If that fails, this fails with `SERVICE_UNAVAILABLE`, and the next attempt is at least five seconds later.
   */
  page(name: string): StaticContent | Promise<StaticContent> | undefined;
  /** The page for every other path. */
  missing: StaticContent;
}

/** Public addresses; `docsUrl` has no trailing slash. */
export type DocumentationLinks = {
  baseUrl: string;
  authUrl: string;
  consoleUrl: string;
  topupUrl: string;
  docsUrl: string;
};

/** Reads and renders every page that is written by hand. Throws for an unknown placeholder, or a link to a page that does not exist. */
export function createDocumentation({
  links,
  models,
  renderReference,
  now,
}: {
  links: DocumentationLinks;
  models: ExampleModels;
  renderReference: RenderReference;
  /** Milliseconds of a monotonic clock. */
  now?: () => number;
}): Documentation {
  const { docsUrl } = links;
  const home = new URL(docsUrl).pathname.replace(/\/$/, '');
  const files = readAssets();
  const { assets, nameOf } = createAssetSet(files);
  const pages = renderPages(placeholders(links, models), home);
  const titles = new Map([
    ...pages.map(({ name, page }) => [name, page.title] as const),
    [reference.name, reference.title],
  ]);
  const linkTo = (name: string): PageLink => ({ title: titles.get(name) ?? name, href: `${home}/${name}` });
  const frame: Frame = {
    home: home === '' ? '/' : home,
    groups: pageGroups.map(({ title, names }) => ({ title, pages: names.map(linkTo) })),
    site: siteLinks(links, linkTo(reference.name)),
    assets: [...files.keys()].map((file) => `${home}/assets/${nameOf(file)}`),
  };
  const laidOut = new Map(
    pages.map(({ name, page }) => {
      const html = layOutPage({ ...page, index: pageNames.indexOf(name), canonical: `${docsUrl}/${name}` }, frame);
      return [name, createStaticContent(html, pageType)] as const;
    }),
  );
  const askReference = onceMade(() => {
    const index = pageNames.indexOf(reference.name);
    return renderReference({ frame, home, index, canonical: `${docsUrl}/${reference.name}` });
  }, now);
  const [first] = laidOut.values();
  return {
    assets,
    missing: createStaticContent(layOutPage(renderMissing(home), frame), pageType),
    page: (name) => (name === reference.name ? askReference() : name === '' ? first : laidOut.get(name)),
  };
}

function renderPages(values: Placeholders, home: string) {
  const hrefFrom = (from: string) => (link: string) => {
    const name = linkedPage(from, link);
    if (!pageNames.includes(name)) throw new Error(`There is no page "${name}".`);
    return `${home}/${name}`;
  };
  return readPages().map(({ name, markdown }) => ({
    name,
    page: renderMarkdown(markdown, { hrefOf: hrefFrom(name), fill: (text) => fillPlaceholders(text, values) }),
  }));
}

function renderMissing(home: string): RenderedPage {
  const text =
    '# Page not found\n\nThere is no page at this address. The [quick start](quick-start.md) is the first page.';
  return renderMarkdown(text, { hrefOf: (name) => `${home}/${name}` });
}

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
    base_url: withoutSlash(baseUrl),
    auth_url: authUrl,
    console_url: consoleUrl,
    topup_url: topupUrl,
    docs_url: docsUrl,
  };
}

function siteLinks({ baseUrl, consoleUrl }: DocumentationLinks, referenceLink: PageLink): PageLink[] {
  return [
    { title: 'Console', href: consoleUrl },
    referenceLink,
    { title: 'openapi.json', href: `${withoutSlash(baseUrl)}/openapi.json` },
  ];
}

/** The theme comes first, so that the documentation's own rules override it. */
function readAssets(): Map<string, string> {
  const files = ['../pages/theme.css', './documentation.css', '../pages/icon.svg'];
  return new Map(files.map((file) => [basename(file), readFileSync(new URL(file, import.meta.url), 'utf8')]));
}
