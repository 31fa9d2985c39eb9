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
import { escapeHtml } from '../../pages/escape-html.ts';

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
