import test from 'ava';
import { highlight } from '../../../ingress/documentation/code-block.ts';

/** The text that a browser shows for this HTML. */
const shown = (html: string) =>
  html
    .replace(/<[^>]*>/g, '')
    .replace(/&lt;|&gt;|&quot;|&#x27;|&#39;/g, (entity) => ({ '&lt;': '<', '&gt;': '>', '&quot;': '"' })[entity] ?? "'")
    .replaceAll('&amp;', '&');

const samples: Record<string, string> = {
  sh: `curl -s "$URL" -d '{"a": "it'\\''s <b>"}' && echo done # a comment`,
  json: '{ "a": [1, true, null], "b": "</code><script>&" }',
  jsonl: '{"a": 1}\n{"b": "c"}',
  yaml: 'a: "x" # comment\nb:\n  - 1',
  ts: "import A from 'a';\nconst b: A<string> = await new A({ c: `1` }); // d",
  js: 'for (const a of [1, 2]) console.log(a && "<i>");',
  python: 'import os\nprint(f"{os.environ[\'KEY\']} <b>", 1 < 2, True)',
  http: 'POST /v1/x HTTP/1.1\nhost: a.example\n\n{"a": 1}',
  toml: 'model = "a"\n[b]\nc = 1',
  dockerfile: 'FROM node:24\nCMD ["node", "main.ts"]',
  text: 'event: error\ndata: {"a": "<b>"}\n\n: waiting\n\ndata: [DONE]\n\n{"id":"…"} and a → b',
  promql: 'rate(x{a="b"}[5m]) > 1',
  '': 'no <language>',
  constructor: 'no language either',
};

test('the text of code stays exactly as it is, in every language, and no markup of it is markup of the page', (t) => {
  for (const [language, code] of Object.entries(samples)) {
    const html = highlight(code, language);
    t.is(shown(html), code, language);
    t.notRegex(html.replace(/<\/?span[^>]*>/g, ''), /[<>]/, language);
  }
});

test('parts of code have classes, and nothing is inline', (t) => {
  for (const language of ['sh', 'json', 'yaml', 'ts', 'js', 'python', 'http', 'toml', 'dockerfile', 'text']) {
    const html = highlight(samples[language] ?? '', language);
    t.regex(html, /<span class="token-/, language);
    t.notRegex(html, /style=|token-punctuation/, language);
  }
  t.true(highlight('data: {"a": 1}', 'text').includes('<span class="token-number">1</span>'));
  t.is(highlight('a & b', 'promql'), 'a &amp; b');
});
