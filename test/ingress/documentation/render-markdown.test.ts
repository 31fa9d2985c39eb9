import test from 'ava';
import { fillPlaceholders, renderMarkdown } from '../../../ingress/documentation/render-markdown.ts';

const hrefOf = (page: string) => `/here/${page}`;
const render = (markdown: string) => renderMarkdown(markdown, { hrefOf });

test('a heading has an id that stays the same when others are added, and is a link to itself', (t) => {
  const { title, html, sections } = render(
    '# The Title\n\n## One\n\n### Fields\n\n## Two, & more\n\n### Fields\n\n### Fields',
  );
  t.is(title, 'The Title');
  t.deepEqual(
    sections.map(({ id, depth }) => [id, depth]),
    [
      ['one', 2],
      ['fields', 3],
      ['two-more', 2],
      ['two-more-fields', 3],
      ['two-more-fields-2', 3],
    ],
  );
  t.true(html.includes('<h2 id="two-more"><a href="#two-more">Two, &amp; more</a></h2>'));
});

test('no heading has the id of the element that contains the page', (t) => {
  const { sections } = render('# The Title\n\n## Content\n');
  t.deepEqual(
    sections.map(({ id }) => id),
    ['the-title-content'],
  );
});

test('a heading that is only code has the code as its id, unchanged', (t) => {
  const { sections } = render('# Errors\n\n### `NO_AUTH`\n\n### `rate_limit_exceeded`\n\n### `GET` it');
  t.deepEqual(
    sections.map(({ id }) => id),
    ['NO_AUTH', 'rate_limit_exceeded', 'get-it'],
  );
});

test('only markup of Markdown is rendered', (t) => {
  const hostile = [
    '<script>alert(1)</script>',
    'a <img src=x onerror=alert(1)> b',
    '[x](javascript:alert(1)) [y](//elsewhere.example) [z](data:text/html,x)',
    '![<b>](https://elsewhere.example/x.png)',
    '`<i>` and **<u>**',
    '```"><b>\n<script>\n```',
    '| <b> |\n|---|\n| <s> |',
  ].join('\n\n');
  const { html } = render(`# <em>T</em>\n\n${hostile}`);
  t.notRegex(html, /<(script|img|b|i|u|s|em)\b/);
  t.notRegex(html, /href="(javascript|data|\/\/)/);
  t.notRegex(html, /data-language="[^"]*[<>]/);
});

test('comments are left out, and similar text is kept', (t) => {
  const { html } = render('# T\n\n<!-- begin -->\n| a |\n|---|\n| b |\n<!-- end -->\n\n<!-- x --><b>y</b> <!-- z -->');
  t.notRegex(html, /begin|end/);
  t.true(html.includes('<td>b</td>'));
  t.true(html.includes('&lt;b&gt;y'));
});

test('links to files become links to their pages, and other links are unchanged', (t) => {
  const { html } = render(
    '[a](errors.md) [b](errors.md#NO_AUTH) [c](#here) [d](https://example.com/?a=1&b=2) [e](in/errors.md#NO_AUTH) [f](../up.md)',
  );
  t.deepEqual(
    [...html.matchAll(/href="([^"]*)"/g)].map(([, href]) => href),
    [
      '/here/errors',
      '/here/errors#NO_AUTH',
      '#here',
      'https://example.com/?a=1&amp;b=2',
      '/here/in/errors#NO_AUTH',
      '/here/../up',
    ],
  );
});

test('code and tables can be scrolled by keyboard, and have unique names', (t) => {
  const { html } = render('# T\n\n## Part\n\n```sh run\na\n```\n\n```\nb\n```\n\n| x |\n|---|\n| y |');
  const regions = [...html.matchAll(/<(?:pre|div)[^>]* role="region" tabindex="0" aria-label="([^"]*)"/g)];
  t.deepEqual(
    regions.map(([, name]) => name),
    ['Code: Part', 'Code: Part (2)', 'Table: Part'],
  );
  t.true(html.includes('<th scope="col">x</th>'));
});

