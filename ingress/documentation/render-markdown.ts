import { Marked, type Token, type Tokens } from 'marked';
import { escapeHtml } from '../pages/escape-html.ts';
import { createHeadingIds } from './heading-ids.ts';

/** A heading of a page; `text` has no markup. */
export type Section = { id: string; text: string; depth: number };

/** `title` is the text of the first-level heading; `body` is HTML; `sections` are all other headings. */
export type RenderedPage = { title: string; body: string; sections: Section[] };

type Wishes = {
  /** Applied to text, code and addresses before they are written. */
  fill?: (text: string) => string;
  /** Returns the address of another page; `page` is the relative path of its file without `.md`. */
  hrefOf: (page: string) => string;
};

const otherPage = /^((?:\.\.\/|[\w-]+\/)*[\w-]+)\.md(#.*)?$/;
const comment = /^<!--(?:(?!-->)[\s\S])*-->\s*$/;
const followed = /^(https?:\/\/|#|\/(?!\/))/;

/**
 * Renders a page to HTML that contains only the markup of Markdown: HTML tags in it become text, and links with other schemes become plain
 * text. Each heading has an id and links to itself. Code blocks and tables are regions that can be scrolled by keyboard, each
 * named for the heading above it.
 */
export function renderMarkdown(markdown: string, { fill = (text) => text, hrefOf }: Wishes): RenderedPage {
  const marked = new Marked({ gfm: true });
  const tokens = marked.lexer(markdown);
  marked.walkTokens(tokens, (token) => fillToken(token, fill));
  const headings = listHeadings(tokens);
  const regionName = createRegionNames();
  let under = '';

  marked.use({
    renderer: {
      heading(token) {
        const { id, text } = headings.get(token) ?? { id: '', text: '' };
        under = text;
        const content = this.parser.parseInline(token.tokens);
        return `<h${token.depth} id="${escapeHtml(id)}"><a href="#${escapeHtml(id)}">${content}</a></h${token.depth}>\n`;
      },
      code({ text, lang = '' }) {
        const [language = ''] = lang.split(' ');
        const name = escapeHtml(regionName('Code', under));
        const label = language === '' ? '' : ` data-language="${escapeHtml(language)}"`;
        return `<pre role="region" tabindex="0" aria-label="${name}"${label}><code>${escapeHtml(text)}</code></pre>\n`;
      },
      table({ header, rows }) {
        const cells = (of: Tokens.TableCell[], tag: string) =>
          of.map(({ tokens }) => `<${tag}>${this.parser.parseInline(tokens)}</${tag.slice(0, 2)}>`).join('');
        const body = rows.map((row) => `<tr>${cells(row, 'td')}</tr>`).join('\n');
        const name = escapeHtml(regionName('Table', under));
        const head = `<thead><tr>${cells(header, 'th scope="col"')}</tr></thead>`;
        return `<div class="scroll" role="region" tabindex="0" aria-label="${name}"><table>${head}<tbody>${body}</tbody></table></div>\n`;
      },
      link({ href, tokens }) {
        const content = this.parser.parseInline(tokens);
        const [, page, anchor = ''] = otherPage.exec(href) ?? [];
        const target = page === undefined ? href : `${hrefOf(page)}${anchor}`;
        return followed.test(target) ? `<a href="${escapeHtml(target)}">${content}</a>` : content;
      },
      image: ({ text }) => escapeHtml(text),
      // Comments mark what is generated; any other tag is text.
      html: ({ text }) => (comment.test(text) ? '' : escapeHtml(text)),
    },
  });
  const body = marked.parser(tokens);
  const [title, ...sections] = headings.values();
  return { title: title?.text ?? '', body, sections };
}

function fillToken(token: Token, fill: (text: string) => string): void {
  if ((token.type === 'text' && token.tokens === undefined) || token.type === 'code' || token.type === 'codespan') {
    token.text = fill(token.text);
  } else if (token.type === 'link') {
    token.href = fill(token.href);
  }
}

function listHeadings(tokens: readonly Token[]): Map<Token, Section> {
  const headingId = createHeadingIds();
  const headings = tokens.filter((token): token is Tokens.Heading => token.type === 'heading');
  return new Map(
    headings.map((token) => {
      const { depth, tokens: parts } = token;
      const text = plainText(parts);
      return [
        token,
        { id: headingId({ text, depth, code: parts.length === 1 && parts[0]?.type === 'codespan' }), text, depth },
      ];
    }),
  );
}

function plainText(tokens: readonly Token[]): string {
  return tokens
    .map((token) => ('tokens' in token && token.tokens ? plainText(token.tokens) : (token as Tokens.Text).text))
    .join('');
}

/** Region names are unique, so that screen readers can distinguish them. */
function createRegionNames(): (kind: string, under: string) => string {
  const counts = new Map<string, number>();
  return function regionName(kind, under) {
    const name = `${kind}: ${under}`;
    const count = (counts.get(name) ?? 0) + 1;
    counts.set(name, count);
    return count === 1 ? name : `${name} (${count})`;
  };
}
