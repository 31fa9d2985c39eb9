import { Marked, type RendererExtension, type Token, type Tokens } from 'marked';
import { escapeHtml } from '../../pages/escape-html.ts';
import { codeBlock, createRegionNames, variantBlocks } from './code-block.ts';
import { groupVariants, roleOf, type Variants } from './group-variants.ts';
import { createHeadingIds } from './heading-ids.ts';
import { plainText, searchableText } from './plain-text.ts';
import { type HrefOf, safeRenderer } from './safe-renderer.ts';

/** A heading of a page; `text` has no markup. `content` is the searchable text up to the next heading. */
export type Section = { id: string; text: string; depth: number; content: string };

/** `title` is the text of the first-level heading, `sections` are all other headings, and `content` is the text before them. */
export type RenderedPage = { title: string; html: string; sections: Section[]; content: string };

type Wishes = {
  /** Applied to text, code and addresses before they are written. */
  fill?: (text: string) => string;
  hrefOf: HrefOf;
};

/**
 * Renders a page to HTML that contains only the markup of Markdown: HTML tags in it become text, and links with other schemes become plain
 * text. Each heading has an id and links to itself. Code blocks and tables are regions that can be scrolled by keyboard, each
 * named for the heading above it. The same example in several languages is one group.
 */
export function renderMarkdown(markdown: string, { fill = (text) => text, hrefOf }: Wishes): RenderedPage {
  const marked = new Marked({ gfm: true });
  const tokens = marked.lexer(markdown);
  marked.walkTokens(tokens, (token) => fillToken(token, fill));
  const headings = listHeadings(tokens);
  const regionName = createRegionNames();
  let under = '';

  marked.use({
    extensions: [variantsRenderer],
    renderer: {
      ...safeRenderer(hrefOf),
      heading(token) {
        const { id, text } = headings.get(token) ?? { id: '', text: '' };
        under = text;
        const content = this.parser.parseInline(token.tokens);
        return `<h${token.depth} id="${escapeHtml(id)}"><a href="#${escapeHtml(id)}">${content}</a></h${token.depth}>\n`;
      },
      code: (token) =>
        codeBlock({ code: token.text, language: roleOf(token).language, name: regionName('Code', under) }),
      table({ header, rows }) {
        const cells = (of: Tokens.TableCell[], tag: string) =>
          of.map(({ tokens }) => `<${tag}>${this.parser.parseInline(tokens)}</${tag.slice(0, 2)}>`).join('');
        const lines = rows.map((row) => `<tr>${cells(row, 'td')}</tr>`).join('\n');
        const name = escapeHtml(regionName('Table', under));
        const head = `<thead><tr>${cells(header, 'th scope="col"')}</tr></thead>`;
        return `<div class="scroll" role="region" tabindex="0" aria-label="${name}"><table>${head}<tbody>${lines}</tbody></table></div>\n`;
      },
    },
  });
  const html = marked.parser(groupVariants(tokens));
  const [title, ...sections] = headings.values();
  return { title: title?.text ?? '', html, sections, content: title?.content ?? '' };
}

const variantsRenderer: RendererExtension = {
  name: 'variants',
  renderer(token) {
    const { variants } = token as Variants; // as its name says
    return variantBlocks(variants.map(({ name, blocks }) => ({ name, html: this.parser.parse(blocks) })));
  },
};

function fillToken(token: Token, fill: (text: string) => string): void {
  if ((token.type === 'text' && token.tokens === undefined) || token.type === 'code' || token.type === 'codespan') {
    token.text = fill(token.text);
  } else if (token.type === 'link') {
    token.href = fill(token.href);
  }
}

function listHeadings(tokens: readonly Token[]): Map<Token, Section> {
  const headingId = createHeadingIds();
  const positions = tokens.flatMap((token, index) => (token.type === 'heading' ? [index] : []));
  return new Map(
    positions.map((position, index) => {
      const token = tokens[position] as Tokens.Heading; // as its type says
      const { depth, tokens: parts } = token;
      const text = plainText(parts);
      const id = headingId({ text, depth, code: parts.length === 1 && parts[0]?.type === 'codespan' });
      const content = searchableText(tokens.slice(position + 1, positions[index + 1]));
      return [token, { id, text, depth, content }];
    }),
  );
}
