import { endpoints } from '../../../shared/endpoints/routes.ts';
import { withoutSlash } from '../../listener/request-headers.ts';
import { createStaticContent, type StaticContent } from '../../pages/static-content.ts';
import type { ExampleModels } from '../example-model.ts';
import { fillPlaceholders } from '../markdown/fill-placeholders.ts';
import { createProse } from '../markdown/prose.ts';
import { type RenderedPage, renderMarkdown } from '../markdown/render-markdown.ts';
import { linkedPage, pageGroups, readPages, reference } from '../page-list.ts';
import { renderReference } from '../reference/render-reference.ts';
import { buildSearchIndex } from '../search/build-search-index.ts';
import { type Frame, layOutPage, type PageGroup, type PageLink } from './page-layout.ts';
import { type DocumentationLinks, placeholders } from './placeholders.ts';
import { makeSiteAssets } from './site-assets.ts';

/** `document` is the OpenAPI document, as plain JSON. */
export type SiteRequest = { links: DocumentationLinks; models: ExampleModels; document: object };

/** The content that is served under `/docs`. */
export type Site = {
  /** By name; the first page also by an empty name. */
  pages: ReadonlyMap<string, StaticContent>;
  /** The page for every other path. */
  missing: StaticContent;
  /** Style sheets, modules, the search index and the icon, by names that contain a hash. */
  assets: ReadonlyMap<string, StaticContent>;
};

type NamedPage = RenderedPage & { name: string };

/**
 * Reads and renders all pages. Takes about a second of CPU time. Throws for an unknown placeholder, a link to a page that does not exist,
 * and a document that is not OpenAPI.
 */
export function makeSite({ links, models, document }: SiteRequest): Site {
  const { docsUrl } = links;
  const home = new URL(docsUrl).pathname.replace(/\/$/, '');
  const ofReference = renderReferencePages({ links, models, document }, home);
  const pages = [
    ...renderPages({ links, models }, { home, known: ofReference.map(({ name }) => name) }),
    ...ofReference,
  ];
  const groups = groupsOf(pages, home);
  const searchIndex = buildSearchIndex(pages);
  const { assets, addresses } = makeSiteAssets({ home, searchIndex });
  const frame: Frame = { home, groups, site: siteLinks(links, home), assets: addresses };
  const content = new Map(
    pages.map((page) => {
      const { name } = page;
      const hasSides = name.startsWith(`${reference.name}/`);
      const html = layOutPage({ ...page, href: `${home}/${name}`, canonical: `${docsUrl}/${name}`, hasSides }, frame);
      return [name, createStaticContent(html, pageType)] as const;
    }),
  );
  const [first] = content.values();
  return {
    pages: first === undefined ? content : new Map([['', first], ...content]),
    missing: createStaticContent(layOutPage(renderMissing(home), frame), pageType),
    assets,
  };
}

const pageType = 'text/html; charset=utf-8';

type Places = { home: string; known: readonly string[] };

function renderPages({ links, models }: Omit<SiteRequest, 'document'>, { home, known }: Places): NamedPage[] {
  const values = placeholders(links, models);
  const written = readPages();
  const names = new Set([...written.map(({ name }) => name), ...known]);
  const hrefFrom = (from: string) => (link: string) => {
    const name = linkedPage(from, link);
    if (!names.has(name)) throw new Error(`There is no page "${name}".`);
    return `${home}/${name}`;
  };
  return written.map(({ name, markdown }) => ({
    name,
    ...renderMarkdown(markdown, { hrefOf: hrefFrom(name), fill: (text) => fillPlaceholders(text, values) }),
  }));
}

function renderReferencePages({ links, models, document }: SiteRequest, home: string): NamedPage[] {
  const nameAt = new Map<string, string>(endpoints.map(({ path, name }) => [path, name]));
  return renderReference({
    document,
    href: `${home}/${reference.name}`,
    errorsHref: `${home}/errors`,
    prose: createProse((name) => `${home}/${name}`),
    examples: {
      baseUrl: withoutSlash(links.baseUrl),
      models,
      modelAt: (path) => models[nameAt.get(path) ?? ''],
    },
  });
}

/** The navigation. Pages of the reference are a group. */
function groupsOf(pages: readonly NamedPage[], home: string): PageGroup[] {
  const linkTo = ({ name, title }: NamedPage): PageLink => ({
    title: name === reference.name ? 'Overview' : title,
    href: `${home}/${name}`,
  });
  const written = pageGroups.map(({ title, names }) => ({
    title,
    pages: pages.filter(({ name }) => names.includes(name)).map(linkTo),
  }));
  const isListed = new Set(pageGroups.flatMap(({ names }) => names));
  const generated = { title: reference.title, pages: pages.filter(({ name }) => !isListed.has(name)).map(linkTo) };
  return written.flatMap((group) => (group.title === reference.before ? [generated, group] : [group]));
}

function renderMissing(home: string): RenderedPage {
  const text =
    '# Page not found\n\nThere is no page at this address. The [quick start](quick-start.md) is the first page.';
  return renderMarkdown(text, { hrefOf: (name) => `${home}/${name}` });
}

function siteLinks({ baseUrl, consoleUrl }: DocumentationLinks, home: string): PageLink[] {
  return [
    { title: 'Console', href: consoleUrl },
    { title: reference.title, href: `${home}/${reference.name}` },
    { title: 'openapi.json', href: `${withoutSlash(baseUrl)}/openapi.json` },
  ];
}