test('a placeholder is filled in any text, escaped; an unknown one is an error', (t) => {
  const url = 'https://a.example/?x=1&y="<';
  const fill = (text: string) => fillPlaceholders(text, { url });
  const escaped = 'https://a.example/?x=1&amp;y=&quot;&lt;';
  const markdown =
    '# T\n\nAt {{url}}, `{{url}}` and *{{url}}*.\n\n```\n{{url}}\n```\n\n| {{url}} |\n|---|\n| {{url}} |';
  const { html } = renderMarkdown(markdown, { hrefOf, fill });
  t.is(html.split(escaped).length - 1, 6, html);
  t.true(renderMarkdown('[x]({{url}})', { hrefOf, fill }).html.includes('href="https://a.example/?x=1&amp;y='));
  t.throws(() => renderMarkdown('`{{other}}`', { hrefOf, fill }), { message: /"other"/ });
  t.throws(() => fillPlaceholders('{{ url }}', { url }));
  t.throws(() => fillPlaceholders('{{constructor}}', { url }));
});

test('each heading has the text below it, without code, for the search; errors are found by their messages', (t) => {
  const markdown = [
    '# T\n\nThe *first* `words`.\n\n## One\n\n- a [link](errors.md)\n- b\n\n| c |\n|---|\n| `d` |',
    '```sh run\nhidden\n```\n\n```json error NO_AUTH\n{"error": "No credential."}\n```\n\n<!-- comment -->\n\n### Two\n\nThe end.',
  ].join('\n\n');
  const { content, sections } = render(markdown);
  t.is(content, 'The first words.');
  t.deepEqual(
    sections.map(({ text, content: own }) => [text, own]),
    [
      ['One', 'a link b c d {"error": "No credential."}'],
      ['Two', 'The end.'],
    ],
  );
});

const block = (info: string, text = info) => `\`\`\`${info}\n${text}\n\`\`\`\n`;
const htmlOf = (...parts: string[]) => renderMarkdown(`# T\n\n${parts.join('\n')}`, { hrefOf: (page) => page }).html;
const namesIn = (html: string) => [...html.matchAll(/data-name="(\w+)"/g)].map(([, name]) => name);

test('examples in different languages that follow each other are one group, each with its output', (t) => {
  const html = htmlOf(block('sh run'), block('json output', '{"x": 1}'), block('ts run'), block('python run'));
  t.is(html.split('<div class="variants">').length, 2);
  t.deepEqual(namesIn(html), ['curl', 'Node', 'Python']);
  const [, curl = '', node = ''] = html.split('<div class="variant"');
  t.true(curl.includes('<p class="variant-name">curl</p>') && curl.includes('data-language="json"'));
  t.false(node.includes('data-language="json"'));
});

test('a block alone, blocks with text between them, and blocks without commands are no group', (t) => {
  t.deepEqual(namesIn(htmlOf(block('sh run'), block('json output', '{}'))), []);
  t.deepEqual(namesIn(htmlOf(block('sh run'), 'In Node:\n', block('ts run'))), []);
  t.deepEqual(namesIn(htmlOf(block('sh settings'), block('toml settings'))), []);
  t.deepEqual(namesIn(htmlOf(block('yaml plan'), block('sh run'))), []);
});

test('a second example in the same language begins another group, and no block is lost', (t) => {
  const html = htmlOf(
    ...[block('sh run', 'one'), block('ts run', 'two'), block('sh run', 'three'), block('text output', 'four')],
    block('python run', 'five'),
    'The end.',
  );
  t.is(html.split('<div class="variants">').length, 3);
  t.deepEqual(namesIn(html), ['curl', 'Node', 'curl', 'Python']);
  t.deepEqual(
    [...html.matchAll(/<code>(?:<[^>]*>)*(\w+)/g)].map(([, text]) => text),
    ['one', 'two', 'three', 'four', 'five'],
  );
});
