import type { HLJSApi, LanguageFn } from 'highlight.js';
import core from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import dockerfile from 'highlight.js/lib/languages/dockerfile';
import http from 'highlight.js/lib/languages/http';
import ini from 'highlight.js/lib/languages/ini';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import python from 'highlight.js/lib/languages/python';
import typescript from 'highlight.js/lib/languages/typescript';
import yaml from 'highlight.js/lib/languages/yaml';

/** `name` is for screen readers, unique on its page. */
type CodeBlock = { code: string; language: string; name: string };

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

/** Server-sent events: the names of fields, and data in JSON. Other text stays as it is. */
const events: LanguageFn = () => ({
  name: 'Server-sent events',
  contains: [
    { scope: 'comment', begin: /^: .*/ },
    { scope: 'attr', begin: /^(?:data|event|id|retry)(?=: )/, starts: { end: /$/, subLanguage: ['json'] } },
  ],
});

const languages: Readonly<Record<string, LanguageFn>> = {
  sh: bash,
  dockerfile,
  http,
  toml: ini,
  js: javascript,
  json,
  jsonl: json,
  python,
  ts: typescript,
  yaml,
  text: events,
};

const highlighter: HLJSApi = core.newInstance();
highlighter.configure({ classPrefix: 'token-' });
for (const [name, language] of Object.entries(languages)) highlighter.registerLanguage(name, language);

/** Code as HTML: text, and spans with classes for its colors. Code in an unknown language has no spans. */
export function highlight(code: string, language: string): string {
  if (!Object.hasOwn(languages, language)) return escapeHtml(code);
  const { value } = highlighter.highlight(code, { language, ignoreIllegals: true });
  return value.replace(punctuation, '$1');
}

/** Has the color of other text, and would be half of the spans in JSON. */
const punctuation = /<span class="token-punctuation">([^<]*)<\/span>/g;

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

/** Escapes text for HTML elements and quoted attributes. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character] ?? '');
}
