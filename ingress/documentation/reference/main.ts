import { parentPort, workerData } from 'node:worker_threads';
import { createMarkdownFromOpenApi } from '@scalar/openapi-to-markdown';
import { createStaticContent } from '../../pages/static-content.ts';
import { layOutPage, pageType } from '../page-layout.ts';
import { renderMarkdown } from '../render-markdown.ts';
import { arrangeReference } from './arrange-reference.ts';
import { documentSchema } from './openapi-document.ts';
import { prepareDocument } from './prepare-document.ts';
import type { ReferenceRequest } from './render-reference.ts';

// A thread that renders one page of one OpenAPI document, and ends (decisions.md#the-reference-page-in-a-thread).
const { document, frame, home, index, canonical } = workerData as ReferenceRequest; // as render-reference.ts passes it
const markdown = await createMarkdownFromOpenApi(prepareDocument(document));
const arranged = arrangeReference(markdown, documentSchema.parse(document));
const page = renderMarkdown(arranged, { hrefOf: (name) => `${home}/${name}` });
const html = layOutPage({ ...page, index, canonical, listedDepth: 3 }, frame);
parentPort?.postMessage({ made: createStaticContent(html, pageType) });
