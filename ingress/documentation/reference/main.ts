import { parentPort, workerData } from 'node:worker_threads';
import { createMarkdownFromOpenApi } from '@scalar/openapi-to-markdown';
import { createStaticContent } from '../../pages/static-content.ts';
import { pageType } from '../documentation.ts';
import { layOutPage } from '../page-layout.ts';
import { renderMarkdown } from '../render-markdown.ts';
import { arrangeReference, documentSchema, withoutServers } from './arrange-reference.ts';
import type { ReferenceRequest } from './render-reference.ts';

// A thread: it makes one page of one OpenAPI document, and ends.
const { document, frame, index, canonical } = workerData as ReferenceRequest; // as whoever started this thread gave it
const known = documentSchema.parse(document);
const markdown = await createMarkdownFromOpenApi(withoutServers(document));
const page = renderMarkdown(arrangeReference(markdown, known), { hrefOf: (name) => `${name}.md` });
const html = layOutPage({ ...page, index, canonical, listedDepth: 3 }, frame);
parentPort?.postMessage(createStaticContent(html, pageType));
