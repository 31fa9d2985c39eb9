import { z } from 'zod';
import { ApiError } from '../../shared/errors.ts';
import { named, type Route, type RouteRequest, route } from '../api/route.ts';
import type { AppParts } from '../app-parts.ts';
import { askFirst, send, sendAsset, sendPage } from '../pages/serve-content.ts';

const homeSchema = named('Home', z.strictObject({ console: z.string(), docs: z.string(), openapi: z.string() }));

const page = { tag: 'Documentation', access: 'none', answers: { description: 'The page.', schema: 'page' } } as const;

/** The home of the service, its descriptions, the console and the documentation. */
export const pageRoutes: readonly Route[] = [
  /** Redirects browsers to the console (contract.md#a5-home-and-unknown-pages). */
  route({
    id: 'retrieveHome',
    method: 'GET',
    path: '/',
    access: 'none',
    tag: 'Documentation',
    summary: 'Retrieve the addresses of the console and the documentation',
    answers: {
      description: 'The addresses.',
      schema: homeSchema,
      redirect: 'With `Accept: text/html`: redirects to the console.',
      example: {
        console: 'https://api.example.com/console',
        docs: 'https://api.example.com/docs',
        openapi: 'https://api.example.com/openapi.json',
      },
    },
    handle({ ctx }, { http: { baseUrl, consoleUrl, docsUrl } }) {
      ctx.vary('Accept');
      if (ctx.accepts('json', 'html') === 'html') {
        ctx.status = 302;
        ctx.set('location', consoleUrl);
      }
      return { console: consoleUrl, docs: docsUrl, openapi: `${baseUrl}/openapi.json` };
    },
  }),
  /** The same for all clients, so it needs no credential. */
  route({
    id: 'retrieveOpenApiDocument',
    method: 'GET',
    path: '/openapi.json',
    access: 'none',
    tag: 'Documentation',
    summary: 'Retrieve this document',
    answers: { description: 'An OpenAPI 3.1 document.', schema: 'object', cached: true },
    anyOrigin: true,
    handle: ({ ctx }, { pages: { openApiDocument } }) => send(ctx, openApiDocument, askFirst),
  }),
  route({
    id: 'retrievePlanFileSchema',
    method: 'GET',
    path: '/plan-file.schema.json',
    access: 'none',
    tag: 'Documentation',
    summary: 'Retrieve the shape of the plan file',
    description: 'For editors: with it they complete and check plan files.',
    answers: { description: 'A JSON Schema, draft 7.', schema: 'object', cached: true },
    anyOrigin: true,
    handle: ({ ctx }, { pages: { planFileSchema } }) => send(ctx, planFileSchema, askFirst),
  }),
  ...['/console', '/console/'].map((path) =>
    route({
      ...page,
      id: 'showConsole',
      method: 'GET',
      path,
      summary: 'The console',
      handle: ({ ctx }, { pages: { console } }) => console.page(ctx),
    }),
  ),
  route({
    ...page,
    id: 'showConsoleAsset',
    method: 'GET',
    path: '/console/assets/*asset',
    summary: 'A module or a style sheet of the console',
    params: { asset: { description: 'Its name, with a hash.', example: 'main.js' } },
    async handle({ ctx, params }, { pages: { console } }) {
      if (!(await console.asset(ctx, params.asset))) throw new ApiError('NOT_FOUND', 'There is nothing at this path.');
    },
  }),
  ...['/docs', '/docs/'].map((path) =>
    route({
      ...page,
      id: 'showDocumentation',
      method: 'GET',
      path,
      summary: 'The documentation',
      handle: ({ ctx }, { pages }) => showPage(ctx, '', pages),
    }),
  ),
  route({
    ...page,
    id: 'showDocumentationAsset',
    method: 'GET',
    path: '/docs/assets/*asset',
    summary: 'A style sheet, a module or the search index of the documentation',
    params: { asset: { description: 'Its name, with a hash.', example: 'main.js' } },
    async handle({ ctx, params }, { pages: { documentation, sharedAssets } }) {
      const { assets, missing, policy } = await documentation();
      const isSent = await sendAsset(ctx, params.asset, { own: assets, shared: sharedAssets });
      if (!isSent) sendPage(ctx, missing, policy, 404);
    },
  }),
  /** Language models look for it at the top of a host. Below `/docs` it is one of the pages. */
  route({
    ...page,
    id: 'showPageList',
    method: 'GET',
    path: '/llms.txt',
    summary: 'The list of all pages for language models',
    handle: ({ ctx }, { pages }) => showPage(ctx, 'llms.txt', pages),
  }),
  route({
    ...page,
    id: 'showDocumentationPage',
    method: 'GET',
    path: '/docs/*page',
    summary: 'A page of the documentation',
    params: { page: { description: 'Its name.', example: 'errors' } },
    handle: ({ ctx, params }, { pages }) => showPage(ctx, params.page, pages),
  }),
];

/** An unknown path is also a page, because people follow links to it. */
async function showPage(
  ctx: RouteRequest['ctx'],
  path: string,
  { documentation, sharedAssets }: AppParts['pages'],
): Promise<void> {
  const { pages, texts, missing, assets, policy } = await documentation();
  await sharedAssets.share(assets);
  const content = pages.get(path.replace(/\/$/, '')) ?? texts.get(path);
  if (content === undefined) sendPage(ctx, missing, policy, 404);
  else sendPage(ctx, content, policy);
}
