import { audiences, linkedPage, reference } from '../documentation/page-list.ts';
import type { RenderedPage } from '../documentation/render-markdown.ts';

/** A page with its Markdown, in which all addresses are filled in. */
export type NamedPage = RenderedPage & { name: string; markdown: string };

/** Links to other pages become addresses of their Markdown, because a copied page has no address of its own. */
export function withAbsoluteLinks(markdown: string, { name, docsUrl }: { name: string; docsUrl: string }): string {
  return markdown.replace(
    /\]\(((?:\.\.\/|[\w-]+\/)*[\w-]+)\.md(#[^)]*)?\)/g,
    (_whole, link: string, anchor = '') => `](${docsUrl}/${linkedPage(name, link)}.md${anchor})`,
  );
}

/** Removes what only our tests and generators read: the roles of code blocks, and comments. Drawings become their descriptions. */
export function withoutRoles(markdown: string): string {
  return markdown
    .replace(/^```(\w+) .*$/gm, '```$1')
    .replace(/^<!--.*-->\n/gm, '')
    .replace(/!\[([^\]]*)\]\([^)]*\)/g, '*$1*');
}

/** The list of all pages for language models, in the form of llmstxt.org. What they can skip comes last, under "Optional". */
export function listPages(
  pages: readonly NamedPage[],
  { name, docsUrl, baseUrl }: { name: string; docsUrl: string; baseUrl: string },
): string {
  const linesOf = (shown: readonly NamedPage[]) =>
    shown.map(({ name, title, content }) => `- [${title}](${docsUrl}/${name}.md)${summaryOf(content)}\n`).join('');
  const ofReference = pages.filter(({ name }) => name === reference.name || name.startsWith(`${reference.name}/`));
  const [clients, ...others] = audiences.map(({ title, groups }) => {
    const named = new Set(groups.flatMap(({ names }) => names));
    return { title, pages: pages.filter(({ name }) => named.has(name)) };
  });
  const isOptional = ({ name }: NamedPage) => /^(runbooks|internals)\//.test(name);
  const ofOthers = others.flatMap((reader) => reader.pages);
  return `# ${name}

> An inference API that works with the SDKs of OpenAI and Anthropic. Base addresses: ${baseUrl}/openai/v1 for OpenAI's SDKs, ${baseUrl} for Anthropic's.

## ${clients?.title ?? ''}

${linesOf(clients?.pages ?? [])}
## ${reference.title}

- [openapi.json](${baseUrl}/openapi.json): all of it as an OpenAPI 3.1 document
${linesOf(ofReference)}
## ${others[0]?.title ?? ''}

${linesOf(ofOthers.filter((page) => !isOptional(page)))}
## Optional

${linesOf(ofOthers.filter(isOptional))}`;
}

/** The first sentence of a page that says what it is about. */
function summaryOf(content: string): string {
  const [sentence = ''] = /^.*?\.(?= |$)/.exec(content.replace(/^For operators\. /, '')) ?? [];
  return sentence === '' ? '' : `: ${sentence.slice(0, -1)}`;
}
