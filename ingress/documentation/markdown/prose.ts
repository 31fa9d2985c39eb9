import { Marked } from 'marked';
import { searchableText } from './plain-text.ts';
import { type HrefOf, safeRenderer } from './safe-renderer.ts';

/** Short texts in Markdown without headings and code blocks, such as the descriptions in an OpenAPI document. */
export function createProse(hrefOf: HrefOf) {
  const marked = new Marked({ gfm: true, async: false });
  marked.use({ renderer: safeRenderer(hrefOf) });
  return {
    /** HTML of paragraphs and lists. */
    blocks: (markdown: string): string => marked.parse(markdown) as string, // it is not asynchronous
    /** HTML of one line. */
    line: (markdown: string): string => marked.parseInline(markdown) as string, // as above
    /** The text without markup. */
    text: (markdown: string): string => searchableText(marked.lexer(markdown)),
  };
}

export type Prose = ReturnType<typeof createProse>;
