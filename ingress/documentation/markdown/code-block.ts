import { escapeHtml } from '../../pages/escape-html.ts';
import { highlight } from './highlight.ts';

/** `name` is for screen readers, unique on its page. */
export type CodeBlock = { code: string; language: string; name: string };

/** A block of code that can be scrolled by keyboard. The script of the page gives it a button that copies the code. */
export function codeBlock({ code, language, name }: CodeBlock): string {
  const label = language === '' || language === 'text' ? '' : ` data-language="${escapeHtml(language)}"`;
  const pre = `<pre role="region" tabindex="0" aria-label="${escapeHtml(name)}"><code>${highlight(code, language)}</code></pre>`;
  return `<div class="code"${label}>${pre}</div>\n`;
}

/** The same example in several languages, one below the other, each with its name. The script of the page makes tabs of them. */
export function variantBlocks(variants: readonly { name: string; html: string }[]): string {
  const blocks = variants.map(({ name, html }) => {
    const shown = escapeHtml(name);
    return `<div class="variant" data-name="${shown}"><p class="variant-name">${shown}</p>\n${html}</div>\n`;
  });
  return `<div class="variants">\n${blocks.join('')}</div>\n`;
}

/** Region names are unique on a page, so that screen readers can distinguish them. */
export function createRegionNames(): (kind: string, under: string) => string {
  const counts = new Map<string, number>();
  return function regionName(kind, under) {
    const name = `${kind}: ${under}`;
    const count = (counts.get(name) ?? 0) + 1;
    counts.set(name, count);
    return count === 1 ? name : `${name} (${count})`;
  };
}
