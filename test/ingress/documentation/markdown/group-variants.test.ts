import test from 'ava';
import { renderMarkdown } from '../../../../ingress/documentation/markdown/render-markdown.ts';

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
